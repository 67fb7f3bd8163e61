"""Shapes laid over the image: sparkles, a darkness with a hole, a rotated checkerboard and thin lines.

Axes: B images, C channels, H rows, W columns, K sparkles, L lines, R rays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from poise.corruptions.c_bar.places import as_levels, places, shorter, wide
from poise.corruptions.draws import Random

_MOST_RAYS = 199
_GREY = 128


@dataclass(frozen=True)
class Sparkles:
    """Five white stars; `radius` as a share of the side."""

    radius: float

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The centres [B, 5, 2], numbers of rays [B, 5], and a normal number for each ray [B, 5, 199]."""
        sides = torch.tensor(images.shape[2:], device=images.device)
        return random.uniform(5, 2) * sides, random.integers(50, 200, 5), random.normal(5, _MOST_RAYS)

    def apply(self, images: Tensor, centres: Tensor, rays: Tensor, jitter: Tensor) -> Tensor:
        radius = self.radius * shorter(images)
        lengths = (radius + 0.25 * radius * jitter).clamp(min=1)
        x = images.double()
        for centre, count, length in zip(centres.unbind(1), rays.unbind(1), lengths.unbind(1), strict=True):
            x = x.float().double()  # the original keeps float32 between stars
            x = x + _star(images, centre, count, length, 1.0)[:, None] * (255 - x)
        return as_levels(x)


@dataclass(frozen=True)
class InverseSparkles:
    """White everywhere but in one star around the middle; a larger `decay` makes the star smaller."""

    decay: float

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The centre [B, 2], the number of rays [B], and a normal number for each ray [B, 199]."""
        sides = torch.tensor(images.shape[2:], device=images.device)
        return (0.25 + 0.5 * random.uniform(2)) * sides, random.integers(50, 200), random.normal(_MOST_RAYS)

    def apply(self, images: Tensor, centre: Tensor, rays: Tensor, jitter: Tensor) -> Tensor:
        radius = 0.25 * shorter(images)
        star = _star(images, centre, rays, radius + 0.25 * radius * jitter, self.decay)
        return as_levels(255 + star[:, None] * (images.double() - 255))


def _star(images: Tensor, centre: Tensor, rays: Tensor, lengths: Tensor, decay: float) -> Tensor:
    """The opacity of a star, (length / distance)^(2 decay), darker between rays [B, H, W].

    centre [B, 2], rays [B], lengths [B, R] of which the first `rays` count; between rays they are interpolated.
    """
    rows, columns = places(images)
    down, across = rows - wide(centre[:, 0]), columns - wide(centre[:, 1])
    distance = (down**2 + across**2).sqrt()
    ray = (torch.atan2(across, down) + math.pi) / (2 * math.pi) * wide(rays)
    part, first = ray - ray.floor(), ray.long()
    here, beside = (lengths.gather(1, (first + k).remainder(wide(rays)).flatten(1)).view_as(distance) for k in (0, 1))
    length = here + part * (beside - here)
    bright = (length**2 / (distance**2 + 1e-4)) ** decay
    return ((1 - (part - 0.5) ** 2) * bright).clamp(0, 1)


@dataclass(frozen=True)
class CheckerboardCutout:
    """Grey squares: this fraction of the black squares of a rotated chess board."""

    fraction: float

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The angle [B], the side of a square in pixels [B], and a number for each square [B, n, n]."""
        angle, side = random.uniform(2).unbind(1)
        squares = 40 * max(images.shape[2:]) // shorter(images)
        return 2 * math.pi * angle, (0.1 + 0.15 * side) * shorter(images), random.uniform(squares, squares)

    def apply(self, images: Tensor, angle: Tensor, side: Tensor, numbers: Tensor) -> Tensor:
        rows, columns = places(images)
        cosine, sine, side = wide(angle.cos()), wide(angle.sin()), wide(side)
        down, across = (cosine * rows + sine * columns) / side, (-sine * rows + cosine * columns) / side
        black = down.remainder(2).long() == across.remainder(2).long()
        squares = wide(4 * max(images.shape[2:]) // side.flatten()).long()  # negative places count from the end
        place = down.long().remainder(squares) * numbers.shape[2] + across.long().remainder(squares)
        chosen = numbers.flatten(1).gather(1, place.flatten(1)).view_as(down) < self.fraction
        return images.masked_fill((black & chosen)[:, None], _GREY)


@dataclass(frozen=True)
class Lines:
    """Grey anti-aliased lines, twice as long as the image, about a common direction; `density` of them per pixel."""

    density: float

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor, Tensor]:
        """The middle of each line, rows and columns [B, L, 2], and its angle [B, L]."""
        count = int(self.density * shorter(images))
        angle, spread = random.uniform(2).unbind(1)
        numbers = random.uniform(count, 3)
        sides = torch.tensor(images.shape[2:], device=images.device)
        turn = 2 * math.pi * (0.1 + 0.9 * spread[:, None]) * (numbers[..., 2] - 0.5)
        return numbers[..., :2] * sides, 2 * math.pi * angle[:, None] + turn

    def apply(self, images: Tensor, middles: Tensor, angles: Tensor) -> Tensor:
        reach = torch.stack([angles.cos(), angles.sin()], dim=2) * shorter(images)
        cover = coverage((middles - reach).long(), (middles + reach).long(), images.shape[2], images.shape[3])
        result = images
        for line in cover.unbind(1):
            mixed = (1 - line[:, None]) * result + line[:, None] * _GREY
            result = mixed.to(torch.uint8)
        return result


