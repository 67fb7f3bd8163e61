"""The five blurs: Gaussian, defocus, glass, zoom and motion.

Zoom blur enlarges the middle of an image to its full size, bilinear with aligned corners, as SciPy does. Motion blur
follows ImageMagick: half a Gaussian along a line, pixel by pixel, in 16 bits,

    out(y, x) = sum_i k_i in(y + ceil(i sin a - 1/2), x + ceil(i cos a - 1/2)),   k_i ~ exp(-i^2 / 2 sigma^2), i >= 0

Axes: B images, C channels, H rows, W columns, T taps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache, reduce
from operator import add

import torch
from torch import Tensor

from poise.corruptions.draws import Deterministic, Random
from poise.corruptions.pixels import as_bytes, correlate_mirrored, divided, reflect, replicate, smooth, unit

_SMALL = 64  # up to this size a matrix product is faster than two taps


@dataclass(frozen=True)
class ZoomBlur(Deterministic):
    """The mean of the image and its zooms by `factors`; 1 is one of the factors, so the image counts twice."""

    factors: tuple[float, ...]

    def apply(self, images: Tensor) -> Tensor:
        x = unit(images.permute(2, 0, 1, 3).contiguous(), torch.float32)
        exact, total = x.double(), torch.zeros_like(x)
        for factor in self.factors:
            total += x if factor == 1 else zoom(exact, factor).float()
        return as_bytes(divided(x + total, len(self.factors) + 1)).permute(1, 2, 0, 3).contiguous()


def zoom(x: Tensor, factor: float) -> Tensor:
    """Images [H, ..., W] enlarged by the factor around their middle, and cropped to H x W: columns first, then rows.

    With rows first and columns last, one matrix product processes an axis of a whole batch.
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
    """Crop the middle, enlarge it and crop the middle: for each position the left of two input pixels, and the right's
    weight.
    """
    part = math.ceil(size / factor)
    large = round(part * factor)
    place = torch.arange(size, dtype=torch.float64) + (large - size) // 2
    place = place * ((part - 1) / (large - 1))
    left = place.floor().clamp(max=part - 2)
    return (left.long() + (size - part) // 2).to(device), (place - left).to(device)


@lru_cache(256)
def _zoom_matrix(size: int, factor: float, device: torch.device) -> Tensor:
    """The same map as a matrix [n, n]."""
    left, weight = _zoom_taps(size, factor, device)
    row = torch.arange(size, device=device)
    matrix = torch.zeros(size, size, dtype=torch.float64, device=device)
    matrix[row, left] = 1 - weight
    matrix[row, left + 1] = weight
    return matrix


@dataclass(frozen=True)
class MotionBlur:
    """The camera moves at an angle within 45 degrees of the horizontal."""

    radius: float
    sigma: float
    rounding: str = "nearest"

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor]:
        return (random.uniform(),)

    def apply(self, images: Tensor, turn: Tensor) -> Tensor:
        return streak(images, -45 + 90 * turn, self.radius, self.sigma, self.rounding)


def streak(images: Tensor, degrees: Tensor, radius: float, sigma: float, rounding: str) -> Tensor:
    """Bytes [B, C, H, W] blurred along a line at degrees[b].

    rounding  from 16 to 8 bits: "nearest" as in ImageMagick when the sets were made, "truncate" as since 6.9.10-69.
    """
    size, channels, height, width = images.shape
    weights = _half_gaussian(2 * math.ceil(radius) + 1, sigma)
    taps = torch.arange(len(weights), device=images.device)
    angle = (degrees * (math.pi / 180))[:, None]
    rows = _line(taps * angle.sin(), height) * width  # [B, T, H]
    columns = _line(taps * angle.cos(), width)  # [B, T, W]
    first = torch.arange(size, device=images.device)[:, None, None] * (height * width)
    # Keep channels contiguous: for a single image, reshape would return a view of planes, ten times as slow to read.
    pixels = images.permute(0, 2, 3, 1).contiguous().view(-1, channels).double().mul_(257)
    total = torch.zeros_like(pixels)
    for tap, weight in enumerate(weights):
        place = first + rows[:, tap, :, None] + columns[:, tap, None]
        total += pixels.index_select(0, place.flatten()).mul_(weight)
    wide = total.add_(0.5).floor_().clamp_(max=65535).int()
    return _to_8_bits(wide, rounding).view(size, height, width, channels).permute(0, 3, 1, 2)


def _half_gaussian(width: int, sigma: float) -> list[float]:
    taps = [math.exp(-(i * i) / (2 * sigma * sigma)) / (math.sqrt(2 * math.pi) * sigma) for i in range(width)]
    total = reduce(add, taps)
    return [tap / total for tap in taps]


def _line(distance: Tensor, size: int) -> Tensor:
    """The positions that a tap at this distance reads, for all positions of an axis [B, T, size]."""
    offset = (distance - 0.5).ceil().long()
    return replicate(torch.arange(size, device=distance.device) + offset[..., None], size)


def _to_8_bits(wide: Tensor, rounding: str) -> Tensor:
    if rounding == "truncate":
        return (wide // 257).to(torch.uint8)
    wide = wide + 128
    return ((wide - (wide >> 8)) >> 8).to(torch.uint8)


@dataclass(frozen=True)
class GaussianBlur(Deterministic):
    """Each channel smoothed by a Gaussian."""

    sigma: float

    def apply(self, images: Tensor) -> Tensor:
        return as_bytes(smooth(unit(images), self.sigma))


@dataclass(frozen=True)
class DefocusBlur(Deterministic):
    """Each channel correlated with a disk whose edge is softened by a Gaussian of width `alias`."""

    radius: float
    alias: float

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
    """The kernel from its middle down and to the right."""
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
    """Smooth, copy pixels from nearby positions repeatedly, and smooth again.

    The reference intends to swap pixels but copies them, through an aliased view: from the last pixel to the first,
    each position takes the current value of its neighbour. An offset lies in [-reach, reach).
    """

    sigma: float
    reach: int
    iterations: int

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor]:
        """Offsets (dx, dy) from the last position to the first [B, iterations, h, w, 2]; one number gives both."""
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
        """All copies at once: follow every chain of copies to the original pixel at its end."""
        size, channels, height, width = images.shape
        pixels = height * width
        pointer = self._pointers(offsets, height, width)
        copies = pointer[:, :pixels]
        while int(copies.min()) < pixels:
            copies.copy_(pointer.gather(1, copies))
        place = (copies - pixels)[:, None].expand(-1, channels, -1)
        return images.flatten(2).gather(2, place).view(size, channels, height, width)

    def _pointers(self, offsets: Tensor, height: int, width: int) -> Tensor:
        """The position that each position copies: copies first, then the original pixels, which point at themselves [B,
        2 * H * W].
        """
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
