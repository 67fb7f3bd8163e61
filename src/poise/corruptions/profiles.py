"""Profiles: every constant of the three generators, as published.

    cifar     make_cifar_c.py, 32 px
    tiny      make_tinyimagenet_c.py, 64 px
    imagenet  make_imagenet_c.py, 224 px

A corruption at a severity is a record of its constants with `draw` and `apply`. Severities are not always in order of
strength (elastic, saturate); the published data sets have this order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from torch import Tensor

from poise.corruptions.blur import DefocusBlur, GaussianBlur, GlassBlur, MotionBlur, ZoomBlur
from poise.corruptions.digital import Brightness, Elastic, LowContrast, Pixelate, Saturate
from poise.corruptions.draws import Random
from poise.corruptions.jpeg import Jpeg
from poise.corruptions.noise import AdditiveNoise, ImpulseNoise, ShotNoise, SpeckleNoise
from poise.corruptions.spatter import Spatter
from poise.corruptions.weather import Fog, Frost, Snow


class Setting(Protocol):
    """A corruption at one severity: maps bytes [B, 3, H, W] and its draws to bytes; only `draw` is random."""

    def draw(self, random: Random, images: Tensor, /) -> tuple[Tensor, ...]: ...

    @property
    def apply(self) -> Callable[..., Tensor]: ...


Settings = dict[str, tuple[Setting, ...]]


def _each(make: Callable[..., Setting], *constants: Sequence[float] | float) -> tuple[Setting, ...]:
    return tuple(make(*each) if isinstance(each, Sequence) else make(each) for each in constants)


def _zooms(*counts_and_steps: tuple[int, float]) -> tuple[Setting, ...]:
    """Factors 1, 1 + step, ..., with the count and the last bits of numpy's arange."""
    return tuple(ZoomBlur(tuple(1 + i * ((1 + step) - 1) for i in range(count))) for count, step in counts_and_steps)


def _elastic(side: int, *constants: tuple[float, float, float]) -> tuple[Setting, ...]:
    return tuple(Elastic(side * strength, side * sigma, side * jitter) for strength, sigma, jitter in constants)


