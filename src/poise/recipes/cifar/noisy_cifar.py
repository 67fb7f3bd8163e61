"""Noisy CIFAR-10 and CIFAR-100 (section 4.3, Table 2): clean, and with 15 % of the pixels replaced by noise.

    poise data get cifar10 cifar100
    poise reproduce noisy-cifar --device cuda                  # both data sets, 450 epochs, 5 seeds a method
    poise reproduce noisy-cifar10 --device cuda --compressed   # one of them, 45 epochs
    poise reproduce noisy-cifar10 --quick --seeds 1            # a small network on two cores
    poise sweep noisy-cifar10 --compressed --name weight-decay

Expected (the paper, XE / FCL / PG+FCL): CIFAR-10 UN .132 / .375 / .821, CIFAR-100 UN .037 / .148 / .159.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from poise.data.loading.resident import on_device
from poise.data.pixel_noise import Kind, PixelNoise, pixel_deviation
from poise.recipes.cifar.recipe import (
    GROUPS,
    NAMES,
    TITLES,
    Cifar,
    Settings,
    grids,
    held_out,
    methods,
    network_of,
    parts,
    plan_of,
)
from poise.recipes.settings import Length
from poise.records.columns import Column
from poise.running.experiment import Examples, Experiment, Make, Task
from poise.running.sweeps import Sweep

SETTINGS = {
    "cifar10": Settings("cifar10", 14_000, 2.0, 0.1, 14_000, 1.0, 0.1),
    "cifar100": Settings("cifar100", 10_000, 0.1, 0.05, 10_000, 0.1, 0.05),
}
LEVELS = (0.05, 0.10, 0.20, 0.30)  # other shares of replaced pixels, for the curve
_KINDS: dict[str, Kind] = {"": "grey", " colour": "colour", " value": "value"}

_ROWS = {
    "cifar10": {
        "XE": ((0.9389, 0.0014), (0.1317, 0.0135), (0.1256, 0.0089)),
        "XE+Gaussian": ((0.9375, 0.0016), (0.3409, 0.0580), (0.3175, 0.0532)),
        "CL+Gaussian": ((0.9362, 0.0009), (0.2646, 0.0165), (0.2464, 0.0159)),
        "FCL": ((0.9375, 0.0010), (0.3749, 0.0293), (0.3432, 0.0231)),
        "PG+XE": ((0.9334, 0.0035), (0.7842, 0.0087), (0.7669, 0.0086)),
        "PG+FCL": ((0.9354, 0.0023), (0.8210, 0.0013), (0.8066, 0.0033)),
    },
    "cifar100": {
        "XE": ((0.7323, 0.0052), (0.0366, 0.0078), (0.0356, 0.0084)),
        "XE+Gaussian": ((0.7297, 0.0057), (0.0806, 0.0187), (0.0763, 0.0162)),
        "CL+Gaussian": ((0.7294, 0.0022), (0.0668, 0.0122), (0.0640, 0.0134)),
        "FCL": ((0.7252, 0.0076), (0.1477, 0.0227), (0.1007, 0.0160)),
        "PG+XE": ((0.7315, 0.0028), (0.0385, 0.0102), (0.0377, 0.0091)),
        "PG+FCL": ((0.7254, 0.0045), (0.1590, 0.0200), (0.1033, 0.0174)),
    },
}
PAPER: dict[str, dict[str, dict[str, tuple[float, float | None]]]] = {
    data: {method: dict(zip(("Clean", "UN", "NUN"), row, strict=True)) for method, row in rows.items()}
    for data, rows in _ROWS.items()
}


@dataclass(frozen=True)
class NoisyCifar:
    """The test images, clean and noisy: 15 % of the pixels in three readings, and other shares of grey ones.

    first  use only the first test images, for a quick look.
    """

    training: Cifar
    noise_seed: int = 0
    first: int | None = None

    def __call__(self) -> Task:
        test, train, validation = self.training.test(self.first), self.training.train(), self.training.validation()

        @cache
        def deviation() -> np.ndarray:
            return pixel_deviation(np.asarray(train.x))

        def noisy(of: Examples, noise: PixelNoise) -> Make:
            @cache
            def made(device: torch.device) -> Examples:
                images = noise(np.asarray(of.x), None if noise.uniform else deviation())
                return Examples(*on_device(images, of.y, device))

            return made

        tests: dict[str, Make] = {"Clean": lambda device: test}
        for uniform, word in ((True, "UN"), (False, "NUN")):
            for suffix, kind in _KINDS.items():
                tests[word + suffix] = noisy(test, PixelNoise(uniform, kind=kind, seed=self.noise_seed))
        for share in LEVELS:
            tests[f"UN {share:.0%}"] = noisy(test, PixelNoise(share=share, seed=self.noise_seed))
        validations = (
            {}
            if validation is None
            else {
                f"validation+{word}": noisy(validation, PixelNoise(uniform, seed=self.noise_seed + 1))
                for uniform, word in ((True, "UN"), (False, "NUN"))
            }
        )
        return Task(train, validation, tests, self.training.num_classes, validations)


def table(data: str, length: Length) -> Experiment:
    quick = length.quick
    first = length.images if quick else None
    return Experiment(
        name=f"noisy-{data}{length.suffix}",
        title=f"Noisy {TITLES[data]} (Table 2), {length.title}",
        task=NoisyCifar(Cifar(data, first=first), first=500 if quick else None),
        network=network_of(length, data),
        plan=plan_of(length, data),
        methods=methods(SETTINGS[data], length),
        columns=tuple(Column(name, (name,)) for name in ("Clean", "UN", "NUN")),
        groups=GROUPS,
        details={
            "other readings of the noise": tuple(
                Column(f"{word}{suffix}", (f"{word}{suffix}",))
                for suffix in (" colour", " value")
                for word in ("UN", "NUN")
            ),
            "UN by the share of pixels": tuple(
                Column(name, (name,)) for name in ("UN 5%", "UN 10%", "UN", "UN 20%", "UN 30%")
            ),
        },
        seeds=2 if quick else 5,
        class_names=NAMES[data],
        paper=PAPER[data],
    )


EXPERIMENTS = parts(table, "cifar10", "cifar100")


def sweeps(experiment: Experiment) -> dict[str, Sweep]:
    """Sweeps on held-out training images."""
    return grids(held_out(table, experiment))
