"""Synthetic MNIST (section 4.2, Table 1): a digit in the corner decides the class of 0-4 and is irrelevant for 5-9.

    poise data get mnist
    poise reproduce synthetic-mnist --device cuda --fleet   # 10 seeds a method, all seeds of one at once
    poise sweep synthetic-mnist --name fcl --sampler tpe --trials 40

Tested plain and with two kinds of noise (appendix B).

Expected (the paper, XE / FCL): BAL .925 / .921, BAL+UN .412 / .638, BAL+NUN .547 / .690.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from poise.data.augment import GaussianNoise, PatchGaussian
from poise.data.pixel_noise import PixelNoise, pixel_deviation
from poise.data.sets.cache import load
from poise.data.synthetic_mnist import Digits, SyntheticMNIST
from poise.features.perturbation import Gaussian
from poise.features.selection import TopBottom
from poise.features.utility import GradientUtility
from poise.models.lenet import LeNet
from poise.objectives.contrast import InfoNCE, Margin
from poise.objectives.fcl import FCL
from poise.objectives.gaussian import CLGaussian, XEGaussian
from poise.objectives.objective import XE
from poise.recipes.settings import PATCH_SIZES, SIGMAS, TEMPERATURES, WEIGHTS
from poise.recipes.synthetic_mnist.corner import CornerMeasures
from poise.records.columns import Column
from poise.running.experiment import Build, Examples, Experiment, Make, Method, Task
from poise.running.sweeps import Sweep
from poise.schedules import Exponential, Ramp
from poise.training.plan import Adam, Plan


@dataclass(frozen=True)
class NoisyDigits:
    """The digits of a recipe, and the balanced test set plain, with uniform and with non-uniform noise.

    levels  further shares of noisy pixels to test, named UN/5 for 5 percent.

    Validation has the same two kinds of noise, from another seed, for sweeps.
    """

    digits: SyntheticMNIST
    noise: float = 0.15
    noise_seed: int = 0
    levels: tuple[float, ...] = ()

    def __call__(self) -> Task:
        parts = self.digits({name: load("mnist", name) for name in ("train_x", "train_y", "test_x", "test_y")})
        test, validation = parts["test"], parts["validation"]
        deviation = cache(lambda: pixel_deviation(parts["train"].x))

        def noisy(digits: Digits, uniform: bool, share: float, seed: int) -> Make:
            return _once(lambda: Examples(PixelNoise(uniform, share, seed=seed)(digits.x, deviation()), digits.y))

        def tested(uniform: bool, share: float = self.noise) -> Make:
            return noisy(test, uniform, share, self.noise_seed)

        return Task(
            train=_examples(parts["train"]),
            validation=_examples(validation),
            tests={
                "BAL": lambda _: _examples(test),
                "BAL+UN": tested(True),
                "BAL+NUN": tested(False),
                **{f"UN/{100 * share:g}": tested(True, share) for share in self.levels},
                **{f"NUN/{100 * share:g}": tested(False, share) for share in self.levels},
            },
            num_classes=15,
            validations={
                "validation": lambda _: _examples(validation),
                "validation+UN": noisy(validation, True, self.noise, self.noise_seed + 1),
                "validation+NUN": noisy(validation, False, self.noise, self.noise_seed + 1),
            },
        )


def _once(make: Callable[[], Examples]) -> Make:
    """Make the examples on first use, and cache them."""
    made = cache(make)
    return lambda device: made()


def _examples(digits: Digits) -> Examples:
    return Examples(digits.x, digits.y)


RARE = tuple(range(10, 15))
LEVELS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)


BATCH = 128
NOISY = ("validation", "validation+UN", "validation+NUN")
SCORES = ("BAL", "BAL+UN", "BAL+NUN")
GROUPS = {"10-14": RARE, "0-4": tuple(range(5)), "5-9": tuple(range(5, 10))}


def rising(steps: int, peak: float = 1e-3) -> Ramp:
    """The weight of a contrast: 0 for 2 epochs of `steps` steps, then a ramp over 2 epochs."""
    return Ramp(peak, start=2 * steps, length=2 * steps)


def fcl(weight: Ramp) -> FCL:
    """FCL with the paper's settings."""
    return FCL(GradientUtility(), TopBottom(k=256), Gaussian(sigma=0.5), InfoNCE(temperature=0.1), weight)


