"""Measures of the corner digit: does a model use it when it decides the class, and only then?

    in context       centre 0-4 with a corner digit: without it, the class would be another
    out of context   centre 5-9 with a corner digit, which has no meaning

For utility and sensitivity, the share of an example's total inside the corner's square,

    sum_{j in corner} u_j / sum_j u_j,

the share of the k most useful pixels inside it, the rank correlation of utility and sensitivity over pixels, and how
far the embedding moves, 1 - cosine, with noise on the k least and on the k most useful pixels. Also, on training
images, the share whose utility is so small that FCL drops their far view.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from poise.data.loading.resident import on_device, to_unit
from poise.data.sets.cache import load
from poise.data.synthetic_mnist import Digits, SyntheticMNIST
from poise.features.perturbation import Gaussian
from poise.features.selection import TopBottom
from poise.features.sensitivity import JacobianSensitivity, spearman
from poise.features.utility import GradientUtility
from poise.running.experiment import Examples, Task

DROP_BELOW = 1e-12  # section 4.2


@dataclass(frozen=True)
class CornerMeasures:
    """The measures of a model by name, means over the first `images` test images of each kind; empty without a test
    set.
    """

    digits: SyntheticMNIST
    images: int = 1000
    k: int = 256
    sigma: float = 0.5

    def __call__(self, model: nn.Module, task: Task) -> dict[str, float]:
        if not task.tests:
            return {}
        measured: dict[str, float] = {}
        for context, digits in _kinds(self.digits, self.images).items():
            corner = torch.from_numpy(corner_squares(digits.corner, self.digits.corner_size))
            found = self._measure(model, digits, corner[:, None])
            measured |= {f"{name}, {context}": float(values.nanmean()) for name, values in found.items()}
        return measured | {"far view dropped": self._dropped(model, task)}

    def _shift(self, model: Any, x: Tensor, chosen: Tensor, chance: torch.Generator) -> Tensor:
        """[B] 1 - cos(z, z'), x' with noise on the chosen pixels."""
        with torch.no_grad():
            return 1 - F.cosine_similarity(model.embed(x), model.embed(Gaussian(self.sigma)(x, chosen, chance)))

    def _dropped(self, model: Any, task: Task) -> float:
        """The share of the first training images whose largest utility is below FCL's threshold."""
        device = next(model.parameters()).device
        train = cast(Examples, task.train)
        images, labels = on_device(cast(Tensor, train.x)[: self.images], train.y[: self.images], device)
        u = GradientUtility()(model, to_unit(images), labels)
        return float((u.flatten(1).amax(1) < DROP_BELOW).float().mean())

    def _measure(self, model: Any, digits: Digits, corner: Tensor) -> dict[str, Tensor]:
        """Each measure for each example [B]."""
        device = next(model.parameters()).device
        images, labels = on_device(digits.x, digits.y, device)
        x, corner = to_unit(images), corner.to(device)
        u, s = GradientUtility()(model, x, labels), JacobianSensitivity()(model, x)
        chance = torch.Generator(device).manual_seed(0)
        least, most = TopBottom(self.k)(u, generator=chance)
        return {
            "corner utility": _share(u, corner),
            "corner sensitivity": _share(s, corner),
            "corner top-k": _share(most.float(), corner),
            "rank correlation": spearman(u, s),
            "near shift": self._shift(model, x, least, chance),
            "far shift": self._shift(model, x, most, chance),
        }


def corner_squares(corner: np.ndarray, size: int) -> np.ndarray:
    """[N] corners (0-3, -1 for none) → [N, 28, 28] True in the corner's square."""
    rows, columns = np.divmod(np.arange(28 * 28).reshape(28, 28), 28)
    top_or_bottom, left_or_right = (rows < size, rows >= 28 - size), (columns < size, columns >= 28 - size)
    corners = [top_or_bottom[number // 2] & left_or_right[number % 2] for number in range(4)]
    squares = np.stack([*corners, np.zeros((28, 28), bool)])
    found: np.ndarray = squares[corner]  # -1 selects the last entry: no square
    return found


def _share(values: Tensor, where: Tensor) -> Tensor:
    """The share of each example's sum inside `where`; NaN if the sum is 0."""
    shares: Tensor = (values * where).flatten(1).sum(1) / values.flatten(1).sum(1)
    return shares


@cache
def _kinds(recipe: SyntheticMNIST, count: int) -> dict[str, Digits]:
    test = recipe({name: load("mnist", name) for name in ("train_x", "train_y", "test_x", "test_y")})["test"]
    kinds = {"in context": test.y >= 10, "out of context": test.digit >= 5}
    return {name: _first(test, np.flatnonzero(chosen)[:count]) for name, chosen in kinds.items()}


def _first(digits: Digits, places: np.ndarray) -> Digits:
    return Digits(digits.x[places], digits.y[places], digits.digit[places], digits.corner[places])