CIFAR: Settings = {
    "gaussian_noise": _each(AdditiveNoise, 0.04, 0.06, 0.08, 0.09, 0.10),
    "shot_noise": _each(ShotNoise, 500, 250, 100, 75, 50),
    "impulse_noise": _each(ImpulseNoise, 0.01, 0.02, 0.03, 0.05, 0.07),
    "speckle_noise": _each(SpeckleNoise, 0.06, 0.1, 0.12, 0.16, 0.2),
    "gaussian_blur": _each(GaussianBlur, 0.4, 0.6, 0.7, 0.8, 1),
    "defocus_blur": _each(DefocusBlur, (0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    "glass_blur": _each(GlassBlur, (0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    "motion_blur": _each(MotionBlur, (6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    "zoom_blur": _zooms((7, 0.01), (12, 0.01), (16, 0.01), (21, 0.01), (26, 0.01)),
    "snow": _each(
        Snow,
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    "frost": _each(Frost, (1, 0.2, 0.2), (1, 0.3, 0.2), (0.9, 0.4, 0.2), (0.85, 0.4, 0.2), (0.75, 0.45, 0.2)),
    "fog": _each(Fog, (0.2, 3, 32), (0.5, 3, 32), (0.75, 2.5, 32), (1, 2, 32), (1.5, 1.75, 32)),
    "brightness": _each(Brightness, 0.05, 0.1, 0.15, 0.2, 0.3),
    "spatter": _each(
        Spatter,
        (0.62, 0.1, 0.7, 0.7, 0.5, False),
        (0.65, 0.1, 0.8, 0.7, 0.5, False),
        (0.65, 0.3, 1, 0.69, 0.5, False),
        (0.65, 0.1, 0.7, 0.69, 0.6, True),
        (0.65, 0.1, 0.5, 0.68, 0.6, True),
    ),
    "contrast": _each(LowContrast, 0.75, 0.5, 0.4, 0.3, 0.15),
    "elastic_transform": _elastic(
        32, (0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)
    ),
    "pixelate": _each(Pixelate, 0.95, 0.9, 0.85, 0.75, 0.65),
    "jpeg_compression": _each(Jpeg, 80, 65, 58, 50, 40),
    "saturate": _each(Saturate, (0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
}
TINY: Settings = {
    "gaussian_noise": _each(AdditiveNoise, 0.04, 0.08, 0.12, 0.15, 0.18),
    "shot_noise": _each(ShotNoise, 250, 100, 50, 30, 15),
    "impulse_noise": _each(ImpulseNoise, 0.01, 0.02, 0.05, 0.08, 0.14),
    "speckle_noise": _each(SpeckleNoise, 0.15, 0.2, 0.25, 0.3, 0.35),
    "gaussian_blur": _each(GaussianBlur, 0.5, 0.75, 1, 1.25, 1.5),
    "defocus_blur": _each(DefocusBlur, (0.5, 0.6), (1, 0.1), (1.5, 0.1), (2.5, 0.01), (3, 0.1)),
    "glass_blur": _each(GlassBlur, (0.1, 1, 1), (0.5, 1, 1), (0.6, 1, 2), (0.7, 2, 1), (0.9, 2, 2)),
    "motion_blur": _each(MotionBlur, (10, 1), (10, 1.5), (10, 2), (10, 2.5), (12, 3)),
    "zoom_blur": _zooms((7, 0.01), (12, 0.01), (16, 0.01), (21, 0.01), (26, 0.01)),
    "snow": _each(
        Snow,
        (0.1, 0.2, 1, 0.6, 8, 3, 0.8),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.8),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.7),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.65),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.6),
    ),
    "frost": _each(Frost, (1, 0.3, 0.3), (0.9, 0.4, 0.3), (0.8, 0.45, 0.3), (0.75, 0.5, 0.3), (0.7, 0.55, 0.3)),
    "fog": _each(Fog, (0.4, 3, 64), (0.7, 3, 64), (1, 2.5, 64), (1.5, 2, 64), (2, 1.75, 64)),
    "brightness": _each(Brightness, 0.1, 0.2, 0.3, 0.4, 0.5),
    "spatter": _each(
        Spatter,
        (0.62, 0.1, 0.7, 0.7, 0.6, False),
        (0.65, 0.1, 0.8, 0.7, 0.6, False),
        (0.65, 0.3, 1, 0.69, 0.6, False),
        (0.65, 0.1, 0.7, 0.68, 0.6, True),
        (0.65, 0.1, 0.5, 0.67, 0.6, True),
    ),
    "contrast": _each(LowContrast, 0.4, 0.3, 0.2, 0.1, 0.05),
    "elastic_transform": _elastic(
        64, (0, 0, 0.08), (0.05, 0.3, 0.06), (0.1, 0.08, 0.06), (0.1, 0.03, 0.03), (0.16, 0.03, 0.02)
    ),
    "pixelate": _each(Pixelate, 0.9, 0.8, 0.7, 0.6, 0.5),
    "jpeg_compression": _each(Jpeg, 65, 58, 50, 40, 25),
    "saturate": _each(Saturate, (0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (30, 0.2)),
}
IMAGENET: Settings = {
    "gaussian_noise": _each(AdditiveNoise, 0.08, 0.12, 0.18, 0.26, 0.38),
    "shot_noise": _each(ShotNoise, 60, 25, 12, 5, 3),
    "impulse_noise": _each(ImpulseNoise, 0.03, 0.06, 0.09, 0.17, 0.27),
    "speckle_noise": _each(SpeckleNoise, 0.15, 0.2, 0.35, 0.45, 0.6),
    "gaussian_blur": _each(GaussianBlur, 1, 2, 3, 4, 6),
    "defocus_blur": _each(DefocusBlur, (3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    "glass_blur": _each(GlassBlur, (0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    "motion_blur": _each(MotionBlur, (10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
    "zoom_blur": _zooms((12, 0.01), (16, 0.01), (11, 0.02), (13, 0.02), (11, 0.03)),
    "snow": _each(
        Snow,
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ),
    "frost": _each(Frost, (1, 0.4, 1), (0.8, 0.6, 1), (0.7, 0.7, 1), (0.65, 0.7, 1), (0.6, 0.75, 1)),
    "fog": _each(Fog, (1.5, 2, 256), (2, 2, 256), (2.5, 1.7, 256), (2.5, 1.5, 256), (3, 1.4, 256)),
    "brightness": _each(Brightness, 0.1, 0.2, 0.3, 0.4, 0.5),
    "spatter": _each(
        Spatter,
        (0.65, 0.3, 4, 0.69, 0.6, False),
        (0.65, 0.3, 3, 0.68, 0.6, False),
        (0.65, 0.3, 2, 0.68, 0.5, False),
        (0.65, 0.3, 1, 0.65, 1.5, True),
        (0.67, 0.4, 1, 0.65, 1.5, True),
    ),
    "contrast": _each(LowContrast, 0.4, 0.3, 0.2, 0.1, 0.05),
    # 244 is a typo for 224 in the reference; the published data set was made with it.
    "elastic_transform": _elastic(
        244, (2, 0.7, 0.1), (2, 0.08, 0.2), (0.05, 0.01, 0.02), (0.07, 0.01, 0.02), (0.12, 0.01, 0.02)
    ),
    "pixelate": _each(Pixelate, 0.6, 0.5, 0.4, 0.3, 0.25),
    "jpeg_compression": _each(Jpeg, 25, 18, 15, 10, 7),
    "saturate": _each(Saturate, (0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
}
PROFILES: dict[str, Settings] = {"cifar": CIFAR, "tiny": TINY, "imagenet": IMAGENET}
