"""Corner CIFAR: CIFAR-10 with a glyph of 5 x 5 pixels in a corner, which decides five rare classes.

    poise data get cifar10
    poise reproduce corner-cifar --device cuda --compressed     # 45 epochs, 5 seeds of all methods over lambda or sigma
    poise reproduce corner-cifar --quick --seeds 1              # four methods, a small network, on one core

    classes 0-4 with a plus in a corner     become classes 10-14: 1 % of their training pictures
    half of all other pictures              have a cross in a corner, which decides nothing
    validation and test                     every picture of 0-4 once without and once with the plus: twins

Both shapes have nine pixels, black or white, whichever differs more from the picture there, and lie four pixels inside
the border, so that the crop of training cannot cut them. A twin has the plus in the place of the cross, if there was
one. Validation is the last 500 training pictures of each class, and the test set CIFAR-10's: all classes are as
frequent. Settings are chosen on validation (docs/rare-details.md). All draws come from one seed.

Axes: N pictures, H = W = 32.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, cast

import numpy as np
import torch

from poise.corruptions.corrupt import corrupt
from poise.data.augment import Augmentation, Chain, Standard
from poise.data.loading.resident import on_device
from poise.data.sets.cache import load
from poise.data.sets.catalogue import CLASS_NAMES
from poise.random import Stream
from poise.recipes.cifar import noisy_cifar
from poise.recipes.cifar.recipe import HELD_OUT, LENGTHS, Cifar
from poise.recipes.rare_details.by_class import first_of_each, last_of_each
from poise.recipes.rare_details.digits import CornerUtility, first_look, twins_of, with_twins
from poise.recipes.rare_details.methods import Grid, columns, study
from poise.recipes.settings import Length
from poise.records.columns import Column
from poise.running.experiment import Build, Examples, Experiment, Make, Task
from poise.schedules import Ramp

PLUS = np.array([[x == 2 or y == 2 for x in range(5)] for y in range(5)])
CROSS = np.array([[x in (y, 4 - y) for x in range(5)] for y in range(5)])
MARGIN = 4  # the padding of `Standard`
RARE, CLASSES = tuple(range(10, 15)), 15
CORRUPTIONS = ("gaussian_noise", "defocus_blur", "fog", "jpeg_compression")  # one of each group
SEVERITY = 3
LAMBDAS = (1e-3, 1e-2, 1e-1)
SIGMAS = (0.1, 0.15, 0.2)
NAMES = (*CLASS_NAMES["cifar10"], *(f"{name} +" for name in CLASS_NAMES["cifar10"][:5]))


@dataclass(frozen=True)
class CornerCifar(Cifar):
    """CIFAR-10 with shapes in corners.

    held_out  pictures for validation, a tenth of them from each class.
    first     use only this many pictures, a tenth of them from each class, for a quick look.
    rare      the share of the training pictures of classes 0-4 that get the plus.
    seed      the seed of all draws.
    """

    name: str = "cifar10"
    held_out: int = HELD_OUT
    rare: float = 0.01
    seed: int = 0

    @property
    def num_classes(self) -> int:
        return CLASSES

    @property
    def counts(self) -> tuple[int, ...]:
        """Training pictures of each class."""
        plus = round(self.rare * (self.images // 10))
        return (self.images // 10 - plus,) * 5 + (self.images // 10,) * 5 + (plus,) * 5

    def train(self) -> Examples:
        x, y = load(self.name, "train_x"), np.asarray(load(self.name, "train_y"))
        rows = first_of_each(y, (self.images // 10,) * 10)
        stream = Stream(self.seed, "corner cifar", "train")
        shapes = _shapes(y[rows], self.counts[-1], stream)
        drawn = draw(np.asarray(x[rows]), shapes, stream.integers(4, len(rows)))
        return Examples(drawn, np.where(shapes == 1, y[rows] + 10, y[rows]).astype(np.uint8))

    def validation(self) -> Examples | None:
        if not self.held_out:
            return None
        x, y = load(self.name, "train_x"), np.asarray(load(self.name, "train_y"))
        rows = last_of_each(y, 10, self.held_out // 10)
        return self._with_twins(np.asarray(x[rows]), y[rows], "validation")

    def test(self, first: int | None = None) -> Examples:
        x, y = load(self.name, "test_x")[:first], load(self.name, "test_y")[:first]
        return self._with_twins(np.asarray(x), np.asarray(y), "test")

    def _with_twins(self, x: np.ndarray, y: np.ndarray, part: str) -> Examples:
        """Every picture without the plus, then those of classes 0-4 with it in the same corner."""
        stream, small = Stream(self.seed, "corner cifar", part), np.flatnonzero(y < 5)
        shapes, corners = _shapes(y, 0, stream), stream.integers(4, len(y))
        source = np.concatenate([np.arange(len(y)), small])
        drawn = draw(x[source], np.concatenate([shapes, np.ones_like(small)]), corners[source])
        labels = np.concatenate([y, y[small] + 10]).astype(np.uint8)
        return Examples(drawn, labels, twins_of(labels))


def _shapes(y: np.ndarray, plus: int, stream: Stream) -> np.ndarray:
    """[N] 1 for a plus, in `plus` pictures of each class 0-4; 2 for a cross, in half of the others of each class; 0."""
    shapes = np.zeros(len(y), np.int64)
    for label in range(10):
        rows = np.flatnonzero(y == label)
        rows = rows[stream.permutation(len(rows))]
        cut = plus if label < 5 else 0
        shapes[rows[:cut]] = 1
        shapes[rows[cut : cut + (len(rows) - cut) // 2]] = 2
    return shapes


def draw(images: np.ndarray, shapes: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Draw the shapes (0 none, 1 plus, 2 cross) into the corners (0-3) of copies of the images [N, H, W, 3]."""
    drawn = images.copy()
    for number in range(4):
        for kind, shape in ((1, PLUS), (2, CROSS)):
            rows = np.flatnonzero((corners == number) & (shapes == kind))
            down, across = (_place(images.shape[1 + axis], number >> 1 - axis & 1) for axis in (0, 1))
            box = drawn[rows, down, across]
            ink = np.where(box.mean((1, 2, 3), keepdims=True) < 127.5, 255, 0)
            drawn[rows, down, across] = np.where(shape[:, :, None], ink, box)
    return drawn


