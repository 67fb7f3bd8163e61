"""Pixels: conversion between bytes and numbers, and border handling.

The reference works on x = bytes / 255 and returns the bytes of 255 * clip(result), truncated and never rounded:
untouched pixels stay the same, and most corruptions darken by half a level.

Axes: B images, C channels, H rows, W columns, n one of the last two.
"""

from __future__ import annotations

import torch
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


def gather(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """images[b, :, rows[b, h, w], columns[b, h, w]]: one map per image [B, C, H, W]."""
    size, channels, _, width = images.shape
    place = (rows * width + columns).view(size, 1, -1).expand(-1, channels, -1)
    return images.flatten(2).gather(2, place).view(size, channels, *rows.shape[1:])
