"""Which features to perturb, on CIFAR, with the tests of Table 2.

    poise reproduce cifar10-frontier --device cuda --compressed     # 45 epochs, five lambdas, 5 seeds
    poise reproduce cifar100-choices --device cuda --compressed     # FCL and three controls at CIFAR-100's tau of .1
    poise reproduce cifar-choices --quick --seeds 1                 # a small network on two cores

cifar10-frontier compares FCL, random features and CL+Gaussian as curves: accuracy under noise against the clean
accuracy, over lambda. At one lambda they differ in how far their near views move the embedding.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from poise.features.selection import AtRandom
from poise.objectives.contrast import InfoNCE
from poise.objectives.gaussian import CLGaussian
from poise.objectives.objective import Objective, with_weight
from poise.recipes.cifar import noisy_cifar
from poise.recipes.cifar.recipe import LENGTHS, fcl_of
from poise.recipes.settings import Length
from poise.recipes.variants import NearOnly, Swapped
from poise.running.experiment import Experiment, Method
from poise.schedules import Ramp

LAMBDAS = (3e-5, 1e-4, 3e-4, 1e-3, 3e-3)


def frontier(length: Length) -> Experiment:
    """XE, and FCL, random features and CL+Gaussian with every lambda, on CIFAR-10."""
    base = noisy_cifar.table("cifar10", length)
    fcl, known = fcl_of(noisy_cifar.SETTINGS["cifar10"], length), {each.name: each for each in base.methods}
    families: dict[str, Objective] = {
        "FCL": fcl,
        "random": replace(fcl, select=AtRandom(k=256)),
        "CL+Gaussian": cast(CLGaussian, known["CL+Gaussian"].objective),
    }
    curves = tuple(
        Method(
            f"{name} {peak:g}", with_weight(objective, replace(cast(Ramp, fcl.weight), peak=peak)), known["FCL"].augment
        )
        for name, objective in families.items()
        for peak in LAMBDAS
    )
    named = _named(base, "frontier", "which features to perturb, over lambda", (known["XE"], *curves), length)
    return replace(named, frontier=("UN", "Clean"))


def choices(length: Length) -> Experiment:
    """FCL on CIFAR-100 with other features, and without its far view."""
    base = noisy_cifar.table("cifar100", length)
    fcl, known = fcl_of(noisy_cifar.SETTINGS["cifar100"], length), {each.name: each for each in base.methods}
    controls = {
        "random k": replace(fcl, select=AtRandom(k=256)),
        "swapped": replace(fcl, select=Swapped(k=256)),
        "no far view": replace(fcl, contrast=NearOnly(cast(InfoNCE, fcl.contrast))),
    }
    rows = tuple(Method(f"FCL, {what}", objective, known["FCL"].augment) for what, objective in controls.items())
    methods = (known["FCL"], known["XE"], known["CL+Gaussian"], *rows)
    return _named(base, "choices", "which features to perturb", methods, length)


def _named(base: Experiment, name: str, title: str, methods: tuple[Method, ...], length: Length) -> Experiment:
    data, words = base.name.removesuffix(length.suffix).removeprefix("noisy-"), base.title.split(" (")[0]
    return replace(
        base,
        name=f"{data}-{name}{length.suffix}",
        title=f"{words}: {title}, {length.title}",
        methods=methods,
        groups=(tuple(method.name for method in methods),),
        paper={},
    )


EXPERIMENTS = {length.name: (frontier(length), choices(length)) for length in LENGTHS}
