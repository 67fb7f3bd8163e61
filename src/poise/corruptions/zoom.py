"""Zoom: the middle of an image enlarged to its size, bilinear with aligned corners, as SciPy does."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from poise.corruptions.draws import Random
from poise.corruptions.pixels import as_bytes, divided, unit


@dataclass(frozen=True)
class ZoomBlur:
    """The mean of the image and its zooms by `factors`; 1 is one of them, so the image counts twice."""

    factors: tuple[float, ...]

    def draw(self, random: Random, images: Tensor) -> tuple[()]:
        return ()

    def apply(self, images: Tensor) -> Tensor:
        x = unit(images, torch.float32)
        exact, total = x.double(), torch.zeros_like(x)
        for factor in self.factors:
            total += x if factor == 1 else zoom(exact, factor).float()
        return as_bytes(divided(x + total, len(self.factors) + 1))


def zoom(x: Tensor, factor: float) -> Tensor:
    """Every [H, W] of x enlarged by the factor around its middle, and cut to H x W."""
    rows, columns = (_zoom_matrix(size, factor).to(x.device) for size in x.shape[-2:])
    return torch.matmul(rows, torch.matmul(x, columns.T))


def _zoom_matrix(size: int, factor: float) -> Tensor:
    """Cut the middle, enlarge it, cut the middle: one axis as a matrix with two numbers in a row [n, n]."""
    part = math.ceil(size / factor)
    large = round(part * factor)
    place = torch.arange(size, dtype=torch.float64) + (large - size) // 2
    place = place * ((part - 1) / (large - 1))
    left = place.floor().clamp(max=part - 2)
    weight = place - left
    row, column = torch.arange(size), left.long() + (size - part) // 2
    matrix = torch.zeros(size, size, dtype=torch.float64)
    matrix[row, column] = 1 - weight
    matrix[row, column + 1] = weight
    return matrix
