"""Noise with a given spectrum and random phases: brownish noise, added, and blue noise, which blackens pixels.

    noise = Re IFFT(power(frequency) exp(i phase)),   scaled to a standard deviation of 1
    brownish: power = 1 / (1 + |frequency|^2)         blue: power = |frequency|

Axes: B images, C channels, H rows, W columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from poise.corruptions.c_bar.places import as_levels, places
from poise.corruptions.draws import Random


@dataclass(frozen=True)
class BrownishNoise:
    """Smooth coloured clouds."""

    intensity: float

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor]:
        return (_phases(random, images, 3),)

    def apply(self, images: Tensor, phases: Tensor) -> Tensor:
        power = 1 / (_frequency(images) ** 2 + 1)
        return as_levels(images + self.intensity * _noise(phases, power))


@dataclass(frozen=True)
class BlueNoiseSample:
    """Black wherever blue noise is at most a threshold: even grains of few pixels."""

    threshold: float

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor]:
        return (_phases(random, images, 1),)

    def apply(self, images: Tensor, phases: Tensor) -> Tensor:
        return images * (_noise(phases, _frequency(images)) > self.threshold)


def _phases(random: Random, images: Tensor, channels: int) -> Tensor:
    """The left half of the columns, with the middle one [B, C, H, ceil(W / 2)]."""
    height, width = images.shape[2:]
    return 2 * math.pi * random.uniform(channels, height, (width + 1) // 2)


def _frequency(images: Tensor) -> Tensor:
    """The distance from the middle [H, W]."""
    (height, width), (rows, columns) = images.shape[2:], places(images)
    return ((columns - width / 2) ** 2 + (rows - height / 2) ** 2).sqrt()


def _noise(phases: Tensor, power: Tensor) -> Tensor:
    """[B, C, H, W]"""
    height, width = power.shape
    phases = _mirrored(phases, width)
    spectrum = torch.complex(power * phases.cos(), power * phases.sin())
    noise: Tensor = torch.fft.ifft2(spectrum.roll((height // 2, width // 2), (2, 3))).real
    return noise / noise.std((2, 3), correction=0, keepdim=True)


def _mirrored(phases: Tensor, width: int) -> Tensor:
    """The phases of all columns, symmetric about the middle; of a middle column the upper half decides, around 0."""
    left = phases[..., : width // 2]
    if width % 2 == 0:
        return torch.cat([left, left.flip(2, 3)], dim=3)
    height = phases.shape[2]
    upper = phases[..., : height // 2, width // 2 :]
    centre = torch.zeros_like(phases[..., : height % 2, width // 2 :])
    return torch.cat([left, torch.cat([upper, centre, upper.flip(2)], dim=2), left.flip(2, 3)], dim=3)