def coverage(start: Tensor, end: Tensor, height: int, width: int) -> Tensor:
    """How much of each pixel an anti-aliased line covers, from `start` to `end` [B, L, 2] → [B, L, H, W].

    Bresenham's algorithm with the error as coverage (Zingl 2012), a pixel and its neighbours on both sides at a time;
    all lines of the batch walk together. The numbers are float32 as in scikit-image.
    """
    step = torch.where(end > start, 1, -1)
    rows, columns = (end - start).abs().unbind(-1)
    length = (rows * rows + columns * columns).double().sqrt().float()
    length = length.where(length > 0, 1)
    error, place, walking = (columns - rows).float(), start, torch.ones_like(rows, dtype=torch.bool)
    cover = torch.zeros(*rows.shape, height * width + 1, dtype=torch.float64, device=start.device)
    for _ in range(int((rows + columns).max()) + 1 if rows.numel() else 0):
        _mark(cover, place, (error - columns + rows).abs(), length, walking, (height, width))
        row, column = place.unbind(-1)
        across, down = 2 * error >= -columns, 2 * error <= rows
        walking = walking & ~(across & (column == end[..., 1]))
        beside = torch.stack([row + step[..., 0], column], dim=-1)
        _mark(cover, beside, (error + rows).abs(), length, walking & across & (error + rows < length), (height, width))
        walking = walking & ~(down & (row == end[..., 0]))
        beside = torch.stack([row, column + step[..., 1]], dim=-1)
        _mark(
            cover, beside, (columns - error).abs(), length, walking & down & (columns - error < length), (height, width)
        )
        place = place + step * torch.stack([down, across], dim=-1)
        error = error - rows * across + columns * down
        if not walking.any():
            break
    return cover[..., :-1].view(*rows.shape, height, width)


def _mark(cover: Tensor, place: Tensor, error: Tensor, length: Tensor, chosen: Tensor, size: tuple[int, int]) -> None:
    """Set the coverage at the places [B, L, 2] that are chosen and inside; the last entry takes the others."""
    row, column = place.unbind(-1)
    inside = chosen & (row >= 0) & (row < size[0]) & (column >= 0) & (column < size[1])
    index = (row * size[1] + column).where(inside, size[0] * size[1])
    cover.scatter_(2, index[..., None], (1 - error.double() / length.double())[..., None])
