"""Synthetic MNIST (section 4.2, Table 1): a digit in the corner decides the class of 0-4 and nothing about 5-9.

    poise data get mnist
    poise reproduce synthetic-mnist --device cuda           # 10 seeds a method: a few minutes on an H200
    poise reproduce synthetic-mnist --quick --seeds 2       # two cores: about two minutes
    poise sweep synthetic-mnist --name fcl --sampler tpe --trials 40

Expected (the paper, XE / FCL): BAL .925 / .921, BAL+UN .412 / .638, BAL+NUN .547 / .690.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from poise.data.augment import PatchGaussian
from poise.data.cache import load
from poise.data.noise import PixelNoise, pixel_deviation
from poise.data.synthetic_mnist import Digits, SyntheticMNIST
from poise.data.task import Examples, Task
from poise.experiments.experiment import Build, Column, Experiment, Method
from poise.experiments.grids import PATCH_SIGMAS, PATCH_SIZES, SIGMAS, TEMPERATURES, WEIGHTS
from poise.experiments.sweep import Sweep
from poise.features.perturbation import Gaussian
from poise.features.selection import TopBottom
from poise.features.utility import GradientUtility
from poise.models.lenet import LeNet
from poise.objectives.cl_gaussian import CLGaussian
from poise.objectives.contrast import InfoNCE, Margin
from poise.objectives.fcl import FCL
from poise.objectives.xe import XE
from poise.objectives.xe_gaussian import XEGaussian
from poise.schedules import Exponential, Ramp
from poise.training.plan import Adam, Plan

RARE = tuple(range(10, 15))


@dataclass(frozen=True)
class NoisyDigits:
    """The digits of a recipe, and the balanced test set plain, with uniform and with non-uniform noise.

    Validation has the same two kinds of noise, from another seed, for sweeps that ask for it.
    """

    digits: SyntheticMNIST
    noise: float = 0.15
    noise_seed: int = 0

    def __call__(self) -> Task:
        parts = self.digits({name: load("mnist", name) for name in ("train_x", "train_y", "test_x", "test_y")})
        deviation = pixel_deviation(parts["train"].x)
        test, validation = parts["test"], parts["validation"]

        @cache
        def noisy(uniform: bool) -> Examples:
            noise = PixelNoise(share=self.noise, uniform=uniform, seed=self.noise_seed)
            return Examples(noise(test.x, deviation), test.y)

        def validated(uniform: bool) -> Examples:
            noise = PixelNoise(share=self.noise, uniform=uniform, seed=self.noise_seed + 1)
            return Examples(noise(validation.x, deviation), validation.y)

        return Task(
            train=_examples(parts["train"]),
            validation=_examples(validation),
            tests={
                "BAL": lambda _: _examples(test),
                "BAL+UN": lambda _: noisy(True),
                "BAL+NUN": lambda _: noisy(False),
            },
            num_classes=15,
            validations={"validation+UN": lambda _: validated(True), "validation+NUN": lambda _: validated(False)},
        )


def _examples(digits: Digits) -> Examples:
    return Examples(digits.x, digits.y)


def _methods(steps: int) -> tuple[Method, ...]:
    """steps: those of an epoch. Contrast is off for 2 epochs and rises for 2."""
    rising = Ramp(1e-3, start=2 * steps, length=2 * steps)
    parts: dict[str, Any] = {"utility": GradientUtility(), "select": TopBottom(k=256), "perturb": Gaussian(sigma=0.5)}
    return (
        Method("XE", XE()),
        Method("FCL", FCL(**parts, contrast=InfoNCE(temperature=0.1), weight=rising)),
        Method("FCL, margin", FCL(**parts, contrast=Margin(gamma=1.0), weight=rising)),
        Method("CL+Gaussian", CLGaussian(Gaussian(sigma=0.5), InfoNCE(temperature=0.1), weight=rising)),
        Method("XE+Gaussian", XEGaussian(Gaussian(sigma=0.5), weight=rising)),
    )


def _experiment(name: str, digits: SyntheticMNIST, images: int, epochs: int, seeds: int) -> Experiment:
    batch = 128
    steps = images // batch
    methods = _methods(steps)
    scores = ("BAL", "BAL+UN", "BAL+NUN")
    return Experiment(
        name=name,
        title="Synthetic MNIST (Table 1)",
        task=NoisyDigits(digits),
        network=Build(LeNet, num_classes=15),
        plan=Plan(epochs, batch, Adam(), Exponential(0.01, 0.89, every=steps)),
        methods=methods,
        columns=(
            *(Column(score, (score,)) for score in scores),
            *(Column(f"{score}, classes 10-14", (score,), RARE) for score in scores),
        ),
        groups=(tuple(method.name for method in methods),),
        seeds=seeds,
        paper={
            "XE": {"BAL": (0.9250, 0.0088), "BAL+UN": (0.4123, 0.1176), "BAL+NUN": (0.5473, 0.0703)},
            "FCL": {"BAL": (0.9207, 0.0129), "BAL+UN": (0.6384, 0.0530), "BAL+NUN": (0.6896, 0.0349)},
        },
        rare_classes=RARE,
        class_names=tuple(str(label) for label in range(15)),
    )


EXPERIMENT = _experiment("synthetic-mnist", SyntheticMNIST(), images=50_250, epochs=20, seeds=10)
QUICK = _experiment(
    "synthetic-mnist-quick", SyntheticMNIST(common=1000, rare=20, validation=10_000), 10_100, 8, seeds=2
)
EXPERIMENTS = {"full": (EXPERIMENT,), "quick": (QUICK,)}


def sweeps(experiment: Experiment) -> dict[str, Sweep]:
    """The paper's grids, with its lambda for MNIST and with k that fit into 28 x 28 (the paper has none for MNIST)."""
    patches = Method("XE, Patch Gaussian", XE(), PatchGaussian(25, 0.1))
    weights = {"objective.weight.peak": (*WEIGHTS, 1e-3)}
    contrast = {**weights, "objective.contrast.temperature": TEMPERATURES}
    sigmas = {"objective.perturb.sigma": SIGMAS}
    fcl = Sweep(experiment, "FCL", {**contrast, "objective.select.k": (64, 128, 256), **sigmas})
    return {
        "fcl": fcl,
        "fcl-noise": replace(fcl, score=("validation", "validation+UN", "validation+NUN")),
        "cl-gaussian": Sweep(experiment, "CL+Gaussian", {**contrast, **sigmas}),
        "xe-gaussian": Sweep(experiment, "XE+Gaussian", {**weights, **sigmas}),
        "patch-gaussian": Sweep(
            replace(experiment, methods=(*experiment.methods, patches)),
            patches.name,
            {"augment.size": PATCH_SIZES, "augment.sigma": PATCH_SIGMAS},
        ),
    }
