"""The four noises, applied to every value of an image independently.

gaussian   x + c n          shot      Poisson(c x) / c
speckle    x + x c n        impulse   0 or 1 with probability p       n ~ N(0, 1)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from poise.corruptions.draws import Random
from poise.corruptions.pixels import as_bytes, divided, unit


@dataclass(frozen=True)
class AdditiveNoise:
    """Noise of uniform strength, as from a warm sensor."""

    scale: float

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor]:
        return (random.normal(*images.shape[1:]),)

    def apply(self, images: Tensor, noise: Tensor) -> Tensor:
        return as_bytes((noise * self.scale).add_(unit(images)))


@dataclass(frozen=True)
class SpeckleNoise:
    """Noise that grows with the signal."""

    scale: float

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor]:
        return (random.normal(*images.shape[1:]),)

    def apply(self, images: Tensor, noise: Tensor) -> Tensor:
        x = unit(images)
        return as_bytes((noise * self.scale).mul_(x).add_(x))


@dataclass(frozen=True)
class ShotNoise:
    """Noise of counted photons, `photons` of them in a white value."""

    photons: float

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor]:
        """The counts: a byte has 256 rates, so u is looked up in 256 concatenated distribution functions."""
        bounds, width = _poisson(self.photons, images.device)
        level = images.double()
        place = _number_below(bounds, random.uniform(*images.shape[1:]).add_(level), self.photons)
        return (place - level.mul_(width).long(),)

    def apply(self, images: Tensor, counts: Tensor) -> Tensor:
        return as_bytes(divided(counts.double(), self.photons))


@dataclass(frozen=True)
class ImpulseNoise:
    """Salt and pepper: each value is replaced with this probability."""

    probability: float

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor, Tensor]:
        return random.uniform(*images.shape[1:]), random.uniform(*images.shape[1:])

    def apply(self, images: Tensor, flip: Tensor, salt: Tensor) -> Tensor:
        extreme = (salt < 0.5).to(torch.uint8).mul_(255)
        return torch.where(flip < self.probability, extreme, images)


_CELLS = 1024  # of a level


def _number_below(bounds: Tensor, values: Tensor, photons: float) -> Tensor:
    """searchsorted(bounds, values, right=True). On a CPU the search starts from a table: the number of bounds below the
    cell that a value lies in, which is less by 0 or 1 for nearly all values."""
    if values.device.type != "cpu":
        return torch.searchsorted(bounds, values, right=True)
    flat = values.flatten()
    place = _below_cells(photons)[(flat * _CELLS).int()]
    left = (bounds[place] <= flat).nonzero().squeeze(1)
    while len(left):
        place[left] += 1
        left = left[bounds[place[left]] <= flat[left]]
    return place.view_as(values)


@lru_cache(maxsize=32)
def _below_cells(photons: float) -> Tensor:
    """The number of bounds up to the start of each cell, int64 [256 * _CELLS]."""
    starts = torch.arange(256 * _CELLS, dtype=torch.float64) / _CELLS
    return torch.searchsorted(_poisson(photons, torch.device("cpu"))[0], starts, right=True)


@lru_cache(maxsize=32)
def _poisson(photons: float, device: torch.device) -> tuple[Tensor, int]:
    """level + P(count <= k) for every level 0..255 and k < width, ascending [256 * width]; and the width."""
    width = int(photons + 12 * math.sqrt(photons) + 30)
    count = torch.arange(width, dtype=torch.float64)
    level = torch.arange(256, dtype=torch.float64)[:, None]
    rate = level / 255 * photons
    mass = torch.exp(torch.xlogy(count, rate) - rate - torch.lgamma(count + 1))
    return (level + mass.cumsum(1).clamp_(max=1)).flatten().to(device), width
