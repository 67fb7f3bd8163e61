"""An epoch of every method of the CIFAR tables, alone on a device: before its contrast is switched on, and after.

    python benchmarks/epochs.py --device cuda --out results/benchmarks/epochs-h200.json
    python benchmarks/epochs.py --device cpu --length quick --steps 3

Random pixels of CIFAR's shape; some steps by the engine, as the recipe has them, times the steps of an epoch. What is
compiled and captured comes before, and does not count. Records have times as well, but where several runs share a GPU
those are of the company: docs/cifar_figures.py draws what a method costs from these.
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from places import present, some, to_write

from poise.data.loader import DeviceLoader
from poise.experiments.cifar import LENGTHS
from poise.experiments.environment import surroundings
from poise.experiments.experiment import Experiment
from poise.experiments.lengths import Length
from poise.experiments.noisy_cifar import table
from poise.experiments.trunks import quiet, quiet_epochs
from poise.schedules import Ramp
from poise.training.compiling import compiled, compiles
from poise.training.engine import Engine
from poise.training.plan import in_layout

REPEATS = 3


def switched_on(objective: Any) -> Any:
    """The objective with the weight that it has in the end, from the first step on."""
    inner = getattr(objective, "objective", None)
    if inner is not None:
        return replace(objective, objective=switched_on(inner))
    weight = getattr(objective, "weight", None)
    return replace(objective, weight=weight.peak) if isinstance(weight, Ramp) else objective


def step_seconds(experiment: Experiment, objective: Any, augment: Any, device: torch.device, steps: int) -> float:
    """The fastest of some rounds of so many steps, divided by them."""
    plan, generator = experiment.plan, torch.Generator(device).manual_seed(0)
    count = steps * plan.batch_size
    images = torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8, device=device, generator=generator)
    labels = torch.randint(0, 10, (count,), device=device, generator=generator)
    images = images.contiguous(memory_format=plan.layout)
    torch.manual_seed(0)
    model = in_layout(experiment.network().to(device), plan)
    with compiled(model) if compiles(model, plan, device) else nullcontext():
        data = DeviceLoader(images, labels, plan.batch_size, augment)
        engine = Engine(model, objective, data, plan.optimizer(model.parameters(), device), plan)
        return min(seconds(engine, number, device) for number in range(1 + REPEATS)) / steps


def seconds(engine: Engine, number: int, device: torch.device) -> float:
    """Of one round, whatever it leaves on the device included."""
    begun = time.perf_counter()
    engine.epoch(number)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - begun


def measure(length: Length, device: torch.device, steps: int) -> dict[str, dict[str, float]]:
    """{method: seconds of an epoch before and after its contrast begins, and the share of the run that is before}."""
    experiment = table("cifar10", length)

    @cache
    def epoch(objective: Any, augment: Any) -> float:
        return step_seconds(experiment, objective, augment, device, steps) * (length.images // length.batch)

    found = {}
    for method in experiment.methods:
        share = quiet_epochs(experiment, method, length.images) / length.epochs
        after = epoch(switched_on(method.objective), method.augment)
        before = epoch(quiet(method.objective), method.augment) if share else after
        found[method.name] = {"before": before, "after": after, "share before": share}
        print(f"| {method.name} | {before:.3f} | {after:.3f} | {share:.0%} |", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=present, default="cuda")
    parser.add_argument("--length", choices=[length.name for length in LENGTHS], default="full")
    parser.add_argument("--steps", type=some, default=20)
    parser.add_argument("--out", type=to_write)
    given = parser.parse_args()
    (length,) = (each for each in LENGTHS if each.name == given.length)
    print("| method | before, s | after, s | before it begins |\n|---|---:|---:|---:|")
    found = measure(length, torch.device(given.device), given.steps)
    if given.out:
        facts = surroundings(torch.device(given.device))
        given.out.write_text(json.dumps({**facts, "epochs": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
