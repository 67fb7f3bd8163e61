"""Motion blur as in ImageMagick: half a Gaussian along a line, pixel by pixel, in 16 bits.

    out(y, x) = sum_i k_i in(y + ceil(i sin a - 1/2), x + ceil(i cos a - 1/2)),   k_i ~ exp(-i^2 / 2 sigma^2), i >= 0

Axes: B images, C channels, H rows, W columns, T taps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from operator import add

import torch
from torch import Tensor

from poise.corruptions.draws import Random
from poise.corruptions.pixels import replicate


@dataclass(frozen=True)
class MotionBlur:
    """The camera moves at an angle within 45 degrees of the horizontal."""

    radius: float
    sigma: float
    rounding: str = "nearest"

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor]:
        return (random.uniform(),)

    def apply(self, images: Tensor, turn: Tensor) -> Tensor:
        return streak(images, -45 + 90 * turn, self.radius, self.sigma, self.rounding)


def streak(images: Tensor, degrees: Tensor, radius: float, sigma: float, rounding: str) -> Tensor:
    """Bytes [B, C, H, W] blurred along a line at degrees[b].

    rounding  from 16 to 8 bits: "nearest" as in ImageMagick when the sets were made, "truncate" as since 6.9.10-69.
    """
    size, channels, height, width = images.shape
    weights = _half_gaussian(2 * math.ceil(radius) + 1, sigma)
    taps = torch.arange(len(weights), device=images.device)
    angle = (degrees * (math.pi / 180))[:, None]
    rows = _line(taps * angle.sin(), height) * width  # [B, T, H]
    columns = _line(taps * angle.cos(), width)  # [B, T, W]
    first = torch.arange(size, device=images.device)[:, None, None] * (height * width)
    # Channels must lie together: of one image alone, reshape would give a view of planes, ten times as slow to read.
    pixels = images.permute(0, 2, 3, 1).contiguous().view(-1, channels).double().mul_(257)
    total = torch.zeros_like(pixels)
    for tap, weight in enumerate(weights):
        place = first + rows[:, tap, :, None] + columns[:, tap, None]
        total += pixels.index_select(0, place.flatten()).mul_(weight)
    wide = total.add_(0.5).floor_().clamp_(max=65535).int()
    return _to_8_bits(wide, rounding).view(size, height, width, channels).permute(0, 3, 1, 2)


def _half_gaussian(width: int, sigma: float) -> list[float]:
    taps = [math.exp(-(i * i) / (2 * sigma * sigma)) / (math.sqrt(2 * math.pi) * sigma) for i in range(width)]
    total = reduce(add, taps)
    return [tap / total for tap in taps]


def _line(distance: Tensor, size: int) -> Tensor:
    """The places that a tap at this distance reads, for all places of an axis [B, T, size]."""
    offset = (distance - 0.5).ceil().long()
    return replicate(torch.arange(size, device=distance.device) + offset[..., None], size)


def _to_8_bits(wide: Tensor, rounding: str) -> Tensor:
    if rounding == "truncate":
        return (wide // 257).to(torch.uint8)
    wide = wide + 128
    return ((wide - (wide >> 8)) >> 8).to(torch.uint8)
