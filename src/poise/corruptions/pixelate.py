"""Pixelate: shrunk by Pillow's box filter, enlarged again by repeating pixels."""

from __future__ import annotations

from dataclasses import dataclass

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
        small_height, small_width = int(height * self.share), int(width * self.share)
        across = _box_weights(width, small_width).to(images.device)
        down = _box_weights(height, small_height).to(images.device)
        small = _rounded(torch.matmul(images.double(), across.T))
        small = _rounded(torch.matmul(down, small)).to(torch.uint8)
        rows, columns = (_nearest(n, s).to(images.device) for n, s in ((small_height, height), (small_width, width)))
        return small.index_select(2, rows).index_select(3, columns)


def _box_weights(size: int, small: int) -> Tensor:
    """Equal weights for the pixels whose centre lies in an output pixel, in fixed point [small, size].

    Products and sums of these integers are exact in float64, whatever the order.
    """
    scale = size / small
    centre = (torch.arange(small, dtype=torch.float64) + 0.5) * scale
    distance = (torch.arange(size, dtype=torch.float64) + 0.5 - centre[:, None]) / scale
    weights = ((distance > -0.5) & (distance <= 0.5)).double()
    return (weights / weights.sum(1, keepdim=True) * _ONE + 0.5).floor()


def _rounded(total: Tensor) -> Tensor:
    return total.add_(_ONE / 2).div_(_ONE).floor_().clamp_(0, 255)


def _nearest(small: int, size: int) -> Tensor:
    return ((torch.arange(size, dtype=torch.float64) + 0.5) * (small / size)).floor().long()