def cl_gaussian(weight: Ramp) -> CLGaussian:
    return CLGaussian(Gaussian(sigma=0.5), InfoNCE(temperature=0.1), weight)


def _methods(steps: int) -> tuple[Method, ...]:
    weight = rising(steps)
    patches = PatchGaussian(size=14, sigma=0.2)
    return (
        Method("XE", XE()),
        Method("FCL", fcl(weight)),
        Method("FCL, margin", replace(fcl(weight), contrast=Margin(gamma=1.0))),
        Method("CL+Gaussian", cl_gaussian(weight)),
        Method("XE+Gaussian", XEGaussian(Gaussian(sigma=0.5), weight)),
        Method("Gaussian augmentation", XE(), GaussianNoise(sigma=0.2)),
        Method("PG+XE", XE(), patches),
        Method("PG+FCL", fcl(weight), patches),
    )


def _experiment(name: str, digits: SyntheticMNIST, images: int, epochs: int, seeds: int) -> Experiment:
    """images: the size of the training set. Quick versions are neither watched nor tested at many levels of noise."""
    steps, quick = images // BATCH, seeds < 10
    methods = _methods(steps)
    names = [method.name for method in methods]
    return Experiment(
        name=name,
        title="Synthetic MNIST (Table 1)" + (", a quick look" if quick else ""),
        task=NoisyDigits(digits, levels=() if quick else LEVELS),
        network=Build(LeNet, num_classes=15),
        plan=Plan(epochs, BATCH, Adam(), Exponential(0.01, 0.89, every=steps)),
        methods=methods,
        columns=tuple(Column(score, (score,)) for score in SCORES),
        details={
            f"classes {group}": tuple(Column(f"{score}, {group}", (score,), own) for score in SCORES)
            for group, own in GROUPS.items()
        },
        groups=(tuple(name for name in names if not name.startswith("PG")), ("PG+XE", "PG+FCL")),
        seeds=seeds,
        paper={
            "XE": {"BAL": (0.9250, 0.0088), "BAL+UN": (0.4123, 0.1176), "BAL+NUN": (0.5473, 0.0703)},
            "FCL": {"BAL": (0.9207, 0.0129), "BAL+UN": (0.6384, 0.0530), "BAL+NUN": (0.6896, 0.0349)},
        },
        rare_classes=RARE,
        class_names=tuple(str(label) for label in range(15)),
        measures=CornerMeasures(digits, images=20 if quick else 1000),
        watch=None if quick else CornerMeasures(digits, images=100),
    )


EXPERIMENT = _experiment("synthetic-mnist", SyntheticMNIST(), images=50_250, epochs=20, seeds=10)
QUICK_DIGITS = SyntheticMNIST(common=1000, rare=20, validation=10_000)
QUICK = _experiment("synthetic-mnist-quick", QUICK_DIGITS, images=10_100, epochs=8, seeds=2)
EXPERIMENTS = {"full": (EXPERIMENT,), "quick": (QUICK,)}


def sweeps(experiment: Experiment) -> dict[str, Sweep]:
    """The paper's grids with its lambda for MNIST, and values of k that fit into 28 x 28 (the paper gives none for
    MNIST).
    """
    weights = {"objective.weight.peak": (*WEIGHTS, 1e-3)}
    contrast = {**weights, "objective.contrast.temperature": TEMPERATURES}
    sigmas = {"objective.perturb.sigma": SIGMAS}
    contrastive = Sweep(experiment, "FCL", {**contrast, "objective.select.k": (64, 128, 256), **sigmas})
    return {
        "fcl": contrastive,
        "fcl-noise": replace(contrastive, score=NOISY),
        "cl-gaussian": Sweep(experiment, "CL+Gaussian", {**contrast, **sigmas}),
        "xe-gaussian": Sweep(experiment, "XE+Gaussian", {**weights, **sigmas}),
        "gaussian": Sweep(experiment, "Gaussian augmentation", {"augment.sigma": SIGMAS}, score=NOISY),
        "patch-gaussian": Sweep(
            experiment, "PG+XE", {"augment.size": (7, 14, *PATCH_SIZES), "augment.sigma": SIGMAS}, score=NOISY
        ),
    }
