"""CIFAR-10-C and CIFAR-100-C (section 4.3, Table 3 and appendix D): 19 common corruptions at 5 severities.

    poise data get cifar10 cifar100                      # and cifar10-c, cifar100-c for the published pictures
    poise reproduce cifar-c --device cuda                # both data sets, 450 epochs, 5 seeds a method
    poise reproduce cifar10-c --device cuda --compressed # one of them, 45 epochs
    poise reproduce cifar10-c --quick --seeds 1          # a small network on two cores

Models of noisy-cifar with the same recipe are reused. Two rows have settings of their own in appendix C: PG+FCL on
CIFAR-10 (ramp_up) and PG+XE on CIFAR-100 (sigma). Without the published pictures, `poise.corrupt` generates them.

Expected (the paper, XE / FCL): all 19 .714 / .745 on CIFAR-10-C, .443 / .471 on CIFAR-100-C.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch

from poise.corruptions import protocols
from poise.corruptions.protocols import CORRUPTIONS, EXTRA, SEVERITIES, STANDARD
from poise.evaluation.robustness import show_corrupted
from poise.recipes.cifar.recipe import (
    CLASSES,
    GROUPS,
    NAMES,
    TITLES,
    Cifar,
    Settings,
    methods,
    network_of,
    parts,
    plan_of,
)
from poise.recipes.paper_corruptions import CIFAR_C
from poise.recipes.settings import Length
from poise.records.columns import Column
from poise.running.experiment import Examples, Experiment, Make, Task

SETTINGS = {
    "cifar10": Settings("cifar10", 14_000, 2.0, 0.1, 10_000, 1.0, 0.1),
    "cifar100": Settings("cifar100", 10_000, 0.1, 0.1, 10_000, 0.1, 0.05),
}
NOISES = (*protocols.GROUPS["noise"], "speckle_noise")  # similar to training with Gaussian noise
_NOISY = (
    *("XE+Gaussian", "CL+Gaussian", "FCL", "PG+XE", "PG+FCL", "GN+XE", "GN+FCL", "AugMix+FCL", "AugMix+random"),
    *("PixMix+random", "SAM+random"),
)
LEVELS = ("brightness", "contrast", "saturate")  # similar to operations of RandAugment and TrivialAugment
_OVERLAPS = {
    **dict.fromkeys(_NOISY, NOISES),
    **dict.fromkeys(("RandAugment", "TrivialAugment"), LEVELS),
    **dict.fromkeys(("RandAugment+random", "TrivialAugment+random"), (*NOISES, *LEVELS)),
    "PRIME": ("elastic_transform",),
    "PRIME+random": (*NOISES, "elastic_transform"),
}


@dataclass(frozen=True)
class CorruptedCifar:
    """The test images, clean and under every corruption and severity: `fog/3`. They are generated once, on the device.

    source  "generated", "official", or "auto" as in `poise.evaluate`; the record contains the actual source.
    first   use only the first test images, for a quick look.
    """

    training: Cifar
    source: str = "auto"
    first: int | None = None

    def __call__(self) -> Task:
        test, name = self.training.test(self.first), self.training.name

        @cache
        def show(device: torch.device) -> Any:
            return show_corrupted(f"{name}-c", self.first, device, self.source)

        @cache
        def corrupted(corruption: str, severity: int, device: torch.device) -> Examples:
            return Examples(*show(device)[0](corruption, severity))

        tests: dict[str, Make] = {"Clean": lambda device: test}
        tests |= {f"{c}/{s}": partial(corrupted, c, s) for c in CORRUPTIONS for s in SEVERITIES}
        origins = {"corruptions": show(torch.device("cpu"))[1]}
        return Task(self.training.train(), self.training.validation(), tests, CLASSES[name], origins=origins)


def table(data: str, length: Length) -> Experiment:
    quick = length.quick
    averages = {
        "All, 19": CORRUPTIONS,
        "All, 15": STANDARD,
        **{name.title(): of for name, of in protocols.GROUPS.items()},
    }
    kinds = {**protocols.GROUPS, "extra": EXTRA}
    return Experiment(
        name=f"{data}-c{length.suffix}",
        title=f"{TITLES[data]}-C (Table 3), {length.title}",
        task=CorruptedCifar(Cifar(data, first=length.images if quick else None), first=100 if quick else None),
        network=network_of(length, data),
        plan=plan_of(length, data),
        methods=methods(SETTINGS[data], length),
        columns=(Column("Clean", ("Clean",)), *(Column(name, _scores(of)) for name, of in averages.items())),
        groups=GROUPS,
        details={
            f"{kind}, one by one": tuple(Column(name, _scores((name,))) for name in of) for kind, of in kinds.items()
        },
        seeds=2 if quick else 5,
        class_names=NAMES[data],
        paper=CIFAR_C[data],
        overlaps=_OVERLAPS,
    )


def _scores(corruptions: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{name}/{severity}" for name in corruptions for severity in SEVERITIES)


EXPERIMENTS = parts(table, "cifar10", "cifar100")
