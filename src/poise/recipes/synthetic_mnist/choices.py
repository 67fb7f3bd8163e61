"""Open choices of section 4.2 on synthetic MNIST, one at a time: batch size, widths, corner, augmentation.

    poise reproduce synthetic-mnist-choices --device cuda --fleet      # 5 seeds a row; a table for each choice

Scored on validation only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from poise.data.augment import Augmentation, GaussianNoise, PatchGaussian
from poise.data.synthetic_mnist import Scaling
from poise.models.lenet import LeNet
from poise.objectives.objective import XE
from poise.recipes.synthetic_mnist import table_1
from poise.recipes.synthetic_mnist.ablation import study
from poise.recipes.synthetic_mnist.table_1 import BATCH, NoisyDigits, fcl, rising
from poise.running.experiment import Build, Experiment, Method
from poise.schedules import Exponential

SEEDS = 5


def _of_batch(base: Experiment, images: int, batch: int) -> Experiment:
    steps = images // batch
    chosen = study(base, f"batch-{batch}", f"a batch of {batch}", _two(steps))
    rate = Exponential(0.01, 0.89, every=steps)
    return replace(chosen, plan=replace(base.plan, batch_size=batch, learning_rate=rate))


def _of_width(base: Experiment, images: int, times: int) -> Experiment:
    chosen = study(base, f"width-{times}", f"{times} times LeNet-5's widths", _two(images // BATCH))
    maps, units = (6 * times, 16 * times), (120 * times, 84 * times)
    return replace(chosen, network=Build(LeNet, num_classes=15, maps=maps, units=units))


def _of_corner(base: Experiment, images: int, size: int, scaling: Scaling) -> Experiment:
    digits = replace(cast(NoisyDigits, base.task).digits, corner_size=size, scaling=scaling)
    name, title = f"corner-{size}-{scaling}", f"a corner digit of {size} pixels, scaled by {scaling}"
    return replace(study(base, name, title, _two(images // BATCH)), task=NoisyDigits(digits))


def _two(steps: int) -> tuple[Method, ...]:
    return Method("XE", XE()), Method("FCL", fcl(rising(steps)))


def _augmented(base: Experiment) -> Experiment:
    augments: dict[str, Augmentation] = {
        **{f"Gaussian, sigma = {sigma}": GaussianNoise(sigma) for sigma in (0.05, 0.1, 0.2, 0.3, 0.5)},
        **{f"patch of 7, sigma = {sigma}": PatchGaussian(size=7, sigma=sigma) for sigma in (0.1, 0.2, 0.5)},
        **{f"patch of 14, sigma = {sigma}": PatchGaussian(size=14, sigma=sigma) for sigma in (0.1, 0.2, 0.5)},
    }
    rows = tuple(Method(name, XE(), augment) for name, augment in augments.items())
    return study(base, "augmentation", "augmentations", (Method("XE", XE()), *rows))


def _choices(base: Experiment, images: int, seeds: int) -> tuple[Experiment, ...]:
    studies = (
        study(base, "choices", "as in Table 1", _two(images // BATCH)),
        *(_of_batch(base, images, batch) for batch in (64, 256)),
        *(_of_width(base, images, times) for times in (2, 4)),
        *(_of_corner(base, images, size, "area") for size in (5, 9)),
        _of_corner(base, images, 7, "nearest"),
        _of_corner(base, images, 7, "bilinear"),
        _augmented(base),
    )
    return tuple(replace(each, seeds=seeds) for each in studies)


EXPERIMENTS = {
    "full": _choices(table_1.EXPERIMENT, 50_250, SEEDS),
    "quick": _choices(table_1.QUICK, 10_100, 1),
}
