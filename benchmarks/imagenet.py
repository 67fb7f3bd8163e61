"""What ImageNet costs: decoding per core, and training ResNet-v2-50 with synthetic input and with real JPEGs.

    python benchmarks/imagenet.py --device cuda --out results/benchmarks/imagenet-h200.json     # three minutes
    python benchmarks/imagenet.py --decode-only --out results/benchmarks/imagenet-2-cores.json  # on any machine

The pictures are drawn by code at ImageNet's usual sizes. The plain loop is eager PyTorch with a stock DataLoader; the
engine captures a step, and compiles it where it says so. "no graph" is how the engine runs under torchrun. What is
measured is written at once, and the whole stops after --seconds: compiled steps, which take longest, come last.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import torch
from places import to_write
from torch.utils.data import DataLoader

from poise import FCL, XE, Gaussian, GradientUtility, InfoNCE, TopBottom, resnet_v2_50
from poise.data.drawn import Drawn
from poise.data.folders import Packed, imagenet_part
from poise.data.imagenet import PictureSet, RandomCrop, stream_epoch
from poise.data.loader import DeviceLoader, to_unit
from poise.data.sharding import write_shards
from poise.data.shards import open_part
from poise.data.streamed import Pictures, StreamLoader
from poise.experiments.benchmark import plain_fcl, plain_xe
from poise.experiments.environment import surroundings
from poise.schedules import Constant
from poise.training.engine import Engine
from poise.training.plan import SGD, Plan, in_layout

SIZES = ((500, 375), (500, 333), (375, 500), (640, 480), (400, 300))
WARM = 10
OBJECTIVES: dict[str, Any] = {
    "XE": XE(),
    "FCL": FCL(GradientUtility(), TopBottom(k=512), Gaussian(sigma=1.0), InfoNCE(0.5, "sum"), weight=2e-4),
}


class Bench:
    """Numbers by name, written as they come."""

    def __init__(self, device: torch.device, out: Path | None, seconds: float) -> None:
        self.device, self.out, self.deadline = device, out, time.monotonic() + seconds
        self.found: dict[str, Any] = {"cores": len(os.sched_getaffinity(0)), **surroundings(device), "rates": {}}

    def rate(self, name: str, measure: Callable[[], float], needs: float = 0.0) -> None:
        """Images per second; `needs` seconds must be left."""
        if time.monotonic() + needs > self.deadline:
            print(f"{name}: no time left", flush=True)
            return
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        begun = time.monotonic()
        try:
            value = measure()
        except Exception as error:  # torch.compile wraps the alarm in errors of its own
            if time.monotonic() < self.deadline - 1:
                raise
            raise TimeoutError from error
        self.found["rates"][name] = {"images_per_second": value, "took": time.monotonic() - begun}
        if self.device.type == "cuda":
            self.found["rates"][name]["peak_gb"] = torch.cuda.max_memory_allocated() / 1e9
            torch.cuda.empty_cache()
        print(f"{name}: {value:.1f} images/s ({time.monotonic() - begun:.1f} s)", flush=True)
        if self.out is not None:
            self.out.write_text(json.dumps(self.found, indent=1) + "\n")


def per_second(
    steps: Iterator[int],
    device: torch.device,
    warm: int,
    least: float,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Images of steps per second: each brings its number; some warm up, then they run for `least` seconds."""
    for _ in range(warm):
        next(steps)
    _wait(device)
    begun, images = clock(), 0
    while clock() - begun < least:
        for _ in range(4):
            images += next(steps)
        _wait(device)
    return images / (clock() - begun)


def decoding(source: Any, workers: int) -> float:
    """Crops per second of so many workers; without any, of a second that this process has the processor for."""
    pictures, clock = PictureSet(source, RandomCrop()), time.perf_counter if workers else time.process_time
    batches = (len(y) for epoch in count() for _, y in stream_epoch(pictures, 32, epoch, workers=workers))
    return per_second(batches, torch.device("cpu"), max(2, 2 * workers), 3, clock=clock)


def plan_for(batch: int) -> Plan:
    return Plan(1, batch, SGD(nesterov=False, weight_decay=1e-4), Constant(0.1), "bfloat16")


def network(device: torch.device, plan: Plan) -> Any:
    torch.manual_seed(0)
    return in_layout(resnet_v2_50(1000).to(device), plan)


def synthetic(batch: int, device: torch.device) -> DeviceLoader:
    images = torch.randint(0, 256, (4 * batch, 3, 224, 224), dtype=torch.uint8, device=device)
    labels = torch.randint(0, 1000, (4 * batch,), device=device)
    return DeviceLoader(images.contiguous(memory_format=torch.channels_last), labels, batch)


class Enough(Exception):
    """The time is over in the middle of an epoch."""


def by_engine(data: Any, objective: Any, device: torch.device, graph: bool = True, compiled: bool = False) -> float:
    """Images per second inside epochs, after the first batches."""
    plan = plan_for(data.batch_size)
    model = network(device, plan)
    if compiled:
        model.embed = torch.compile(model.embed, dynamic=False)
    engine = Engine(model, objective, data, plan.optimizer(model.parameters(), device), plan)
    engine._captures = engine._captures and graph
    seen, begun = 0, 0.0

    def progress(batch: int) -> None:
        nonlocal seen, begun
        seen += 1
        if seen == WARM:
            _wait(device)
            begun = time.perf_counter()
        elif seen > WARM and seen % 8 == 0:
            _wait(device)
            if time.perf_counter() - begun > 3:
                raise Enough

    try:
        for epoch in count():
            engine.epoch(epoch, progress)
    except Enough:
        return (seen - WARM) * data.batch_size / (time.perf_counter() - begun)
    raise AssertionError


