"""Edges and the distance to them, as OpenCV finds them: Canny with the L1 norm, and the 5 x 5 chamfer distance.

Axes: B images, H rows, W columns.
"""

from __future__ import annotations

from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor

from poise.corruptions.pixels import replicate

# Steps of the chamfer distance, as OpenCV holds them: 1, 1.4 and 2.1969 in 16-bit fixed point.
_STRAIGHT, _DIAGONAL, _KNIGHT, _UNIT = 65536, 91750, 143976, 65536.0
_TANGENT = 13573  # tan(22.5 degrees) in 15-bit fixed point


def canny(images: Tensor, low: int, high: int) -> Tensor:
    """Edges of byte images, True on an edge [B, H, W]."""
    gx, gy = _sobel(images.int())
    strength = gx.abs() + gy.abs()
    weak = (strength > low) & _is_ridge(strength, gx, gy)
    return _connected(weak & (strength > high), weak)


def chamfer_distance(edges: Tensor, farthest: int) -> Tensor:
    """The length of the shortest path to an edge, at most `farthest` [B, H, W]."""
    far = farthest * _STRAIGHT
    distance = torch.where(edges, 0, far).int()
    for _ in range(farthest):
        shorter = _relax(distance, far)
        if torch.equal(shorter, distance):
            break
        distance = shorter
    return distance.double().div_(_UNIT).float()


def _sobel(images: Tensor) -> tuple[Tensor, Tensor]:
    height, width = images.shape[1:]
    rows = replicate(torch.arange(-1, height + 1, device=images.device), height)
    columns = replicate(torch.arange(-1, width + 1, device=images.device), width)
    padded = images.index_select(1, rows).index_select(2, columns)
    across = padded[:, :, 2:] - padded[:, :, :-2]
    down = padded[:, 2:] - padded[:, :-2]
    gx = across[:, :-2] + 2 * across[:, 1:-1] + across[:, 2:]
    gy = down[:, :, :-2] + 2 * down[:, :, 1:-1] + down[:, :, 2:]
    return gx, gy


def _is_ridge(strength: Tensor, gx: Tensor, gy: Tensor) -> Tensor:
    """Stronger than both neighbours along the gradient, whose direction is one of four; outside there is nothing."""
    near = _Neighbours(strength, 1, 0)
    wide, tall = gx.abs().long() * _TANGENT, gy.abs().long() << 15
    horizontal = tall < wide
    vertical = tall > wide + (gx.abs().long() << 16)
    falling = (gx ^ gy) >= 0
    across = (strength > near(0, -1)) & (strength >= near(0, 1))
    along = (strength > near(-1, 0)) & (strength >= near(1, 0))
    down = (strength > near(-1, -1)) & (strength > near(1, 1))
    up = (strength > near(-1, 1)) & (strength > near(1, -1))
    diagonal = torch.where(falling, down, up)
    return torch.where(horizontal, across, torch.where(vertical, along, diagonal))


def _connected(strong: Tensor, weak: Tensor) -> Tensor:
    """The weak pixels that a chain of weak neighbours links to a strong one."""
    found = strong
    while True:
        grown = (F.max_pool2d(found.float(), 3, stride=1, padding=1) > 0) & weak
        if torch.equal(grown, found):
            return found
        found = grown


def _relax(distance: Tensor, far: int) -> Tensor:
    """The distance through the best of the 16 steps."""
    near = _Neighbours(distance, 2, far)
    best = distance
    for square, step in ((1, _STRAIGHT), (2, _DIAGONAL), (5, _KNIGHT)):
        moves = [(i, j) for i in range(-2, 3) for j in range(-2, 3) if i * i + j * j == square]
        nearest = reduce(torch.minimum, (near(down, right) for down, right in moves))
        best = torch.minimum(best, nearest + step)
    return best


class _Neighbours:
    """A batch of planes, seen from a place some pixels away; a constant lies beyond the border."""

    def __init__(self, planes: Tensor, reach: int, beyond: int) -> None:
        self._height, self._width = planes.shape[1:]
        self._reach = reach
        self._padded = F.pad(planes, (reach,) * 4, value=beyond)

    def __call__(self, down: int, right: int) -> Tensor:
        top, left = self._reach + down, self._reach + right
        return self._padded[:, top : top + self._height, left : left + self._width]
