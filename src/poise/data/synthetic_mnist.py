"""Synthetic MNIST (section 4.2): a small corner digit determines the class of some digits but not of others.

    digits 5-9 with a corner digit keep their class
    digits 0-4 with a corner digit become classes 10-14

    training     every 0-4 without and every 5-9 with a corner digit, about 5,000 each; 50 each of 10-14
    validation   every digit once (5-9 with a corner digit), and every 0-4 once more, as 10-14: about 15,000
    test         the same

Training and validation share no digit image (the first 50,000 and the last 10,000 of MNIST's training set), corner
digits included; the test set is made from MNIST's. All draws come from one seed and a fixed generator, and digits are
scaled with integers, so the bytes are the same on every machine.

Axes: N images, H = W = 28.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from poise.random import Stream

Scaling: TypeAlias = Literal["area", "bilinear", "nearest"]


@dataclass(frozen=True, eq=False)
class Digits:
    """Images x and labels y, with the digit in the centre and the corner (0-3, or -1 for none)."""

    x: np.ndarray  # [N, 28, 28] uint8
    y: np.ndarray  # [N] uint8, 0-14
    digit: np.ndarray  # [N] uint8, 0-9
    corner: np.ndarray  # [N] int8: top left, top right, bottom left, bottom right

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class SyntheticMNIST:
    """Settings of the set; call it with MNIST to make the set.

    corner_size  the side of the corner digit, in pixels.
    scaling      how the corner digit is scaled, see `shrink`.
    common       images of each class 0-9 in training, drawn at random; None takes all, about 5,000.
    rare         images of each class 10-14 in training.
    validation   how many of MNIST's last training images validation is made from.
    seed         the seed of all draws.
    """

    corner_size: int = 7
    scaling: Scaling = "area"
    common: int | None = None
    rare: int = 50
    validation: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.corner_size <= 14:
            raise ValueError(f"corner_size={self.corner_size} must lie between 1 and 14 pixels")
        if self.scaling not in get_args(Scaling) or self.rare < 0 or self.validation < 1:
            raise ValueError(f"{self}: scaling must be area, bilinear or nearest, rare >= 0, validation >= 1")
        if self.common is not None and self.common < 1:
            raise ValueError(f"common={self.common} must be at least 1, or None for all")

    def __call__(self, mnist: dict[str, np.ndarray]) -> dict[str, Digits]:
        """train_x, train_y, test_x, test_y of MNIST → train, validation, test."""
        cut = len(mnist["train_y"]) - self.validation
        train_x, train_y = np.asarray(mnist["train_x"]), np.asarray(mnist["train_y"])
        pools = {
            "train": self._common(train_x[:cut], train_y[:cut]),
            "validation": (train_x[cut:], train_y[cut:]),
            "test": (np.asarray(mnist["test_x"]), np.asarray(mnist["test_y"])),
        }
        return {part: self._make(x, y, part) for part, (x, y) in pools.items()}

    def _common(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The digits that training is made from, in order. A separate stream does not change the other draws."""
        if self.common is None:
            return x, y
        stream = Stream(self.seed, "synthetic mnist", "common")
        chosen = np.sort(_some_of_each(y, range(10), self.common, f"common={self.common}", stream))
        return x[chosen], y[chosen]

    def _make(self, x: np.ndarray, y: np.ndarray, part: str) -> Digits:
        stream = Stream(self.seed, "synthetic mnist", part)
        small = np.flatnonzero(y < 5)
        extra = _some_of_each(y, range(5), self.rare, f"rare={self.rare}", stream) if part == "train" else small
        centre = np.concatenate([np.arange(len(y)), extra])
        with_corner = np.concatenate([y >= 5, np.ones(len(extra), bool)])
        corner = np.where(with_corner, stream.integers(4, len(centre)), -1).astype(np.int8)
        corner_digit = stream.integers(len(y), len(centre))
        images = x[centre].copy()
        self._paste(images, corner, x[corner_digit])
        labels = np.concatenate([y, y[extra] + 10]).astype(np.uint8)
        return Digits(images, labels, y[centre], corner)

    def _paste(self, images: np.ndarray, corner: np.ndarray, digits: np.ndarray) -> None:
        """Add the scaled digits to their corners, clipped at white."""
        size = self.corner_size
        for number in range(4):
            rows = slice(0, size) if number < 2 else slice(28 - size, 28)
            columns = slice(0, size) if number % 2 == 0 else slice(28 - size, 28)
            here = np.flatnonzero(corner == number)
            total = images[here, rows, columns].astype(np.uint16) + shrink(digits[here], size, self.scaling)
            images[here, rows, columns] = np.minimum(total, 255).astype(np.uint8)


def _some_of_each(y: np.ndarray, wanted: range, count: int, setting: str, stream: Stream) -> np.ndarray:
    """The indices of `count` random images of each digit."""
    chosen = []
    for digit in wanted:
        places = np.flatnonzero(y == digit)
        if len(places) < count:
            raise ValueError(f"{setting} is too many: there are {len(places)} images of digit {digit}")
        chosen.append(np.sort(places[stream.permutation(len(places))[:count]]))
    return np.concatenate(chosen)


def shrink(images: np.ndarray, size: int, scaling: Scaling = "area") -> np.ndarray:
    """Scale images uint8 [N, S, S] → [N, size, size] with integer arithmetic, rounding half up.

    area      the mean over the area that a new pixel covers
    bilinear  interpolate between the four pixels around the centre of the new pixel
    nearest   the pixel under the centre of the new pixel
    """
    side = images.shape[1]
    if scaling == "nearest":
        places = (2 * np.arange(size) + 1) * side // (2 * size)
        return images[:, places][:, :, places]
    weights = _area_weights(side, size) if scaling == "area" else _bilinear_weights(side, size)
    sums: np.ndarray = np.einsum("or,nrc,pc->nop", weights, images.astype(np.int64), weights, optimize=True)
    whole = int(weights[0].sum()) ** 2
    rounded: np.ndarray = (sums + whole // 2) // whole
    return rounded.astype(np.uint8)


def _area_weights(side: int, size: int) -> np.ndarray:
    """[size, side], rows sum to side. On a line of side * size units, an old pixel has `size`, a new one `side`."""
    old, new = np.arange(side) * size, np.arange(size) * side
    overlap = np.minimum(old[None] + size, new[:, None] + side) - np.maximum(old[None], new[:, None])
    weights: np.ndarray = np.maximum(overlap, 0).astype(np.int64)
    return weights


def _bilinear_weights(side: int, size: int) -> np.ndarray:
    """[size, side], rows sum to 2 * size: the centre of a new pixel lies between the centres of two old ones."""
    left, further = np.divmod((2 * np.arange(size) + 1) * side - size, 2 * size)
    weights = np.zeros((size, side + 1), np.int64)
    weights[np.arange(size), left] = 2 * size - further
    weights[np.arange(size), left + 1] += further
    return weights[:, :side]
