"""The cost of exact cross-entropy: epochs by the engine with CrossEntropy, and with torch's, which rounds.

    python benchmarks/loss.py --device cuda --out results/benchmarks/loss-h200.json
    python benchmarks/loss.py --device cpu --case lenet --share 0.05

Uses random pixels; epochs of both losses alternate, and the fastest of each counts.
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from places import present, to_write

from poise.data.loading.resident import DeviceLoader
from poise.features.perturbation import Gaussian
from poise.features.selection import TopBottom
from poise.features.utility import GradientUtility
from poise.losses import CrossEntropy, _known_classes
from poise.objectives.fcl import FCL
from poise.objectives.objective import XE
from poise.running.benchmark import CASES, Case, _by_engine, _wait
from poise.running.record import surroundings

TURNS = 12


@dataclass(frozen=True)
class Rounding:
    """The same loss by torch's cross_entropy, with the same check for unknown classes."""

    def __call__(self, logits: torch.Tensor, y: torch.Tensor, /) -> torch.Tensor:
        classes, inside = _known_classes(y, logits.shape[-1])
        return F.cross_entropy(logits.float(), classes, reduction="none").where(inside, torch.nan)


def measure(case: Case, device: torch.device, share: float) -> dict[str, dict[str, float]]:
    """{objective: seconds of an epoch with torch's loss and with ours}."""
    count, generator = int(case.images * share), torch.Generator(device).manual_seed(0)
    images = torch.randint(0, 256, (count, *case.shape), dtype=torch.uint8, device=device, generator=generator)
    labels = torch.randint(0, 10, (count,), device=device, generator=generator)
    data = DeviceLoader(images.contiguous(memory_format=case.plan.layout), labels, case.plan.batch_size, case.augment)
    fcl = FCL(GradientUtility(), TopBottom(k=256), Gaussian(sigma=0.5), case.contrast, weight=1e-4)
    found = {}
    for name, objective in (("XE", XE()), ("FCL", fcl)):
        found[name] = in_turns(case, device, data, {
            "torch": replace(objective, loss=Rounding()), "ours": replace(objective, loss=CrossEntropy())
        })  # fmt: skip
        ours, theirs = found[name]["ours"], found[name]["torch"]
        print(f"| {case.name}, {name} | {theirs:.4f} | {ours:.4f} | {100 * (ours / theirs - 1):+.2f} % |", flush=True)
    return found


def in_turns(case: Case, device: torch.device, data: DeviceLoader, objectives: dict[str, Any]) -> dict[str, float]:
    seconds: dict[str, list[float]] = {name: [] for name in objectives}
    with ExitStack() as stack:
        epochs = {name: stack.enter_context(_by_engine(case, device, data, each)) for name, each in objectives.items()}
        for turn in range(TURNS):
            for name, epoch in epochs.items():
                _wait(device)
                begun = time.perf_counter()
                epoch(turn)
                _wait(device)
                seconds[name].append(time.perf_counter() - begun)
    return {name: min(each[2:]) for name, each in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=present, default="cuda")
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--share", type=float, default=1.0, help="share of the images")
    parser.add_argument("--out", type=to_write)
    given = parser.parse_args()
    device = torch.device(given.device)
    torch.backends.cudnn.benchmark = True
    print("| epoch | torch's, s | ours, s | more |\n|---|---:|---:|---:|")
    found = {name: measure(CASES[name], device, given.share) for name in given.case or CASES}
    if given.out:
        given.out.write_text(json.dumps({**surroundings(device), "turns": TURNS, "epochs": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
