"""The recipe of the CIFAR experiments (section 4.3, appendix C): data, schedule, network, methods, sweeps.

    ResNet-56, batch 1024, SGD with Nesterov momentum 0.9, rate 1.0 after 15 epochs of ramp, / 10 at 200, 300 and 400
    of 450 epochs, crop and flip; contrastive losses from the step of `ramp_up` on, summed over the batch

"compressed" is a tenth of this: 45 epochs, and every epoch and step of the recipe divided by 10.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from poise.data.augment import Chain, GaussianNoise, PatchGaussian, Standard
from poise.data.augmix import AugMix
from poise.data.sets.cache import load
from poise.data.sets.catalogue import CLASS_NAMES
from poise.features.perturbation import Gaussian
from poise.features.selection import TopBottom
from poise.features.utility import GradientUtility
from poise.models.resnet import ResNet, resnet56
from poise.objectives.contrast import InfoNCE
from poise.objectives.fcl import FCL
from poise.objectives.gaussian import CLGaussian, XEGaussian
from poise.objectives.jensen_shannon import JensenShannon
from poise.objectives.objective import XE
from poise.recipes.cifar import baselines
from poise.recipes.settings import (
    COUNTS,
    PATCH_SIGMAS,
    PATCH_SIZES,
    SIGMAS,
    TEMPERATURES,
    WEIGHT_DECAYS,
    WEIGHTS,
    Length,
)
from poise.running.experiment import Build, Examples, Experiment, Method
from poise.running.sweeps import Sweep
from poise.schedules import Ramp, Steps
from poise.training.plan import SGD, Plan

CLASSES = {"cifar10": 10, "cifar100": 100}
NAMES: dict[str, tuple[str, ...]] = {**CLASS_NAMES, "cifar100": ()}  # a hundred names do not fit under bars
TITLES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
WEIGHT_DECAY = {"cifar10": 5e-4, "cifar100": 5e-4}  # not in the paper; the sweeps' best
GROUPS = (
    ("XE", "XE+Gaussian", "CL+Gaussian", "FCL"),
    ("PG+XE", "PG+FCL"),
    ("GN+XE", "GN+FCL"),
    ("AugMix", "AugMix+FCL", "AugMix+random"),
    *baselines.GROUPS,
)
HELD_OUT = 5000  # training images that sweeps validate on


@dataclass(frozen=True)
class Cifar:
    """The training images of CIFAR-10 or CIFAR-100.

    held_out  the number of images, the last ones, that are kept for validation.
    first     use only the first images, for a quick look.
    """

    name: str
    held_out: int = 0
    first: int | None = None

    def train(self) -> Examples:
        return self._part(slice(0, self.images))

    def validation(self) -> Examples | None:
        return self._part(slice(self.images, self.images + self.held_out)) if self.held_out else None

    def test(self, first: int | None = None) -> Examples:
        return Examples(load(self.name, "test_x")[:first], load(self.name, "test_y")[:first])

    @property
    def num_classes(self) -> int:
        return CLASSES[self.name]

    @property
    def images(self) -> int:
        return (self.first or 50_000) - self.held_out

    def _part(self, rows: slice) -> Examples:
        return Examples(load(self.name, "train_x")[rows], load(self.name, "train_y")[rows])


def plan_of(length: Length, data: str) -> Plan:
    rate = Steps(1.0, tuple(length.epoch(number) for number in (200, 300, 400)), warmup=length.epoch(15))
    rate = replace(rate, peak=0.1) if length.quick else rate  # for batches of a hundred
    plan = Plan(length.epochs, length.batch, SGD(weight_decay=WEIGHT_DECAY[data], decays="kernels"), rate)
    return plan if length.quick else replace(plan, precision="bfloat16", compile=True)


def network_of(length: Length, data: str) -> Build:
    if length.quick:
        return Build(ResNet, num_classes=CLASSES[data], blocks=((1, 8, 1), (1, 16, 2), (1, 32, 2)))
    return Build(resnet56, num_classes=CLASSES[data])


FULL = Length("full", 450, images=50_000, batch=1024, of_epochs=450, of_steps=450 * 48)
COMPRESSED = replace(FULL, name="compressed", epochs=45)
QUICK = replace(FULL, name="quick", epochs=6, images=2_000, batch=100)
LENGTHS = (FULL, COMPRESSED, QUICK)


@dataclass(frozen=True)
class Settings:
    """A list of settings from appendix C. Common to all: lambda 1e-4; FCL k 256, sigma .5; patches of side 25."""

    data: str
    start: int  # ramp_up of CL+Gaussian and FCL, in steps
    temperature: float
    patch_sigma: float
    patch_start: int  # the same for PG+FCL
    patch_temperature: float
    patch_fcl_sigma: float


def methods(settings: Settings, length: Length) -> tuple[Method, ...]:
    """The paper's six methods; Gaussian noise on half of the batch (GN), AugMix, and FCL with each; the baselines."""
    on = Ramp(1e-4, start=length.step(settings.start))
    fcl = fcl_of(settings, length)
    patch_fcl = replace(
        fcl,
        contrast=InfoNCE(settings.patch_temperature, "sum"),
        weight=replace(on, start=length.step(settings.patch_start)),
    )
    plain = Standard()
    noise = Chain((plain, GaussianNoise(sigma=0.2, fraction=0.5)))
    return (
        Method("XE", XE(), plain),
        Method("XE+Gaussian", xe_gaussian_of(length), plain),
        Method("CL+Gaussian", CLGaussian(Gaussian(sigma=0.5), InfoNCE(0.5, "sum"), weight=on), plain),
        Method("FCL", fcl, plain),
        Method("PG+XE", XE(), Chain((plain, PatchGaussian(25, settings.patch_sigma)))),
        Method("PG+FCL", patch_fcl, Chain((plain, PatchGaussian(25, settings.patch_fcl_sigma)))),
        Method("GN+XE", XE(), noise),
        Method("GN+FCL", fcl, noise),
        Method("AugMix", JensenShannon(XE(), AugMix()), plain),
        Method("AugMix+FCL", JensenShannon(fcl, AugMix()), plain),
        *baselines.baselines(fcl),
    )


