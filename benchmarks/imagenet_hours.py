"""Predicted cost of the paper's ImageNet run: hours and price on 1, 8 and 64 GPUs, from measured rates.

    python benchmarks/imagenet_hours.py results/benchmarks/imagenet-h200.json --write docs/imagenet.md

The model. A step of 1024 images on n GPUs has b = 1024 / n images on each:

    compute  b / (images per second measured at the nearest batch: one GPU with its graph, compiled if that was
             measured, several without both, though they are compiled in practice)
    gradients  a ring all-reduce of 25.5 million float32: 2 (n - 1) / n * 102 MB / bandwidth + 2 (n - 1) * latency
    negatives  FCL and CL gather embeddings [1024, 2048], and add up their gradients: 3 (n - 1) / n * 8.4 MB / bandwidth
    step  max(compute + gradients + negatives, b / (cores per GPU * images per second that each of all cores decodes))

The model assumes that no communication overlaps with the backward pass, so actual times should be lower. A run has 90
epochs of 1251 steps; FCL costs as much as XE in the first 60. In the grid CL+Gaussian is counted as FCL, and
XE+Gaussian as FCL from the first epoch on; both cost less, and epochs that methods share are counted for each. Tests
are not included.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from places import to_read

BEGIN, END = "<!-- measured by benchmarks/imagenet.py -->", "<!-- end -->"
STEPS, EPOCHS, BATCH, LATE = 1251, 90, 1024, 60
WANTED = (
    "decode, 1 core",
    *(f"{name}, batch 256, JPEGs, {way}" for name in ("XE", "FCL") for way in ("plain", "engine")),
    *(f"{name}, batch 256, synthetic, engine, compiled" for name in ("XE", "FCL")),
)
GRADIENTS, EMBEDDINGS = 25_549_352 * 4, BATCH * 2048 * 4  # bytes


@dataclass(frozen=True)
class Cluster:
    """bandwidth in bytes/s of a ring, as one GPU sees it; latency in s; price of a GPU-hour."""

    gpus: int
    bandwidth: float
    latency: float
    cores: int  # per GPU
    price: float


def step_seconds(rates: dict[str, Any], name: str, cluster: Cluster) -> tuple[float, str]:
    """The seconds of a step, and its bottleneck."""
    n, b = cluster.gpus, BATCH / cluster.gpus
    compute = b / speed(rates, name, b, graph=n == 1)
    ring = (n - 1) / n
    gradients = 2 * ring * GRADIENTS / cluster.bandwidth + 2 * (n - 1) * cluster.latency
    negatives = 3 * ring * EMBEDDINGS / cluster.bandwidth if name == "FCL" else 0.0
    decode = b / (cluster.cores * decoded_per_core(rates))
    worked = compute + gradients + negatives
    return max(worked, decode), "decoding" if decode > worked else "the GPU"


def decoded_per_core(rates: dict[str, Any]) -> float:
    """Images per second of one core while all are busy, or of the only one measured."""
    found = {}
    for label, rate in rates.items():
        what, _, count = label.partition(", ")
        if what == "decode":
            found[int(count.split()[0])] = float(rate["images_per_second"])
    if not found:
        raise SystemExit("the file has no decoding rate: run benchmarks/imagenet.py with more --seconds")
    return found[max(found)] / max(found)


def speed(rates: dict[str, Any], name: str, batch: float, graph: bool) -> float:
    """Images per second of one GPU, measured at the nearest batch."""
    found = {}
    for label, rate in rates.items():
        parts = label.split(", ")
        if parts[0] == name and "synthetic" in parts and "engine" in parts and ("no graph" in parts) != graph:
            size = int(parts[1].removeprefix("batch "))
            found[size] = max(found.get(size, 0.0), float(rate["images_per_second"]))
    if not found:
        raise SystemExit(
            f"the file has no rate of {name} by the engine {'with' if graph else 'without'} a graph: "
            "run benchmarks/imagenet.py with more --seconds"
        )
    return found[min(found, key=lambda size: abs(size - batch))]


def hours(rates: dict[str, Any], name: str, cluster: Cluster, start: int = LATE) -> float:
    """The hours of a run whose steps are those of XE before an epoch, and of `name` from then on."""
    plain, contrast = (step_seconds(rates, each, cluster)[0] for each in ("XE", name))
    return STEPS * (start * plain + (EPOCHS - start) * contrast) / 3600


def clusters(cores: int, price: float) -> list[Cluster]:
    """One GPU; a node of 8 with NVLink; 8 such nodes with 400 Gb/s for each GPU. 80 % of the nominal bandwidth."""
    return [
        Cluster(1, 1.0, 0.0, cores, price),
        Cluster(8, 0.8 * 450e9, 10e-6, cores, price),
        Cluster(64, 0.8 * 50e9, 10e-6, cores, price),
    ]


def measured_table(found: dict[str, Any]) -> list[str]:
    lines = ["| measured | images/s | GPU memory, GB |", "|---|---:|---:|"]
    for label, rate in found["rates"].items():
        memory = f"{rate['peak_gb']:.1f}" if "peak_gb" in rate and not label.startswith("decode") else "-"
        lines.append(f"| {label} | {rate['images_per_second']:,.0f} | {memory} |")
    return lines


def predicted_table(rates: dict[str, Any], cores: int, price: float) -> list[str]:
    speeds = "XE, images/s | waits for | FCL's contrast, images/s | waits for"
    head = f"| predicted | a GPU has | {speeds} | XE, hours | FCL, hours | 6 methods x 5 seeds | cost |"
    lines = [head, "|---|---:|---:|---|---:|---|---:|---:|---:|---:|"]
    for cluster in clusters(cores, price):
        steps = [step_seconds(rates, each, cluster) for each in ("XE", "FCL")]
        shown = " | ".join(f"{BATCH / seconds:,.0f} | {waits}" for seconds, waits in steps)
        xe, fcl = hours(rates, "XE", cluster), hours(rates, "FCL", cluster)
        grid = 5 * (2 * xe + 3 * fcl + hours(rates, "FCL", cluster, start=0))
        name = f"{cluster.gpus} GPU{'s' if cluster.gpus > 1 else ''}"
        cells = f"{BATCH // cluster.gpus} of {BATCH} | {shown} | {xe:.1f} | {fcl:.1f}"
        lines.append(f"| {name} | {cells} | {grid:,.0f} h | ${grid * cluster.gpus * price:,.0f} |")
    return lines


def section(found: dict[str, Any], cores: int, price: float) -> str:
    rates, jpegs = found["rates"], found["jpegs"]
    where = f"{found['device']}, {found['cores']} cores, torch {found['versions']['torch']}, commit {found['commit']}"
    said = f"Measured on one {where}; {jpegs['count']:,} JPEGs of {jpegs['mean_kb']:.0f} kB on average."
    if not any("engine" in label for label in rates):
        return "\n".join([said, "", *measured_table(found)])
    left = [label for label in WANTED if label not in rates]
    still = ["", f"Still to be measured: {'; '.join(left)}."] if left else []
    compiled = [name for name in ("XE", "FCL") if f"{name}, batch 256, synthetic, engine, compiled" in rates]
    model = (
        f"Predicted from these numbers by `benchmarks/imagenet_hours.py`, which states its model: {cores} cores decode "
        f"for each GPU, each {decoded_per_core(rates):.0f} images/s; a GPU-hour costs ${price:.2f}; NVLink carries 450 "
        "GB/s and the network 50 GB/s for each GPU, of which 80 % are reached and nothing hides behind the backward "
        f"pass. One GPU has the speed of the graph{', compiled for ' if compiled else ''}{' and '.join(compiled)}, at "
        "a batch of 256; several have that without graph and compiler. Tests are not in it."
    )
    predicted = predicted_table(rates, cores, price)
    return "\n".join([said, "", *measured_table(found), *still, "", model, "", *predicted])


def between_marks(path: Path, text: str) -> str:
    """A page with the text inserted between its marks."""
    page = path.read_text()
    if page.count(BEGIN) != 1 or END not in page.partition(BEGIN)[2]:
        raise SystemExit(f"{path} has no marks: add {BEGIN} and {END} where the section belongs")
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=to_read)
    parser.add_argument("--cores", type=cores, default=16, help="cores that decode for each GPU")
    parser.add_argument("--price", type=price, default=3.0, help="price of a GPU-hour, in dollars")
    parser.add_argument("--write", type=to_read, help="a page with marks; the section is written between them")
    arguments = parser.parse_args()
    text = section(measured(arguments.measured), arguments.cores, arguments.price)
    print(text)
    if arguments.write is not None:
        arguments.write.write_text(between_marks(arguments.write, text))


def cores(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} must be a number of cores, 1 or more")
    return int(text)


def price(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < inf:
        raise argparse.ArgumentTypeError(f"{text} must be a price, 0 or more")
    return value


def measured(path: Path) -> dict[str, Any]:
    """The measurements that benchmarks/imagenet.py wrote."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        missing = {"rates", "jpegs", "device", "cores", "versions", "commit"} - set(found)
    except (ValueError, TypeError) as error:
        raise SystemExit(f"{path} was not written by benchmarks/imagenet.py: {error}") from None
    if missing:
        raise SystemExit(f"{path} was not written by benchmarks/imagenet.py: it has no {', '.join(sorted(missing))}")
    return found


if __name__ == "__main__":
    main()
