"""Filters: Gaussian smoothing as in SciPy, and correlation with any square kernel as in OpenCV.

A Gaussian has the taps exp(-t^2 / 2 sigma^2), |t| <= int(truncate * sigma + 0.5); it smooths rows, then columns.

Axes: B images, C channels, H rows, W columns, n one of the last two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from operator import add

import torch
import torch.nn.functional as F
from torch import Tensor

from poise.corruptions.pixels import reflect, replicate

Border = Callable[[Tensor, int], Tensor]


def gaussian_taps(sigma: float, truncate: float = 4.0) -> list[float]:
    """The taps of one side, from the centre outwards; they sum to 1 over both sides."""
    radius = int(truncate * sigma + 0.5)
    taps = [math.exp(-0.5 / (sigma * sigma) * t * t) for t in range(radius + 1)]
    total = _pairwise_sum(taps[:0:-1] + taps)
    return [tap / total for tap in taps]


def _pairwise_sum(numbers: list[float]) -> float:
    """Added in numpy's order, last bit included: eight lanes and then the rest, by halves beyond 128 numbers."""
    count = len(numbers)
    if count > 128:
        half = count // 2 - count // 2 % 8
        return _pairwise_sum(numbers[:half]) + _pairwise_sum(numbers[half:])
    whole = count - count % 8
    lanes = [reduce(add, numbers[lane:whole:8]) for lane in range(8)] if whole else [0.0]
    while len(lanes) > 1:
        lanes = [left + right for left, right in zip(lanes[::2], lanes[1::2], strict=True)]
    return reduce(add, numbers[whole:], lanes[0])  # not sum, which compensates since Python 3.12


def smooth(x: Tensor, sigma: float) -> Tensor:
    """Smooth the last two axes with replicated borders.

    The sums run in SciPy's order, outer pairs first: flat regions then land on the same side of an integer as there.
    """
    taps = gaussian_taps(sigma)
    return x if len(taps) == 1 else _smooth_axis(_smooth_axis(x, taps, -2), taps, -1)


def smoothing_matrix(
    size: int, sigma: float, truncate: float = 4.0, border: Border = replicate, device: torch.device | None = None
) -> Tensor:
    """Smoothing one axis of this size, as a matrix: any radius, at the price of another order of sums [n, n]."""
    taps = gaussian_taps(sigma, truncate) if sigma > 0 else [1.0]
    place = torch.arange(size)
    matrix = torch.zeros(size, size, dtype=torch.float64)
    for offset in range(1 - len(taps), len(taps)):
        matrix[place, border(place + offset, size)] += taps[abs(offset)]
    return matrix.to(device)


def correlate(x: Tensor, kernel: Tensor) -> Tensor:
    """Every channel correlated with one kernel [k, k], reflected at the borders without the edge [B, C, H, W].

    A row of the kernel is a banded matrix: k products of matrices are faster than a float64 convolution anywhere.
    """
    height, width = x.shape[2:]
    reach = kernel.shape[0] // 2
    across = torch.arange(-reach, reach + 1, device=x.device)
    columns = reflect(torch.arange(width, device=x.device)[:, None] + across, width)
    result = torch.zeros_like(x).view(-1, width)
    for offset, weights in zip(range(-reach, reach + 1), kernel, strict=True):
        band = torch.zeros(width, width, dtype=x.dtype, device=x.device)
        band.scatter_add_(1, columns, weights.expand(width, -1).contiguous())
        rows = reflect(torch.arange(height, device=x.device) + offset, height)
        result.addmm_(x.index_select(2, rows).view(-1, width), band.T)
    return result.view_as(x)


def _smooth_axis(x: Tensor, taps: list[float], axis: int) -> Tensor:
    radius, size = len(taps) - 1, x.shape[axis]
    sides = (radius, radius, 0, 0) if axis == -1 else (0, 0, radius, radius)
    padded = F.pad(x, sides, mode="replicate")
    result, pair = x * taps[0], torch.empty_like(x)
    for offset in range(radius, 0, -1):
        torch.add(padded.narrow(axis, radius - offset, size), padded.narrow(axis, radius + offset, size), out=pair)
        result += pair.mul_(taps[offset])
    return result
