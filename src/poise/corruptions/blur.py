"""Gaussian, defocus and glass blur."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from poise.corruptions.draws import Random
from poise.corruptions.filters import correlate_mirrored, smooth
from poise.corruptions.pixels import as_bytes, reflect, unit


@dataclass(frozen=True)
class GaussianBlur:
    """Each channel smoothed by a Gaussian."""

    sigma: float

    def draw(self, random: Random, images: Tensor) -> tuple[()]:
        return ()

    def apply(self, images: Tensor) -> Tensor:
        return as_bytes(smooth(unit(images), self.sigma))


@dataclass(frozen=True)
class DefocusBlur:
    """Each channel correlated with a disk whose edge is softened by a Gaussian of width `alias`."""

    radius: float
    alias: float

    def draw(self, random: Random, images: Tensor) -> tuple[()]:
        return ()

    def apply(self, images: Tensor) -> Tensor:
        return as_bytes(correlate_mirrored(unit(images), _quarter(self)))

    def kernel(self) -> Tensor:
        """The softened disk, cut to its support [k, k].

        Softening reflects at the border of the kernel's own array, as in the reference: where the disk touches it the
        kernel sums to more than 1, and the image brightens by a percent.
        """
        reach = 8 if self.radius <= 8 else math.ceil(self.radius)
        side = torch.arange(-reach, reach + 1, dtype=torch.float64)
        disk = (side[:, None] ** 2 + side**2 <= self.radius**2).float()
        soft = torch.arange(2 if self.radius <= 8 else 3, dtype=torch.float64)
        taps = torch.exp(-(soft**2) / (2 * self.alias**2))
        taps = (taps / (2 * taps.sum() - taps[0])).float()
        disk = _soften(disk / disk.sum(), taps, 1, first=1)
        disk = _soften(disk, taps, 0, first=0)
        edge = int((disk != 0).any(0).nonzero().min())
        return disk[edge : len(disk) - edge, edge : len(disk) - edge]


@cache
def _quarter(setting: DefocusBlur) -> list[list[float]]:
    """Its kernel from the middle down and to the right."""
    kernel = setting.kernel()
    middle = len(kernel) // 2
    quarter: list[list[float]] = kernel[middle:, middle:].double().tolist()
    return quarter


def _soften(disk: Tensor, taps: Tensor, axis: int, first: int) -> Tensor:
    """Smooth an axis in float32 as OpenCV does: pairs of taps, fused products, the one at distance `first` first."""
    size, reach = disk.shape[axis], len(taps) - 1
    padded = disk.index_select(axis, reflect(torch.arange(-reach, size + reach), size))
    result = torch.zeros_like(disk)
    for distance in sorted(range(len(taps)), key=lambda k: (k != first, k)):
        pair = padded.narrow(axis, reach - distance, size)
        if distance:
            pair = pair + padded.narrow(axis, reach + distance, size)
        result = (pair.double() * taps[distance].double() + result.double()).float()
    return result


@dataclass(frozen=True)
class GlassBlur:
    """Smoothed, pixels copied from near places again and again, smoothed.

    The reference means to swap pixels and, through an aliased view, copies: from the last pixel to the first, each
    place takes what its neighbour holds at that moment. An offset lies in [-reach, reach).
    """

    sigma: float
    reach: int
    iterations: int

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor]:
        """Offsets (dx, dy) from the last place to the first [B, iterations, h, w, 2]; one number gives both."""
        height, width = (size - 2 * self.reach for size in images.shape[2:])
        across = random.uniform(self.iterations, height, width).mul_(2 * self.reach)
        down = across.frac().mul_(2 * self.reach)
        return (torch.stack([across.long(), down.long()], dim=-1).sub_(self.reach),)

    def apply(self, images: Tensor, offsets: Tensor) -> Tensor:
        images = as_bytes(smooth(unit(images), self.sigma))
        for iteration in range(self.iterations):
            images = self._copy(images, offsets[:, iteration])
        return as_bytes(smooth(unit(images), self.sigma))

    def _copy(self, images: Tensor, offsets: Tensor) -> Tensor:
        """All copies at once: follow every chain of copies to the old pixel where it ends."""
        size, channels, height, width = images.shape
        pixels = height * width
        pointer = self._pointers(offsets, height, width)
        copies = pointer[:, :pixels]
        while int(copies.min()) < pixels:
            copies.copy_(pointer.gather(1, copies))
        place = (copies - pixels)[:, None].expand(-1, channels, -1)
        return images.flatten(2).gather(2, place).view(size, channels, height, width)

    def _pointers(self, offsets: Tensor, height: int, width: int) -> Tensor:
        """Where each place looks: copies come first, then the old pixels, which look at themselves [B, 2 * H * W]."""
        rows = torch.arange(height - self.reach, self.reach, -1, device=offsets.device)[:, None]
        columns = torch.arange(width - self.reach, self.reach, -1, device=offsets.device)
        place = rows * width + columns
        source_row, source_column = rows + offsets[..., 1], columns + offsets[..., 0]
        source = source_row * width + source_column
        inside = (source_row > self.reach) & (source_row <= height - self.reach)
        inside &= (source_column > self.reach) & (source_column <= width - self.reach)
        copied = inside & (source > place)
        pixels = height * width
        pointer = torch.arange(pixels, 2 * pixels, device=offsets.device).repeat(len(offsets), 2)
        pointer[:, place.flatten()] = torch.where(copied, source, source + pixels).flatten(1)
        return pointer
