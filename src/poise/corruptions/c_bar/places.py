"""Places in an image: coordinates, levels, and bilinear sampling with black outside.

The original of C-bar works on levels from 0 to 255 and truncates after clipping. Its lengths are shares of the side of
a square image; here they are shares of the shorter side.

Axes: B images, C channels, H rows, W columns.
"""

from __future__ import annotations

import torch
from torch import Tensor


def as_levels(x: Tensor) -> Tensor:
    """Numbers in [0, 255] as bytes: clipped, then truncated."""
    return x.clamp(0, 255).to(torch.uint8)


def shorter(images: Tensor) -> int:
    """The length of the shorter side."""
    return min(images.shape[2:])


def places(images: Tensor) -> tuple[Tensor, Tensor]:
    """The rows [H, 1] and the columns [1, W], float64."""
    rows, columns = (torch.arange(size, dtype=torch.float64, device=images.device) for size in images.shape[2:])
    return rows[:, None], columns


def wide(numbers: Tensor) -> Tensor:
    """One number per image, [B], for maps [B, H, W]."""
    return numbers[:, None, None]


def interpolate(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """x [B, C, H, W] at the places (rows, columns) [B, H, W], in x's precision.

    The order of the operations decides whether flat regions keep their level after truncation.
    """
    top, left = rows.floor(), columns.floor()
    before, after = (1 - columns) + left, (1 - (left + 1)) + columns
    upper = pixels(x, top, left) * _as(x, before) + pixels(x, top, left + 1) * _as(x, after)
    lower = pixels(x, top + 1, left) * _as(x, before) + pixels(x, top + 1, left + 1) * _as(x, after)
    return upper * _as(x, (1 - rows) + top) + lower * _as(x, (1 - (top + 1)) + rows)


def pixels(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """x at whole places, 0 outside [B, C, H, W]."""
    height, width = x.shape[2:]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    place = (rows.clamp(0, height - 1) * width + columns.clamp(0, width - 1)).long()
    taken = x.flatten(2).gather(2, place.flatten(1)[:, None].expand(-1, x.shape[1], -1)).view_as(x)
    return taken.where(inside[:, None], 0)


def _as(x: Tensor, weight: Tensor) -> Tensor:
    return weight.to(x.dtype)[:, None]