def plainly(batches: Iterator[tuple[torch.Tensor, torch.Tensor]], loss: Any, device: torch.device, batch: int) -> float:
    model = network(device, plan_for(batch))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)

    def steps() -> Iterator[int]:
        model.train()
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast(device.type, torch.bfloat16):
                total = loss(model, x, y)
            total.backward()
            optimizer.step()
            yield len(y)

    return per_second(steps(), device, warm=6, least=2)


def _resident(data: DeviceLoader) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for epoch in count():
        yield from data.epoch(epoch)


def _from_jpegs(source: Any, batch: int, workers: int, device: torch.device) -> Iterator[tuple[Any, Any]]:
    """A stock DataLoader: as many workers, pinned memory."""
    places = [(0, index) for index in source.order(0, 0).tolist()]
    pictures, pin = PictureSet(source, RandomCrop()), device.type == "cuda"
    for x, y in DataLoader(pictures, batch, sampler=places, num_workers=workers, pin_memory=pin, drop_last=True):
        on_device = x.to(device, non_blocking=True).contiguous(memory_format=torch.channels_last)
        yield to_unit(on_device), y.to(device, non_blocking=True)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def measure_decoding(bench: Bench, folder: Path, shards: Path) -> None:
    cores = bench.found["cores"]
    listing = imagenet_part(folder, "train")
    bench.rate("decode, 1 core", lambda: decoding(listing, 0))
    bench.rate(f"decode, {cores} workers", lambda: decoding(listing, cores))
    bench.rate(f"decode from shards, {cores} workers", lambda: decoding(open_part(shards, "train"), cores))


def measure_training(bench: Bench, folder: Path, batch: int) -> None:
    device = bench.device
    torch.backends.cudnn.benchmark = True
    plain = {"XE": plain_xe, "FCL": plain_fcl(OBJECTIVES["FCL"])}
    for name, objective in OBJECTIVES.items():
        data, label = synthetic(batch, device), f"{name}, batch {batch}, synthetic"
        bench.rate(f"{label}, plain", partial(plainly, _resident(data), plain[name], device, batch))
        bench.rate(f"{label}, engine", partial(by_engine, data, objective, device))
    listing, cores = imagenet_part(folder, "train"), bench.found["cores"]
    source = Packed(replace(listing, pictures=listing.pictures * 40))  # an epoch longer than any measurement
    labels = torch.from_numpy(source.labels).to(device)
    for name, objective in OBJECTIVES.items():
        label, jpegs = f"{name}, batch {batch}, JPEGs", _from_jpegs(source, batch, cores, device)
        bench.rate(f"{label}, plain", partial(plainly, jpegs, plain[name], device, batch))
        data = StreamLoader(Pictures(source, RandomCrop(), cores), labels, batch, layout=torch.channels_last)
        bench.rate(f"{label}, engine", partial(by_engine, data, objective, device))
    for small in (128, 16):
        for name, objective in OBJECTIVES.items():
            label, data = f"{name}, batch {small}, synthetic, engine, no graph", synthetic(small, device)
            bench.rate(label, partial(by_engine, data, objective, device, graph=False))
    for name, objective in OBJECTIVES.items():
        label, data = f"{name}, batch {batch}, synthetic, engine, compiled", synthetic(batch, device)
        bench.rate(label, partial(by_engine, data, objective, device, compiled=True), needs=25)


def _over(signal: int, frame: object) -> None:
    print("the time is over", flush=True)
    raise TimeoutError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--decode-only", action="store_true")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--pictures", type=int, default=3000, help="JPEGs to draw, a hundred at least")
    parser.add_argument("--seconds", type=int, default=170, help="stop after so long")
    parser.add_argument("--out", type=to_write)
    arguments = parser.parse_args()
    bench = Bench(torch.device(arguments.device), arguments.out, arguments.seconds)
    signal.signal(signal.SIGALRM, _over)
    signal.alarm(arguments.seconds)
    recipe = Drawn(classes=100, train=max(1, arguments.pictures // 100), val=1, sizes=SIZES, quality=92)
    with tempfile.TemporaryDirectory() as place, suppress(TimeoutError):
        begun = time.monotonic()
        folder = recipe.write(Path(place), bench.found["cores"])
        write_shards(folder, Path(place, "shards"), 500)
        files = [path.stat().st_size for path in (folder / "train").rglob("*.JPEG")]
        bench.found["jpegs"] = {"count": len(files), "mean_kb": sum(files) / len(files) / 1000}
        print(f"drawn: {len(files)} JPEGs in {time.monotonic() - begun:.1f} s", flush=True)
        measure_decoding(bench, folder, Path(place, "shards"))
        if not arguments.decode_only:
            measure_training(bench, folder, arguments.batch)


if __name__ == "__main__":
    main()
