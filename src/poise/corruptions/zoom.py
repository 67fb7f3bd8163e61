"""Zoom: the middle of an image enlarged to its size, bilinear with aligned corners, as SciPy does."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from poise.corruptions.draws import Random
from poise.corruptions.pixels import as_bytes, divided, unit

_SMALL = 64  # up to this size a product of matrices is faster than two taps


@dataclass(frozen=True)
class ZoomBlur:
    """The mean of the image and its zooms by `factors`; 1 is one of them, so the image counts twice."""

    factors: tuple[float, ...]

    def draw(self, random: Random, images: Tensor) -> tuple[()]:
        return ()

    def apply(self, images: Tensor) -> Tensor:
        x = unit(images.permute(2, 0, 1, 3).contiguous(), torch.float32)
        exact, total = x.double(), torch.zeros_like(x)
        for factor in self.factors:
            total += x if factor == 1 else zoom(exact, factor).float()
        return as_bytes(divided(x + total, len(self.factors) + 1)).permute(1, 2, 0, 3).contiguous()


def zoom(x: Tensor, factor: float) -> Tensor:
    """Images [H, ..., W] enlarged by the factor around their middle, and cut to H x W: columns first, then rows.

    With rows first and columns last one product of matrices does an axis of a whole batch.
    """
    height, width = x.shape[0], x.shape[-1]
    if max(height, width) <= _SMALL:
        rows, columns = (_zoom_matrix(size, factor, x.device) for size in (height, width))
        return rows.mm(x.reshape(-1, width).mm(columns.T).view(height, -1)).view(x.shape)
    for axis in (-1, 0):
        left, weight = _zoom_taps(x.shape[axis], factor, x.device)
        weight = weight if axis == -1 else weight.view(-1, *(1 for _ in x.shape[1:]))
        x = x.index_select(axis, left).mul_(1 - weight).add_(x.index_select(axis, left + 1).mul_(weight))
    return x


@lru_cache(256)
def _zoom_taps(size: int, factor: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cut the middle, enlarge it, cut the middle: each place's two numbers, by the left one, and the right's weight."""
    part = math.ceil(size / factor)
    large = round(part * factor)
    place = torch.arange(size, dtype=torch.float64) + (large - size) // 2
    place = place * ((part - 1) / (large - 1))
    left = place.floor().clamp(max=part - 2)
    return (left.long() + (size - part) // 2).to(device), (place - left).to(device)


@lru_cache(256)
def _zoom_matrix(size: int, factor: float, device: torch.device) -> Tensor:
    """The same as a matrix [n, n]."""
    left, weight = _zoom_taps(size, factor, device)
    row = torch.arange(size, device=device)
    matrix = torch.zeros(size, size, dtype=torch.float64, device=device)
    matrix[row, left] = 1 - weight
    matrix[row, left + 1] = weight
    return matrix
