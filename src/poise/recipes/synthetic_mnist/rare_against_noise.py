"""Rare classes against noise on synthetic MNIST: the effect of utility, over lambda, for each way to choose features.

    poise reproduce synthetic-mnist-frontier --device cuda --fleet     # 10 seeds x all lambdas as one model, per choice

Each lambda is a point between robustness and sensitivity; a choice of features is better if its whole curve lies
higher. Scored on validation only: this study helps to choose settings, and Table 1 is tested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from poise.features.selection import AtRandom
from poise.objectives.contrast import InfoNCE, Margin
from poise.objectives.objective import Objective
from poise.recipes.synthetic_mnist import table_1
from poise.recipes.synthetic_mnist.ablation import study
from poise.recipes.synthetic_mnist.table_1 import BATCH, NOISY, cl_gaussian, fcl, rising
from poise.recipes.variants import (
    Confident,
    Graded,
    GradedGaussian,
    NearOnly,
    SmoothUtility,
    Swapped,
    Uneven,
    WeightedFar,
)
from poise.records.columns import Column
from poise.running.experiment import Experiment, Method
from poise.schedules import Ramp

LAMBDAS = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
BEYOND = {"margin": (0.3, 1.0, 3.0, 10.0)}  # the margin loss still gains at .1, and turns at these
QUICK_LAMBDAS = (1e-3, 1e-1)

CHOICES: dict[str, Callable[[Ramp], Objective]] = {
    "CL+Gaussian": cl_gaussian,
    "FCL": fcl,
    "random": lambda weight: replace(fcl(weight), select=AtRandom(k=256)),
    "swapped": lambda weight: replace(fcl(weight), select=Swapped(k=256)),
    "no far view": lambda weight: replace(fcl(weight), contrast=NearOnly(InfoNCE(0.1))),
    "margin": lambda weight: replace(fcl(weight), contrast=Margin(gamma=1.0)),
    "far x 100": lambda weight: replace(fcl(weight), contrast=WeightedFar(0.1, times=100.0)),
    "uneven": lambda weight: replace(fcl(weight), select=Uneven(near=512, far=64)),
    "graded": lambda weight: replace(fcl(weight), select=Graded(), perturb=GradedGaussian(0.5)),
    "smooth": lambda weight: replace(fcl(weight), utility=SmoothUtility()),
    "confident": lambda weight: replace(fcl(weight), utility=Confident()),
    "decisive": lambda weight: replace(fcl(weight), contrast=WeightedFar(0.1, times=100.0), drop_below=1e-5),
    "none dropped": lambda weight: replace(fcl(weight), contrast=WeightedFar(0.1, times=10.0), drop_below=0.0),
}


def frontier(
    base: Experiment,
    steps: int,
    lambdas: tuple[float, ...],
    choices: Iterable[str] = tuple(CHOICES),
    beyond: Mapping[str, tuple[float, ...]] = {},
) -> Experiment:
    """An experiment of these choices with every lambda, and some of them with more."""
    methods = tuple(
        Method(f"{name} {peak:g}", CHOICES[name](rising(steps, peak)))
        for name in choices
        for peak in (*lambdas, *beyond.get(name, ()))
    )
    chosen = study(base, "frontier", "rare classes against noise", methods)
    columns = (*chosen.columns, Column("noise", NOISY[1:]))
    return replace(chosen, columns=columns, frontier=("noise", "validation, 10-14"))


EXPERIMENT = frontier(table_1.EXPERIMENT, 50_250 // BATCH, LAMBDAS, beyond=BEYOND)
QUICK = frontier(table_1.QUICK, 10_100 // BATCH, QUICK_LAMBDAS)
EXPERIMENTS = {"full": (EXPERIMENT,), "quick": (QUICK,)}
