"""Warps: pinch and twirl, ripples, and the refraction by moving water. Every pixel is read from another place.

pinch    centre + sin(pi d / 2)^-a R(angle (1 - d)^2) (p - centre)     in a disk, d the distance over its radius
ripple   p + a sin(2 pi p / wavelength + phase)                        rows and columns apart
caustic  p + lens (cos o - sin o n_z / h) n_xy                         n the normal of the water, h = |n_xy|, Snell's o

Axes: B images, C channels, H rows, W columns, N disks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from poise.corruptions.c_bar.places import as_levels, interpolate, places, shorter, wide
from poise.corruptions.draws import Random
from poise.corruptions.pixels import divided, smoothing_matrix, symmetric


@dataclass(frozen=True)
class PinchAndTwirl:
    """Three by three disks side by side, each pinched and twirled by the angle or its negative."""

    angle: float
    amount: float

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor]:
        """The direction of each twirl, 1 or -1 [B, disks across, disks down]."""
        cell = shorter(images) // 3
        height, width = images.shape[2:]
        return (torch.where(random.uniform(width // cell, height // cell) < 0.5, 1, -1),)

    def apply(self, images: Tensor, directions: Tensor) -> Tensor:
        cell = shorter(images) // 3
        rows, columns = places(images)
        row, column = (rows // cell).long(), (columns // cell).long()
        covered = (row < directions.shape[2]) & (column < directions.shape[1])
        angle = directions.double()[
            :, column.clamp(max=directions.shape[1] - 1), row.clamp(max=directions.shape[2] - 1)
        ]
        middle, centre = (part // cell * cell + cell / 2 for part in (rows, columns))
        down, across = rows - middle, columns - centre
        distance = (down**2 + across**2).sqrt()
        moved = covered & (distance <= cell / 2) & (distance.round(decimals=3) != 0)
        share = (distance / (cell / 2)).where(moved, 1)
        stretch = (math.pi * 0.5 * share).sin() ** -self.amount
        turn = angle * self.angle * (1 - share) ** 2
        cosine, sine = turn.cos(), turn.sin()
        down, across = down * stretch, across * stretch
        rows = (middle + (down * cosine - across * sine)).where(moved, rows)
        columns = (centre + (down * sine + across * cosine)).where(moved, columns)
        return as_levels(interpolate(images.float(), rows, columns))


@dataclass(frozen=True)
class Ripple:
    """Rows and columns are moved by two sines; `amplitude` as a share of the side."""

    amplitude: float

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor, Tensor]:
        """Wavelengths and phases along rows and columns [B, 2]."""
        wavelengths, phases = random.uniform(2, 2).unbind(1)
        return (0.1 + 0.2 * wavelengths) * shorter(images), 2 * math.pi * phases

    def apply(self, images: Tensor, wavelengths: Tensor, phases: Tensor) -> Tensor:
        amplitude, shape = self.amplitude * shorter(images), (len(images), *images.shape[2:])
        moved = []
        for part, wavelength, phase in zip(places(images), wavelengths.unbind(1), phases.unbind(1), strict=True):
            wave = (2 * math.pi * part / wide(wavelength) + wide(phase)).sin()
            moved.append((part + amplitude * wave).expand(shape))
        return as_levels(interpolate(images.double(), *moved))


_INDEX = 4.0  # of refraction
_BEND = 0.005


@dataclass(frozen=True)
class CausticRefraction:
    """Seen through moving water, which refracts and lightens or darkens; `lens` as a share of the side."""

    lens: float
    light: float

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor, Tensor]:
        """The time and the size of the pattern in pixels, each [B]."""
        time, size = random.uniform(2).unbind(1)
        return 0.5 + 1.5 * time, (0.75 + 0.5 * size) * shorter(images)

    def apply(self, images: Tensor, time: Tensor, size: Tensor) -> Tensor:
        water = self._water(images, time, size)
        down, across = _slope(water, 2), _slope(water, 3)
        normal = (down**2 + across**2 + 1).sqrt()
        steep = 1 / normal
        level = steep >= 1 - 1e-3
        incoming = steep.clamp(max=1).arccos()
        outgoing = (incoming.sin() / _INDEX).arcsin()
        flat = ((down / normal) ** 2 + (across / normal) ** 2).sqrt()
        turned = outgoing.cos() - outgoing.sin() * steep / flat.where(~level, 1)
        lens = self.lens * shorter(images)
        rows, columns = places(images)
        shift = [(part / normal * turned * lens).round(decimals=3).where(~level, 0)[:, 0] for part in (down, across)]
        taken = interpolate(divided(images.float(), 255), rows + shift[0], columns + shift[1])
        lit = taken + (-across * self.light).float() + (down * self.light).float()
        return (lit.clamp(0, 1).double() * 255).to(torch.uint8)

    def _water(self, images: Tensor, time: Tensor, size: Tensor) -> Tensor:
        """The caustic pattern, smoothed by a Gaussian of 1 pixel [B, 1, H, W]."""
        height, width = images.shape[2:]
        down, across = ((part / wide(size)).remainder(1) * 6.28318530718 - 250 for part in places(images))
        x, y, total = down, across, torch.ones_like(down)
        for step in range(5):
            now = wide(time) * (1 - 3.5 / (step + 1))
            x, y = down + ((now - x).cos() + (now + y).sin()), across + ((now - y).sin() + (now + x).cos())
            bent = (down / ((x + now).sin() / _BEND)) ** 2 + (across / ((y + now).cos() / _BEND)) ** 2
            total = total + 1 / bent.sqrt()
        bright = ((1.17 - (total / 5) ** 1.4).abs() ** 8).clamp(0, 1)
        rows, columns = (smoothing_matrix(n, 1.0, 4.0, symmetric, images.device) for n in (height, width))
        return torch.matmul(torch.matmul(rows, bright), columns.T)[:, None]


def _slope(x: Tensor, axis: int) -> Tensor:
    """The next pixel minus the one before, with 0 outside."""
    size = x.shape[axis]
    padded = torch.cat([torch.zeros_like(x.narrow(axis, 0, 1)), x, torch.zeros_like(x.narrow(axis, 0, 1))], dim=axis)
    return padded.narrow(axis, 2, size) - padded.narrow(axis, 0, size)
