"""FCL on synthetic MNIST with one setting changed at a time, and the choices that the paper leaves open.

    poise reproduce synthetic-mnist-ablation --device cuda --fleet      # 10 seeds a row

Scored on validation alone.
"""

from __future__ import annotations

from dataclasses import replace

from poise.experiments import synthetic_mnist
from poise.experiments.experiment import Column, Experiment, Method
from poise.experiments.synthetic_mnist import BATCH, GROUPS, NOISY, cl_gaussian, fcl, rising
from poise.experiments.variants import NearOnly, Swapped
from poise.features.perturbation import Gaussian
from poise.features.selection import AtRandom, TopBottom
from poise.objectives.contrast import InfoNCE, Margin
from poise.objectives.objective import Objective
from poise.objectives.xe import XE
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
        **{f"lambda = {peak}": fcl(rising(steps, peak)) for peak in (1e-4, 1e-2, 1e-1)},
        "sum over the batch": replace(base, contrast=InfoNCE(0.1, reduction="sum")),
        "no warm-up": replace(base, weight=Ramp(1e-3)),
        "from epoch 10": replace(base, weight=Ramp(1e-3, start=10 * steps)),
        "margin": replace(base, contrast=Margin(gamma=1.0)),
        "random k": replace(base, select=AtRandom(k=256)),
        "swapped": replace(base, select=Swapped(256)),
        "no far view": replace(base, contrast=NearOnly(InfoNCE(0.1))),
        "CL+Gaussian": cl_gaussian(rising(steps)),
    }


def _ablation(base: Experiment, steps: int) -> Experiment:
    methods = tuple(Method(name, objective) for name, objective in _rows(steps).items())
    return replace(
        base,
        name=base.name.replace("synthetic-mnist", "synthetic-mnist-ablation"),
        title="Synthetic MNIST: one setting of FCL at a time",
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


EXPERIMENT = _ablation(synthetic_mnist.EXPERIMENT, 50_250 // BATCH)
QUICK = _ablation(synthetic_mnist.QUICK, 10_100 // BATCH)
EXPERIMENTS = {"full": (EXPERIMENT,), "quick": (QUICK,)}
