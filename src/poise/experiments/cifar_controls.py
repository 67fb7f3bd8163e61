"""Controls on CIFAR-10: what of FCL does the work, and what the paper leaves open does to it (docs/decisions.md).

    poise reproduce cifar-controls --device cuda --compressed    # 45 epochs; XE and FCL are those of noisy-cifar10
    poise reproduce cifar-controls --quick --seeds 1             # a small network on two cores

The loss without the choice of features (random k), the views without noise (sigma 0), the views without the loss
(lambda 0: 1e-30, since 0 would leave them out); then sum or mean, values or pixels, clipping, statistics, utility;
CL+Gaussian with the statistics of its own batch; and XE+Gaussian with them, from the first step on, as late as FCL, or
as a mean.
"""

from __future__ import annotations

from dataclasses import replace

from poise.experiments.cifar import fcl_of, parts, xe_gaussian_of
from poise.experiments.experiment import Experiment, Method
from poise.experiments.lengths import Length
from poise.experiments.noisy_cifar import SETTINGS
from poise.experiments.noisy_cifar import table as noisy_table
from poise.features.perturbation import Gaussian
from poise.features.selection import AtRandom, TopBottom
from poise.features.utility import GradientUtility
from poise.objectives.cl_gaussian import CLGaussian
from poise.objectives.contrast import InfoNCE
from poise.objectives.fcl import FCL
from poise.schedules import Ramp


def controls(fcl: FCL) -> dict[str, FCL]:
    """FCL with one thing changed, by what was changed."""
    assert isinstance(fcl.contrast, InfoNCE) and isinstance(fcl.perturb, Gaussian)
    return {
        "sigma 0": replace(fcl, perturb=Gaussian(0.0)),
        "lambda 0": replace(fcl, weight=replace(fcl.weight, peak=1e-30)),  # type: ignore[type-var]
        "random k": replace(fcl, select=AtRandom(k=256)),
        "mean": replace(fcl, contrast=replace(fcl.contrast, reduction="mean")),
        "per pixel": replace(fcl, select=TopBottom(k=85, per="pixel")),  # 255 values
        "clipped": replace(fcl, perturb=replace(fcl.perturb, clip=(0.0, 1.0))),
        "batch statistics": replace(fcl, statistics="batch"),
        "own forward": replace(fcl, utility=GradientUtility(own_forward=True)),
    }


def table(data: str, length: Length) -> Experiment:
    noisy = noisy_table(data, length)
    known = {method.name: method for method in noisy.methods}
    fcl = fcl_of(SETTINGS[data], length)
    gaussian, late = xe_gaussian_of(length), length.step(SETTINGS[data].start)
    others = {
        "mean": replace(gaussian, weight=Ramp(1e-4, start=length.epoch(15))),
        "late": replace(gaussian, weight=Ramp(1e-4 * length.batch, start=late)),
        "batch statistics": replace(gaussian, weight=1e-4 * length.batch, statistics="batch"),  # from the first step on
    }
    augment, contrast = known["FCL"].augment, known["CL+Gaussian"]
    assert isinstance(contrast.objective, CLGaussian)
    rows = (
        *(known[name] for name in ("FCL", "XE")),
        *(Method(f"FCL, {what}", other, augment) for what, other in controls(fcl).items()),
        contrast,
        Method("CL+Gaussian, batch statistics", replace(contrast.objective, statistics="batch"), augment),
        known["XE+Gaussian"],
        *(Method(f"XE+Gaussian, {what}", each, augment) for what, each in others.items()),
    )
    return replace(
        noisy,
        name=f"cifar-controls{length.suffix}",
        title=f"Controls on CIFAR-10, {length.title}",
        methods=rows,
        groups=(tuple(method.name for method in rows),),
        details={},
        seeds=2 if length.quick else 3,
        paper={},
    )


EXPERIMENTS = parts(table, "cifar10")
