"""An epoch of every method of the CIFAR tables, alone on a device: before and after its contrast is switched on.

    python benchmarks/epochs.py --device cuda --out results/benchmarks/epochs-h200.json
    python benchmarks/epochs.py --device cpu --length quick --steps 3

Times some steps on random pixels of CIFAR's shape, and multiplies by the steps of an epoch. Compiling and capturing are
not included. Records also have times, but of a GPU that several runs may have shared; docs/cifar_figures.py uses these
times for the cost of each method.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from places import present, some, to_write

from poise.data.loading.resident import DeviceLoader
from poise.objectives.objective import weight_of, with_weight
from poise.recipes.cifar.noisy_cifar import table
from poise.recipes.cifar.recipe import LENGTHS
from poise.recipes.settings import Length
from poise.running.beginnings import quiet
from poise.running.experiment import Experiment
from poise.running.record import surroundings
from poise.schedules import Constant, Ramp
from poise.training.loop import fit
from poise.training.plan import in_layout

ROUNDS = 3  # the first one is not counted


def switched_on(objective: Any) -> Any:
    """The objective with its final weight from the first step on."""
    weight = weight_of(objective)
    return with_weight(objective, Constant(weight.peak)) if isinstance(weight, Ramp) else objective


def step_seconds(experiment: Experiment, objective: Any, augment: Any, device: torch.device, steps: int) -> float:
    """The fastest of several rounds of `steps` steps, per step."""
    plan, generator = replace(experiment.plan, epochs=ROUNDS), torch.Generator(device).manual_seed(0)
    count = steps * plan.batch_size
    images = torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8, device=device, generator=generator)
    labels = torch.randint(0, 10, (count,), device=device, generator=generator)
    data = DeviceLoader(images.contiguous(memory_format=plan.layout), labels, plan.batch_size, augment)
    torch.manual_seed(0)
    model = in_layout(experiment.network().to(device), plan)
    return min(entry["seconds"] for entry in fit(model, objective, data, plan).log[1:]) / steps


def measure(length: Length, device: torch.device, steps: int) -> dict[str, dict[str, float]]:
    """{method: seconds of an epoch before and after its contrast begins}; equal for methods without a contrast."""
    experiment = table("cifar10", length)

    @cache
    def epoch(objective: Any, augment: Any) -> float:
        return step_seconds(experiment, objective, augment, device, steps) * (length.images // length.batch)

    found = {}
    for method in experiment.methods:
        after = epoch(switched_on(method.objective), method.augment)
        begins = isinstance(weight_of(method.objective), Ramp)
        before = epoch(quiet(method.objective), method.augment) if begins else after
        found[method.name] = {"before": before, "after": after}
        print(f"| {method.name} | {before:.3f} | {after:.3f} |", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=present, default="cuda")
    parser.add_argument("--length", choices=[length.name for length in LENGTHS], default="full")
    parser.add_argument("--steps", type=some, default=48)
    parser.add_argument("--out", type=to_write)
    given = parser.parse_args()
    (length,) = (each for each in LENGTHS if each.name == given.length)
    print("| method | before, s | after, s |\n|---|---:|---:|")
    found = measure(length, torch.device(given.device), given.steps)
    if given.out:
        facts = {**surroundings(torch.device(given.device)), "length": length.name, "steps": given.steps}
        given.out.write_text(json.dumps({**facts, "epochs": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