def fcl_of(settings: Settings, length: Length) -> FCL:
    """FCL as in appendix C."""
    return FCL(
        GradientUtility(),
        TopBottom(k=256),
        Gaussian(sigma=0.5),
        InfoNCE(settings.temperature, "sum"),
        weight=Ramp(1e-4, start=length.step(settings.start)),
    )


def xe_gaussian_of(length: Length) -> XEGaussian:
    """XE+Gaussian as in appendix C, active from the first step.

    The noise term is a sum over the batch, like the contrasts: on a mean, 1e-4 would have no effect. Noisy images use
    the statistics of their own batch and do not update the running ones; with running statistics, training diverges
    while the rate is high (docs/decisions.md).
    """
    return XEGaussian(Gaussian(sigma=0.3), weight=1e-4 * length.batch, statistics="batch")


def parts(make: Callable[[str, Length], Experiment], *names: str) -> dict[str, tuple[Experiment, ...]]:
    """{length: one experiment for each data set}, as poise.recipes.index expects."""
    return {length.name: tuple(make(name, length) for name in names) for length in LENGTHS}


def held_out(table: Callable[[str, Length], Experiment], experiment: Experiment) -> Experiment:
    """The experiment with a tenth of its training images held out, at most 5,000, and its schedule for the rest."""
    task: Any = experiment.task
    length = next(each for each in LENGTHS if each.epochs == experiment.plan.epochs)
    images = min(HELD_OUT, length.images // 10)
    shorter = table(task.training.name, replace(length, images=length.images - images))
    return replace(shorter, task=replace(task, training=replace(task.training, held_out=images)))


def grids(inner: Experiment) -> dict[str, Sweep]:
    """The paper's grids, and weight decay, for an experiment with held-out images."""
    contrast = {"objective.weight.peak": WEIGHTS, "objective.contrast.temperature": TEMPERATURES}
    sigmas, noises = {"objective.perturb.sigma": SIGMAS}, ("validation", "validation+UN", "validation+NUN")
    fcl = Sweep(inner, "FCL", {**contrast, "objective.select.k": COUNTS[:3], **sigmas}, seeds=1)
    patches = {"augment.parts.1.size": PATCH_SIZES, "augment.parts.1.sigma": PATCH_SIGMAS}
    weight_decay = {"plan.optimizer.weight_decay": WEIGHT_DECAYS}
    decays = {"plan.optimizer.decays": ("all", "kernels"), **weight_decay}
    strengths = {"augment.parts.1.sigma": (0.05, 0.1, 0.15, 0.2, 0.3)}
    return {
        "weight-decay": Sweep(inner, "XE", weight_decay, seeds=2),
        "decays": Sweep(inner, "XE", decays, seeds=1),
        "fcl": fcl,
        "fcl-noise": replace(fcl, score=noises),
        "cl-gaussian": Sweep(inner, "CL+Gaussian", {**contrast, **sigmas}, seeds=1),
        "xe-gaussian": Sweep(inner, "XE+Gaussian", sigmas, seeds=1),
        "patch-gaussian": Sweep(inner, "PG+XE", patches, seeds=1),
        "gaussian-noise": Sweep(inner, "GN+XE", strengths, score=noises, seeds=1),
    }
