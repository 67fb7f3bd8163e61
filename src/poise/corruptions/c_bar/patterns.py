"""Patterns laid over the image: a plane wave, concentric waves, plasma and Perlin noise.

plane wave   x + c sin(f . p + phase)
rings        x + c (((|p - centre| + a sin(n angle)) mod r) / r - 1/2)
plasma       (1 - c / 255) x + c plasma(p)         a chain of sines of sines, scaled (red, green, blue)
perlin       (1 - a) x + 255 a clip(1/2 + 1/2 sum_k |noise(2^k p)| / 2^k)

Axes: B images, H rows, W columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from poise.corruptions.c_bar.places import as_levels, places, shorter, wide
from poise.corruptions.draws import Random


@dataclass(frozen=True)
class SingleFrequencyGreyscale:
    """A grey plane wave of random direction, frequency and phase."""

    intensity: float

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor, Tensor]:
        """The frequencies along columns and rows [B, 2], and the phase [B]."""
        first, second, swap, phase = random.uniform(4).unbind(1)
        first = -math.pi + 2 * math.pi * first
        second = first.abs() * (2 * second - 1)
        pair = torch.stack([first, second], dim=1)
        return pair.where((swap < 0.5)[:, None], pair.flip(1)), 2 * math.pi * phase

    def apply(self, images: Tensor, frequency: Tensor, phase: Tensor) -> Tensor:
        rows, columns = places(images)
        across, down = (wide(part) for part in frequency.unbind(1))
        wave = (columns * across + rows * down + wide(phase)).sin()
        return as_levels(images + self.intensity * wave[:, None])


@dataclass(frozen=True)
class CocentricSineWaves:
    """Rings around a random centre, whose radius waves with the angle."""

    intensity: float

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor, ...]:
        """Row and column of the centre, waves around it, their amplitude and the width of a ring, each [B]."""
        height, width = images.shape[2:]
        row, column, count, amplitude, ring = random.uniform(5).unbind(1)
        tenth = shorter(images) / 10
        return row * height, column * width, count * 10, amplitude * tenth, ring * tenth

    def apply(
        self, images: Tensor, row: Tensor, column: Tensor, count: Tensor, amplitude: Tensor, ring: Tensor
    ) -> Tensor:
        rows, columns = places(images)
        down, across = rows - wide(row), columns - wide(column)
        angle = torch.atan2(across, down) * wide(count)
        distance = (across**2 + down**2).sqrt() + angle.sin() * wide(amplitude)
        rings = distance.remainder(wide(ring)) / wide(ring) - 0.5
        return as_levels(images + self.intensity * rings[:, None])


@dataclass(frozen=True)
class PlasmaNoise:
    """Coloured plasma: a place is moved by sines of itself several times, each time at a finer scale."""

    intensity: float

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor, ...]:
        """The time, the number of moves 4, 5 or 6, the sharpness, and the scale in pixels, each [B]."""
        time, sharpness, scale = random.uniform(3).unbind(1)
        moves = random.integers(4, 7)
        return 6 * math.pi * time, moves, 0.5 + 0.5 * sharpness, (0.075 + 0.125 * scale) * shorter(images)

    def apply(self, images: Tensor, time: Tensor, moves: Tensor, sharpness: Tensor, scale: Tensor) -> Tensor:
        rows, columns = places(images)
        time = wide(time)
        x, y = (part.expand(len(images), *images.shape[2:]) / wide(scale) for part in (columns, rows))
        frequency, speed, size = 1.0, 1.0, torch.ones_like(time)
        for move in range(6):
            across, down = (y * frequency + time / speed).cos() / size, (x * frequency + time / speed).sin() / size
            on = wide(move < moves)
            x, y = (x + (across - down * 0.3)).where(on, x), (y + (down + across * 0.3)).where(on, y)
            frequency, speed, size = frequency * 1.93, speed * 1.15, size * (2.25 - wide(sharpness))
        red, blue, green = (x - time).sin(), (y + time).sin(), ((x + y + time.sin()) * 0.5).sin()
        plasma = torch.stack([red, green, blue], dim=1)
        return as_levels((1 - self.intensity / 255) * images.double() + self.intensity * plasma)


_LATTICE = 256  # points, after which Perlin noise repeats
_FIRST = 16 * _LATTICE
_OCTAVES = 5


@dataclass(frozen=True)
class PerlinNoise:
    """Turbulence: the sum of five octaves of Perlin's noise, the first with 7 cells along the shorter side."""

    share: float

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor, Tensor]:
        """A permutation [B, 256] and gradients of length 1 [B, 256, 2], as in the original from steps of 1/256."""
        order = random.uniform(_LATTICE).argsort(dim=1, stable=True)
        steps = (random.integers(0, 2 * _LATTICE, _LATTICE, 2) - _LATTICE).double() / _LATTICE
        return order, steps / steps.norm(dim=2, keepdim=True).clamp(min=1 / _LATTICE)

    def apply(self, images: Tensor, order: Tensor, gradients: Tensor) -> Tensor:
        cell = 32 * shorter(images) / 224
        rows, columns = (part.flatten() * (1 / cell) for part in places(images))
        total = torch.zeros(len(images), *images.shape[2:], dtype=torch.float64, device=images.device)
        for octave in range(_OCTAVES):
            size = 2.0**octave
            total += _perlin(size * rows, size * columns, order, gradients).abs() / size
        noise = (0.5 * total + 0.5).clamp(0, 1)[:, None]
        faded = (1 - self.share) * images.float()  # float32, as in the original
        return as_levels(faded + 255 * self.share * noise)


def _perlin(rows: Tensor, columns: Tensor, order: Tensor, gradients: Tensor) -> Tensor:
    """Perlin's noise at rows [H] x columns [W]: smooth, 0 at whole numbers [B, H, W]."""
    down, across = ((part + _FIRST).remainder(1) for part in (rows, columns))
    row, column = ((part + _FIRST).long() for part in (rows, columns))
    curve_down, curve_across = ((part**2 * (3 - 2 * part)) for part in (down[:, None], across))

    def slope(lower: int, right: int) -> Tensor:
        """The gradient at a corner of the cell times the distance from it."""
        first = order[:, (row + lower) % _LATTICE]  # [B, H]
        second = (first[:, :, None] + (column + right) % _LATTICE) % _LATTICE
        corner = order.gather(1, second.flatten(1))
        along, aside = (gradients[:, :, k].gather(1, corner).view_as(second) for k in (0, 1))
        return (down[:, None] - lower) * along + (across - right) * aside

    left, right = (slope(0, k) + curve_down * (slope(1, k) - slope(0, k)) for k in (0, 1))
    return 1.5 * (left + curve_across * (right - left))
