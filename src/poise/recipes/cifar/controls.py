"""Controls on CIFAR-10: which parts of FCL matter, and what the paper's open choices change (docs/decisions.md).

    poise reproduce cifar-controls --device cuda --compressed    # 45 epochs; XE and FCL are those of noisy-cifar10
    poise reproduce cifar-controls --quick --seeds 1             # a small network on two cores

FCL without parts: random features (random k), views without noise (sigma 0), and views without the loss (lambda 0:
1e-30, since 0 would skip the views). The last one moves the running statistics; otherwise it equals XE. Then sum or
mean, values or pixels, clipping, statistics, utility; CL+Gaussian with the statistics of its own batch; and XE+Gaussian
as a mean, moving the running statistics, or using them once the rate is low enough.

cifar-controls-noisy has the tests of Table 2, cifar-controls-c those of Table 3, for the same models.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from poise.features.perturbation import Gaussian
from poise.features.selection import AtRandom, TopBottom
from poise.features.utility import GradientUtility
from poise.objectives.contrast import InfoNCE
from poise.objectives.fcl import FCL
from poise.objectives.gaussian import CLGaussian
from poise.recipes.cifar import cifar_c, noisy_cifar
from poise.recipes.cifar.recipe import LENGTHS, fcl_of, xe_gaussian_of
from poise.recipes.settings import Length
from poise.running.experiment import Experiment, Method
from poise.schedules import Ramp


def controls(fcl: FCL) -> dict[str, FCL]:
    """FCL with other settings, keyed by the change."""
    contrast, perturb = cast(InfoNCE, fcl.contrast), cast(Gaussian, fcl.perturb)
    nothing = replace(fcl.weight, peak=1e-30)  # type: ignore[type-var]
    return {
        "sigma 0": replace(fcl, perturb=Gaussian(0.0)),
        "random k": replace(fcl, select=AtRandom(k=256)),
        "mean": replace(fcl, contrast=replace(contrast, reduction="mean")),
        "85 pixels": replace(fcl, select=TopBottom(k=85, per="pixel")),  # 255 values
        "256 pixels": replace(fcl, select=TopBottom(k=256, per="pixel")),
        "clipped": replace(fcl, perturb=replace(perturb, clip=(0.0, 1.0))),
        "batch statistics": replace(fcl, statistics="batch"),
        "moving statistics": replace(fcl, statistics="moving"),
        "moving statistics, lambda 0": replace(fcl, statistics="moving", weight=nothing),
        "own forward": replace(fcl, utility=GradientUtility(own_forward=True)),
    }


def rows_of(tested: Experiment, length: Length) -> tuple[Method, ...]:
    """FCL and XE as in Tables 2 and 3, and the controls."""
    known = {method.name: method for method in tested.methods}
    settings = noisy_cifar.SETTINGS["cifar10"]
    fcl, gaussian = fcl_of(settings, length), xe_gaussian_of(length)
    others = {
        "mean": replace(gaussian, weight=1e-4),
        "moving statistics": replace(gaussian, statistics="moving"),
        "running statistics, from epoch 300": replace(
            gaussian, statistics="running", weight=Ramp(1e-4 * length.batch, start=length.epoch(300))
        ),
    }
    augment, contrast = known["FCL"].augment, known["CL+Gaussian"]
    objective = cast(CLGaussian, contrast.objective)
    return (
        *(known[name] for name in ("FCL", "XE")),
        *(Method(f"FCL, {what}", other, augment) for what, other in controls(fcl).items()),
        contrast,
        Method("CL+Gaussian, batch statistics", replace(objective, statistics="batch"), augment),
        known["XE+Gaussian"],
        *(Method(f"XE+Gaussian, {what}", each, augment) for what, each in others.items()),
    )


def table(tested: Experiment, name: str, title: str, length: Length) -> Experiment:
    """The controls with the tests of another table."""
    rows = rows_of(tested, length)
    return replace(
        tested,
        name=f"{name}{length.suffix}",
        title=f"{title}: controls, {length.title}",
        methods=rows,
        groups=(tuple(method.name for method in rows),),
        seeds=2 if length.quick else 3,
        paper={},
        overlaps={},
    )


EXPERIMENTS = {
    length.name: (
        table(noisy_cifar.table("cifar10", length), "cifar-controls-noisy", "Noisy CIFAR-10", length),
        table(cifar_c.table("cifar10", length), "cifar-controls-c", "CIFAR-10-C", length),
    )
    for length in LENGTHS
}
