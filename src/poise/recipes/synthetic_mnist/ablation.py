"""FCL on synthetic MNIST with one setting changed at a time.

    poise reproduce synthetic-mnist-ablation --device cuda --fleet

Scored on validation only. synthetic-mnist-frontier has other values of lambda and other ways to choose features.
"""

from __future__ import annotations

from dataclasses import replace

from poise.features.perturbation import Gaussian
from poise.features.selection import TopBottom
from poise.objectives.contrast import InfoNCE
from poise.objectives.objective import XE, Objective
from poise.recipes.synthetic_mnist import table_1
from poise.recipes.synthetic_mnist.table_1 import BATCH, GROUPS, NOISY, fcl, rising
from poise.records.columns import Column
from poise.running.experiment import Experiment, Method
from poise.schedules import Ramp


def _rows(steps: int) -> dict[str, Objective]:
    base = fcl(rising(steps))
    return {
        "FCL": base,
        "XE": XE(),
        **{f"k = {k}": replace(base, select=TopBottom(k)) for k in (32, 64, 128, 392)},
        **{f"sigma = {sigma}": replace(base, perturb=Gaussian(sigma)) for sigma in (0.1, 0.25, 1.0)},
        "clipped to [0, 1]": replace(base, perturb=Gaussian(0.5, clip=(0, 1))),
        **{f"tau = {tau}": replace(base, contrast=InfoNCE(tau)) for tau in (0.05, 0.5, 1.0)},
        "sum over the batch": replace(base, contrast=InfoNCE(0.1, reduction="sum")),
        "no warm-up": replace(base, weight=Ramp(1e-3)),
        "from epoch 10": replace(base, weight=Ramp(1e-3, start=10 * steps)),
    }


def study(base: Experiment, name: str, title: str, methods: tuple[Method, ...]) -> Experiment:
    """An experiment with these methods that uses no test set."""
    return replace(
        base,
        name=base.name.replace("synthetic-mnist", f"synthetic-mnist-{name}"),
        title=f"Synthetic MNIST: {title}",
        methods=methods,
        columns=(
            *(Column(score, (score,)) for score in NOISY),
            *(Column(f"validation, {group}", ("validation",), own) for group, own in GROUPS.items()),
        ),
        groups=(tuple(method.name for method in methods),),
        details={},
        paper={},
        measures=None,
        watch=None,
        testing=False,
    )


def _ablation(base: Experiment, steps: int) -> Experiment:
    methods = tuple(Method(name, objective) for name, objective in _rows(steps).items())
    return study(base, "ablation", "one setting of FCL at a time", methods)


EXPERIMENT = _ablation(table_1.EXPERIMENT, 50_250 // BATCH)
QUICK = _ablation(table_1.QUICK, 10_100 // BATCH)
EXPERIMENTS = {"full": (EXPERIMENT,), "quick": (QUICK,)}
