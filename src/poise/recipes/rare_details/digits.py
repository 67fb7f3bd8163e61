"""Rare details under noise, on synthetic MNIST: a faint corner digit decides five rare classes.

    poise reproduce rare-digits --device cuda --fleet                # 10 seeds of all methods over lambda or sigma
    poise reproduce rare-digits-bilinear rare-digits-nearest --device cuda --fleet      # other readings of the corner
    poise reproduce rare-digits --quick --jobs 2                     # four methods in small: minutes on two cores

Every model is tested on the test set and on validation: settings are chosen on validation, and compared on the test set
(docs/rare-details.md). A digit 0-4 and the same digit with a corner digit, one of the rare classes 10-14, are twins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np
import torch
from torch import Tensor

from poise.checks import require_whole
from poise.classifier import Classifier, Forward
from poise.data.synthetic_mnist import Scaling, SyntheticMNIST
from poise.losses import CrossEntropy, ExampleLoss
from poise.recipes.rare_details.methods import Grid, columns, study
from poise.recipes.synthetic_mnist import table_1
from poise.recipes.synthetic_mnist.table_1 import BATCH, NOISY, RARE, NoisyDigits, rising
from poise.running.experiment import Examples, Experiment, Make, Task
from poise.tokens import Input

COUNTS = (4932, 5678, 4968, 5101, 4859, 4506, 4951, 5175, 4842, 4988, *[50] * 5)
LAMBDAS = (1e-3, 1e-2, 3e-2, 1e-1)
SIGMAS = (0.1, 0.15, 0.2, 0.25)
FIRST_LOOK = ("XE", "XE, adjusted", "recommended", "FCL 0.01")
WORDS: dict[Scaling, str] = {"area": "", "bilinear": ", bilinear corner digits", "nearest": ", sharp corner digits"}


@dataclass(frozen=True)
class RareDigits:
    """The digits of a recipe with the noisy sets of Table 1, validation among the tests, and twins in every test."""

    digits: SyntheticMNIST

    def __call__(self) -> Task:
        task = NoisyDigits(self.digits)()
        tests = {**task.validations, **task.tests}
        return replace(task, tests={name: with_twins(make) for name, make in tests.items()})


def with_twins(make: Make) -> Make:
    """The same examples, which name their twins."""

    def made(device: torch.device) -> Examples:
        examples = cast(Examples, make(device))
        return replace(examples, twins=twins_of(torch.as_tensor(examples.y).cpu().numpy()))

    return made


def twins_of(labels: np.ndarray) -> np.ndarray:
    """The rows of each digit 0-4 without a corner digit and of the same digit with one: both are in the same order."""
    return np.stack([np.flatnonzero(labels < 5), np.flatnonzero(labels >= 10)], 1)


@dataclass(frozen=True)
class CornerUtility:
    """The true utility of a pixel: 1 in a corner's square where a corner digit decides, 1/2 for ink elsewhere, else 0.

    It decides in the classes 0-4 and 10-14: with it or without it, the class is another one. In the
    classes 5-9 corners have no meaning.

    corner_size  the side of the squares, in pixels.
    shape        of a picture, [C, H, W] with H = W.
    """

    corner_size: int = 7
    shape: tuple[int, int, int] = (1, 28, 28)

    def __post_init__(self) -> None:
        require_whole("corner_size", self.corner_size, least=1)

    @property
    def uses_forward(self) -> bool:
        return False

    def check(self, x: Input) -> None:
        if not isinstance(x, Tensor) or x.shape[1:] != self.shape:
            raise TypeError(f"CornerUtility needs images [B, {', '.join(map(str, self.shape))}]")

    def __call__(
        self,
        model: Classifier,
        x: Input,
        y: Tensor,
        *,
        loss: ExampleLoss = CrossEntropy(),
        forward: Forward | None = None,
    ) -> Tensor:
        self.check(x)
        x = cast(Tensor, x)
        side = self.shape[-1]
        line = torch.arange(side, device=x.device)
        edge = (line < self.corner_size) | (line >= side - self.corner_size)
        decides = ((y < 5) | (y >= 10)).view(-1, 1, 1, 1)
        return torch.where(edge[:, None] & edge, decides.float(), 0.5 * (x > 0))


def _experiment(base: Experiment, images: int, scaling: Scaling, quick: bool) -> Experiment:
    """images: the size of the training set."""
    digits = replace(cast(NoisyDigits, base.task).digits, scaling=scaling)
    grid = Grid(
        counts=(1000,) * 10 + (20,) * 5 if quick else COUNTS,
        rising=partial(rising, images // BATCH),
        lambdas=(1e-2,) if quick else LAMBDAS,
        sigmas=(0.2,) if quick else SIGMAS,
        patch=14,
        oracle=CornerUtility(digits.corner_size),
    )
    name = "rare-digits" + ("" if scaling == "area" else f"-{scaling}") + ("-quick" if quick else "")
    title = f"Rare corner digits under noise{WORDS[scaling]}{', a quick look' if quick else ''}"
    plain = replace(base, name=name, title=title, task=NoisyDigits(digits) if quick else RareDigits(digits))
    made = study(plain, grid, "BAL", ("BAL+UN", "BAL+NUN"), RARE, pairs=not quick)
    if quick:
        return first_look(made)
    chosen = columns("validation", NOISY[1:], RARE, pairs=True)
    return replace(made, details={"validation, on which settings are chosen": chosen})


def first_look(made: Experiment) -> Experiment:
    """Only the methods and columns that show the effect, with enough seeds to test it: minutes on two cores."""
    methods = tuple(method for method in made.methods if method.name in FIRST_LOOK)
    shown = tuple(column for column in made.columns if not column.worst)
    return replace(made, methods=methods, columns=shown, groups=(FIRST_LOOK,), seeds=5, frontier=())


EXPERIMENTS = {
    "full": tuple(_experiment(table_1.EXPERIMENT, 50_250, scaling, quick=False) for scaling in WORDS),
    "quick": tuple(_experiment(table_1.QUICK, 10_100, scaling, quick=True) for scaling in WORDS),
}