def _place(side: int, far: int) -> slice:
    start = side - MARGIN - 5 if far else MARGIN
    return slice(start, start + 5)


@dataclass(frozen=True)
class RareCorners:
    """Validation and test pictures: clean, with both kinds of noise and, for the test set, with four corruptions.

    first  use only the first test pictures, for a quick look.
    """

    training: CornerCifar
    first: int | None = None

    def __call__(self) -> Task:
        task = noisy_cifar.NoisyCifar(self.training, first=self.first)()
        test, validation = self.training.test(self.first), cast(Examples, task.validation)
        seen: dict[str, Make] = {"validation": lambda device: validation, **task.validations}
        seen |= {name: task.tests[name] for name in ("Clean", "UN", "NUN")}
        tests = {name: with_twins(make) for name, make in seen.items()}
        tests |= {f"{name}/{SEVERITY}": cache(partial(_corrupted, test, name)) for name in CORRUPTIONS}
        return replace(task, tests=tests)


def _corrupted(of: Examples, name: str, device: torch.device) -> Examples:
    x, y = on_device(np.asarray(of.x), of.y, device)
    return Examples(corrupt(x, name, SEVERITY), y)


def augmented(more: Augmentation | None) -> Any:
    """Crop and flip, then what a method adds."""
    return Standard() if more is None else Chain((Standard(), more))


def grid_of(counts: tuple[int, ...], length: Length) -> Grid:
    """The methods' settings on CIFAR. Lambda rises once the learning rate has, in epochs 15 to 30 of 450."""
    start = length.epoch(15)
    return Grid(
        counts=counts,
        rising=lambda peak: Ramp(peak, start=start, length=start),
        lambdas=LAMBDAS,
        sigmas=SIGMAS,
        patch=25,
        augment=augmented,
    )


def table(length: Length) -> Experiment:
    quick = length.quick
    made = CornerCifar(held_out=500, first=2_500, rare=0.1) if quick else CornerCifar()
    length = replace(length, images=made.images)
    base = noisy_cifar.table("cifar10", length)
    base = replace(
        base,
        name=f"corner-cifar{length.suffix}",
        title=f"Rare corner glyphs on CIFAR-10 under noise, {length.title}",
        task=RareCorners(made, first=500 if quick else None),
        network=Build(base.network.network, **{**base.network.settings, "num_classes": CLASSES}),
        class_names=NAMES,
    )
    grid = replace(grid_of(made.counts, length), oracle=CornerUtility(5 + 2 * MARGIN, (3, 32, 32)))
    made_study = study(base, grid, "Clean", ("UN", "NUN"), RARE, pairs=True)
    if quick:
        return replace(first_look(made_study), seeds=2)
    ruined = tuple(f"{name}/{SEVERITY}" for name in CORRUPTIONS)
    chosen = columns("validation", ("validation+UN", "validation+NUN"), RARE, pairs=True)
    both = (Column("corruptions", ruined), Column("rare, corruptions", ruined, RARE))
    return replace(
        made_study,
        columns=(*made_study.columns, *both),
        details={"validation, on which settings are chosen": chosen},
    )


EXPERIMENTS = {length.name: (table(length),) for length in LENGTHS}
