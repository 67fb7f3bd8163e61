"""Corruptions by cubic B-splines as SciPy evaluates them: circular motion blur and transverse chromatic aberration.

    image(p) = sum_t c(floor(p) + t) beta(p - floor(p) - t),   t = -1, 0, 1, 2,   reflected at the borders

The rotations solve for c, so that the spline passes through the pixels; the zooms take c = image, which blurs.

Axes: B images, C channels, H rows, W columns, n one of the last two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from poise.corruptions.draws import Deterministic, Random
from poise.corruptions.pixels import as_bytes, divided, reflect, unit

_TURNS = 21
_SMALL = 64 * 64  # pixels: the rotations of these are kept


@dataclass(frozen=True)
class CircularMotionBlur(Deterministic):
    """The mean of 21 rotations up to `degrees` to either side, weighted by a Gaussian; black outside."""

    degrees: float

    def apply(self, images: Tensor) -> Tensor:
        size, channels, height, width = images.shape
        rows, columns = (_knots(n, images.device) for n in (height, width))
        knots = torch.matmul(torch.matmul(rows, unit(images, torch.float32).double()), columns.T)
        flat = knots.flatten(0, 1).flatten(1).T.contiguous()  # [H W, B C]
        rotate: Callable[..., Tensor] = _kept_rotation if height * width <= _SMALL else rotation
        total, weights = torch.zeros(flat.shape, device=images.device), 0.0  # float32, as in the original
        for turn in range(_TURNS):
            share = 2 * turn / (_TURNS - 1) - 1
            weight = math.exp(-2 * share**2)
            turned = torch.sparse.mm(rotate(share * self.degrees, height, width, images.device), flat)
            total.add_(turned.float().mul_(weight))
            weights += weight
        return as_bytes(divided(total, weights)).T.reshape(size, channels, height, width)


@lru_cache(16)
def _knots(size: int, device: torch.device) -> Tensor:
    """The matrix from n pixels to the coefficients of their spline [n, n]."""
    place = torch.arange(size)
    matrix = torch.zeros(size, size, dtype=torch.float64)
    for offset, weight in ((-1, 1 / 6), (0, 4 / 6), (1, 1 / 6)):
        matrix.index_put_(
            (place, reflect(place + offset, size)), torch.tensor(weight, dtype=torch.float64), accumulate=True
        )
    return matrix.inverse().to(device)


def rotation(degrees: float, height: int, width: int, device: torch.device) -> Tensor:
    """The map from coefficients to the pixels of the image rotated about its middle, sparse [H W, H W]."""
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    middle, centre = (height - 1) / 2, (width - 1) / 2
    row = torch.arange(height, dtype=torch.float64, device=device)[:, None]
    column = torch.arange(width, dtype=torch.float64, device=device)
    rows = middle - (cosine * middle + sine * centre) + cosine * row + sine * column
    columns = centre - (cosine * centre - sine * middle) - sine * row + cosine * column
    inside = ((rows >= 0) & (rows <= height - 1) & (columns >= 0) & (columns <= width - 1)).flatten()
    down, across = (splines(part.flatten()[inside]) for part in (rows, columns))
    top, left = (part.flatten()[inside].floor().long() - 1 for part in (rows, columns))
    target = inside.nonzero()[:, 0]
    taps = [(i, j) for i in range(4) for j in range(4)]
    source = torch.stack([reflect(top + i, height) * width + reflect(left + j, width) for i, j in taps])
    weights = torch.stack([down[i] * across[j] for i, j in taps])
    index = torch.stack([target.expand_as(source).flatten(), source.flatten()])
    return torch.sparse_coo_tensor(index, weights.flatten(), (height * width,) * 2, check_invariants=False).coalesce()


_kept_rotation = lru_cache(256)(rotation)


def splines(place: Tensor) -> tuple[Tensor, ...]:
    """The weights of the four coefficients around a place, the last one so that they sum to 1."""
    y = place - place.floor()
    z = 1 - y
    first = z * z * z / 6
    second, third = ((part * part * (part - 2) * 3 + 4) / 6 for part in (y, z))
    return first, second, third, 1 - first - second - third


@dataclass(frozen=True)
class TransverseChromaticAberration:
    """The channels zoomed by 1, 1 + scale / 2 and 1 + scale around the middle, in random order."""

    scale: float

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor]:
        """Which zoom each channel has [B, 3]."""
        return (random.uniform(3).argsort(dim=1, stable=True),)

    def apply(self, images: Tensor, order: Tensor) -> Tensor:
        planes, zooms, result = images.flatten(0, 1), order.flatten(), torch.empty_like(images).flatten(0, 1)
        for number, factor in enumerate((1.0, 1 + self.scale / 2, 1 + self.scale)):
            chosen = zooms == number
            result[chosen] = _zoomed(planes[chosen], factor)
        return result.view_as(images)


def _zoomed(planes: Tensor, factor: float) -> Tensor:
    """Bytes [N, H, W] enlarged, aligned at the corners, and cropped to H x W; rounded to the nearest level.

    The taps are added one by one in SciPy's order: a third of the sums lie near the middle between two levels.
    """
    (top, down), (left, across) = (_taps(size, factor, planes.device) for size in planes.shape[1:])
    x = planes.double()
    total = torch.zeros_like(x)
    for i in range(4):
        rows = x.index_select(1, top[i])
        for j in range(4):
            total += rows.index_select(2, left[j]) * down[i][:, None] * across[j]
    return (total + 0.5).to(torch.uint8)


def _taps(size: int, factor: float, device: torch.device) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    """For each pixel of an axis the four pixels that it reads and their weights."""
    large = round(size * factor)
    place = torch.arange(size, dtype=torch.float64, device=device) + (large - size) // 2
    place = place * ((size - 1) / (large - 1))
    return [reflect(place.floor().long() + t, size) for t in (-1, 0, 1, 2)], splines(place)
