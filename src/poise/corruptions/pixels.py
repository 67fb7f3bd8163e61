"""Pixels: conversion between bytes and numbers, borders, and filters that equal SciPy's and OpenCV's.

The reference works on x = bytes / 255 and returns the bytes of 255 * clip(result), truncated and never rounded:
untouched pixels stay the same, and most corruptions darken by half a level.

A Gaussian has the taps exp(-t^2 / 2 sigma^2), |t| <= int(truncate * sigma + 0.5); it smooths rows, then columns.

Axes: B images, C channels, H rows, W columns, n one of the last two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from operator import add

import torch
import torch.nn.functional as F
from torch import Tensor


def unit(images: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    """Bytes as numbers in [0, 1]."""
    return divided(images.to(dtype), 255)


def divided(x: Tensor, by: float) -> Tensor:
    """x / by, rounded once: for a Python number a GPU would multiply by the reciprocal."""
    return x / torch.full((), by, dtype=x.dtype, device=x.device)


def as_bytes(x: Tensor) -> Tensor:
    """Numbers in [0, 1] as bytes: clipped, then truncated."""
    return x.clamp(0, 1).mul_(255).to(torch.uint8)


def replicate(index: Tensor, size: int) -> Tensor:
    """a a a | a b c d | d d d"""
    return index.clamp(0, size - 1)


def symmetric(index: Tensor, size: int) -> Tensor:
    """c b a | a b c d | d c b, repeated."""
    index = index.remainder(2 * size)
    return torch.minimum(index, 2 * size - 1 - index)


def reflect(index: Tensor, size: int) -> Tensor:
    """d c b | a b c d | c b a, repeated (OpenCV's reflect-101)."""
    period = max(2 * size - 2, 1)
    index = index.remainder(period)
    return torch.minimum(index, period - index)


def gather_pixels(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """images[b, :, rows[b, h, w], columns[b, h, w]]: one map per image [B, C, H, W]."""
    size, channels, _, width = images.shape
    place = (rows * width + columns).view(size, 1, -1).expand(-1, channels, -1)
    return images.flatten(2).gather(2, place).view(size, channels, *rows.shape[1:])


Border = Callable[[Tensor, int], Tensor]
_IN_CACHE = 1 << 17  # numbers: a CPU adds planes of a megabyte several times faster than a whole batch


def gaussian_taps(sigma: float, truncate: float = 4.0) -> list[float]:
    """The taps of one side, from the centre outwards; they sum to 1 over both sides."""
    radius = int(truncate * sigma + 0.5)
    taps = [math.exp(-0.5 / (sigma * sigma) * t * t) for t in range(radius + 1)]
    total = _pairwise_sum(taps[:0:-1] + taps)
    return [tap / total for tap in taps]


def _pairwise_sum(numbers: list[float]) -> float:
    """The sum in numpy's order, identical to the last bit: eight lanes and then the rest, halved beyond 128 numbers."""
    count = len(numbers)
    if count > 128:
        half = count // 2 - count // 2 % 8
        return _pairwise_sum(numbers[:half]) + _pairwise_sum(numbers[half:])
    whole = count - count % 8
    lanes = [reduce(add, numbers[lane:whole:8]) for lane in range(8)] if whole else [0.0]
    while len(lanes) > 1:
        lanes = [left + right for left, right in zip(lanes[::2], lanes[1::2], strict=True)]
    return reduce(add, numbers[whole:], lanes[0])  # not sum, which uses compensated summation since Python 3.12


def smooth(x: Tensor, sigma: float) -> Tensor:
    """Smooth the last two axes with replicated borders.

    The sums run in SciPy's order, outer pairs first, so that flat regions round to the same integers.
    """
    taps = gaussian_taps(sigma)
    return x if len(taps) == 1 else _smooth_axis(_smooth_axis(x, taps, -2), taps, -1)


@lru_cache(64)
def smoothing_matrix(
    size: int, sigma: float, truncate: float = 4.0, border: Border = replicate, device: torch.device | None = None
) -> Tensor:
    """Smoothing of one axis of this size, as a matrix [n, n]: supports any radius, but adds in another order.

    The matrix is cached; do not modify it.
    """
    taps = gaussian_taps(sigma, truncate) if sigma > 0 else [1.0]
    place = torch.arange(size)
    matrix = torch.zeros(size, size, dtype=torch.float64)
    for offset in range(1 - len(taps), len(taps)):
        matrix[place, border(place + offset, size)] += taps[abs(offset)]
    return matrix.to(device)


def correlate(x: Tensor, kernel: Sequence[Sequence[float]]) -> Tensor:
    """Every channel correlated with a square kernel, reflected at the borders without the edge [B, C, H, W]."""
    height, width = x.shape[2:]
    padded = _reflected(_reflected(x, len(kernel) // 2, -2), len(kernel) // 2, -1)
    result = torch.zeros_like(x)
    for down, row in enumerate(kernel):
        for right, weight in enumerate(row):
            if weight:
                result.add_(padded[:, :, down : down + height, right : right + width], alpha=weight)
    return result


def correlate_mirrored(x: Tensor, quarter: Sequence[Sequence[float]]) -> Tensor:
    """Like `correlate`, with a kernel that is symmetric in both axes, given from its middle outwards."""
    planes = x.reshape(-1, 1, *x.shape[2:])
    at_once = max(1, len(planes) if x.is_cuda else _IN_CACHE // (x.shape[2] * x.shape[3]))
    result = torch.empty_like(planes)
    for start in range(0, len(planes), at_once):
        part = slice(start, start + at_once)
        _add_mirrored(planes[part], quarter, result[part])
    return result.view_as(x)


def _add_mirrored(x: Tensor, quarter: Sequence[Sequence[float]], result: Tensor) -> None:
    """Add two columns that share their weights first, then a whole row of the kernel, then two such rows."""
    height, width = x.shape[2:]
    reach = len(quarter) - 1
    padded = _reflected(x, reach, -1)
    pairs = [x] + [
        padded[..., reach - k : reach - k + width] + padded[..., reach + k : reach + k + width]
        for k in range(1, reach + 1)
    ]
    for down, weights in enumerate(quarter):
        row = pairs[0] * weights[0]
        for pair, weight in zip(pairs[1:], weights[1:], strict=True):
            if weight:
                row.add_(pair, alpha=weight)
        if down == 0:
            result.copy_(row)
        else:
            both = _reflected(row, down, -2)
            result.add_(both[:, :, :height]).add_(both[:, :, 2 * down :])


def _reflected(x: Tensor, reach: int, axis: int) -> Tensor:
    size = x.shape[axis]
    return x.index_select(axis, reflect(torch.arange(-reach, size + reach, device=x.device), size))


def _smooth_axis(x: Tensor, taps: list[float], axis: int) -> Tensor:
    radius, size = len(taps) - 1, x.shape[axis]
    sides = (radius, radius, 0, 0) if axis == -1 else (0, 0, radius, radius)
    padded = F.pad(x, sides, mode="replicate")
    result, pair = x * taps[0], torch.empty_like(x)
    for offset in range(radius, 0, -1):
        torch.add(padded.narrow(axis, radius - offset, size), padded.narrow(axis, radius + offset, size), out=pair)
        result += pair.mul_(taps[offset])
    return result
