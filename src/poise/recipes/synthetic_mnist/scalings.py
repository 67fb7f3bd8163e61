"""Synthetic MNIST with other readings of the corner digit, scaled bilinearly or left sharp: Table 1 and frontiers.

    poise reproduce synthetic-mnist-scalings --device cuda --fleet     # 10 seeds

The paper says "a scaled down version of a random digit". Scaled by area, as in synthetic-mnist, a corner digit is
faint. Bilinear interpolation between its four central pixels, the usual default without smoothing, or the single
nearest pixel make it sharper: easier to see without noise, and more like noise. On validation this changes the results
more than any other open choice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from poise.data.synthetic_mnist import Scaling
from poise.recipes.synthetic_mnist import table_1
from poise.recipes.synthetic_mnist.corner import CornerMeasures
from poise.recipes.synthetic_mnist.rare_against_noise import LAMBDAS, QUICK_LAMBDAS, frontier
from poise.recipes.synthetic_mnist.table_1 import BATCH, NoisyDigits
from poise.running.experiment import Experiment

METHODS = ("XE", "FCL", "CL+Gaussian", "XE+Gaussian")
WORDS: dict[Scaling, str] = {"bilinear": "bilinear corner digits", "nearest": "sharp corner digits"}


def _scaled(
    experiment: Experiment, scaling: Scaling, steps: int, lambdas: tuple[float, ...]
) -> tuple[Experiment, Experiment]:
    """The table and the frontiers."""
    task, watch = cast(NoisyDigits, experiment.task), experiment.watch
    measures = cast(CornerMeasures, experiment.measures)
    digits = replace(task.digits, scaling=scaling)
    table = replace(
        experiment,
        name=experiment.name.replace("synthetic-mnist", f"synthetic-mnist-{scaling}"),
        title=experiment.title.replace("(Table 1)", f"(Table 1), {WORDS[scaling]}"),
        task=replace(task, digits=digits),
        measures=replace(measures, digits=digits),
        watch=replace(watch, digits=digits) if isinstance(watch, CornerMeasures) else None,
        methods=tuple(method for method in experiment.methods if method.name in METHODS),
        groups=(METHODS,),
    )
    curves = frontier(table, steps, lambdas, ("CL+Gaussian", "FCL", "random"))
    return table, replace(curves, title=f"{curves.title}, {WORDS[scaling]}")


def _all(experiment: Experiment, steps: int, lambdas: tuple[float, ...]) -> tuple[Experiment, ...]:
    return tuple(each for scaling in WORDS for each in _scaled(experiment, scaling, steps, lambdas))


EXPERIMENTS = {
    "full": _all(table_1.EXPERIMENT, 50_250 // BATCH, LAMBDAS),
    "quick": _all(table_1.QUICK, 10_100 // BATCH, QUICK_LAMBDAS),
}
