"""Pixelate: shrunk by Pillow's box filter, enlarged again by repeating pixels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from poise.corruptions.draws import Random

_ONE = 1 << 22  # Pillow's weights are fixed-point numbers of 22 bits


@dataclass(frozen=True)
class Pixelate:
    """Keep this share of the pixels of each axis."""

    share: float

    def draw(self, random: Random, images: Tensor) -> tuple[()]:
        return ()

    def apply(self, images: Tensor) -> Tensor:
        height, width = images.shape[2:]
        small = _shrink(images.double(), int(height * self.share), int(width * self.share)).to(torch.uint8)
        rows, columns = (
            _repeats(*sizes, images.device) for sizes in zip(small.shape[2:], (height, width), strict=True)
        )
        return small.index_select(2, rows).index_select(3, columns)


def _shrink(images: Tensor, height: int, width: int) -> Tensor:
    """Columns first, then rows, levels rounded after each."""
    across = _box_weights(images.shape[3], width, images.device)
    down = _box_weights(images.shape[2], height, images.device)
    return _rounded(torch.matmul(down, _rounded(torch.matmul(images, across.T))))


@lru_cache(64)
def _repeats(size: int, new: int, device: torch.device) -> Tensor:
    """The one pixel that the box filter gives to each when it enlarges [new]."""
    return _box_weights(size, new, device).argmax(1)


@lru_cache(64)
def _box_weights(size: int, new: int, device: torch.device) -> Tensor:
    """Equal weights for the pixels whose centre lies in an output pixel, in fixed point [new, size].

    Products and sums of these integers are exact in float64, whatever the order; where a centre lies on the border of
    two output pixels, Pillow's own order of operations decides.
    """
    scale = size / new
    wide = max(scale, 1.0)
    centre = ((torch.arange(new, dtype=torch.float64) + 0.5) * scale)[:, None]
    pixel = torch.arange(size, dtype=torch.float64)
    distance = (pixel - centre + 0.5) * (1 / wide)
    window = (pixel >= (centre - wide / 2 + 0.5).floor()) & (pixel < (centre + wide / 2 + 0.5).floor())
    weights = (window & (distance > -0.5) & (distance <= 0.5)).double()
    return (weights / weights.sum(1, keepdim=True) * _ONE + 0.5).floor().to(device)


def _rounded(total: Tensor) -> Tensor:
    return total.add_(_ONE / 2).div_(_ONE).floor_().clamp_(0, 255)
