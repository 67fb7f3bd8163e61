"""Benchmarks: the corrupted versions of clean images that a classifier is tested on, made while it is tested.

    cifar10-c, cifar100-c           the 19 common corruptions, with the constants for 32 px
    tiny-imagenet-c                 for 64 px, saved as JPEG of quality 85, as the published set was
    imagenet-c                      for 224 px, saved the same way
    cifar10-c-bar, cifar100-c-bar   the ten corruptions of C-bar for 32 px
    imagenet-c-bar                  its ten for 224 px
    pixel-noise                     UN and NUN of the paper (section 4.2): 5, 10, 15, 20 and 30 % of the pixels

A new benchmark is one entry of BENCHMARKS. At other sizes than the published one, lengths in pixels do not grow with
the image, so that a number cannot be compared with a published one; `Benchmark.made` says so.

Axes: B images, H rows, W columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from poise.checks import require_known
from poise.corruptions.corrupt import corrupt
from poise.corruptions.protocols import C_BAR, CORRUPTIONS, GROUPS, REFERENCE_ERRORS, SEVERITIES, STANDARD
from poise.data.pixel_noise import PixelNoise

CLEAN = "clean"


@dataclass(frozen=True, order=True)
class TestSet:
    """One test set of a benchmark: a corruption at a severity; the clean images have severity 0."""

    corruption: str = CLEAN
    severity: int = 0

    __test__ = False  # not a test of pytest

    @property
    def name(self) -> str:
        """`fog-3`, or `clean`."""
        return f"{self.corruption}-{self.severity}" if self.severity else self.corruption

    def __str__(self) -> str:
        return f"{self.corruption.replace('_', ' ')} {self.severity}" if self.severity else self.corruption


class Maker(Protocol):
    """Corrupts bytes [B, 3, H, W]; `index` identifies each image, so that every batch size makes the same."""

    def __call__(self, images: Tensor, name: str, severity: int, index: Tensor, seed: int) -> Tensor: ...

    def fitted(self, training: Callable[[], np.ndarray]) -> Maker:
        """The maker for a data set, whose training images [N, H, W, 3] some noise needs."""


@dataclass(frozen=True)
class Common:
    """The common corruptions in a profile, saved as JPEG of a quality unless it is None."""

    profile: str
    jpeg: int | None = None

    def __call__(self, images: Tensor, name: str, severity: int, index: Tensor, seed: int) -> Tensor:
        return corrupt(images, name, severity, self.profile, seed=seed, index=index, jpeg=self.jpeg)

    def fitted(self, training: Callable[[], np.ndarray]) -> Maker:
        return self


SHARES = (0.05, 0.10, 0.15, 0.20, 0.30)


@dataclass(frozen=True)
class Pixels:
    """UN and NUN of the paper; severity s replaces SHARES[s - 1] of the pixels."""

    deviation: Callable[[], np.ndarray] | None = None

    def __call__(self, images: Tensor, name: str, severity: int, index: Tensor, seed: int) -> Tensor:
        noise = PixelNoise(name == "UN", SHARES[severity - 1], seed=seed)
        deviation = self.deviation() if self.deviation is not None and name == "NUN" else None
        pixels = images.permute(0, 2, 3, 1).cpu().numpy()
        made = noise.of(pixels, index.tolist(), deviation)
        return torch.from_numpy(made).permute(0, 3, 1, 2).to(images.device)

    def fitted(self, training: Callable[[], np.ndarray]) -> Maker:
        return replace(self, deviation=training)


@dataclass(frozen=True)
class Benchmark:
    """What to test on, and which means to form.

    tests      {corruption: its severities}.
    means      {name: the corruptions of a mean}; the first is the one that leaderboards sort by.
    side       the size of the published images; None if any size is as good.
    data       the clean data set by default.
    published  the name of the published corrupted files in the cache.
    reference  the errors of a reference, whose ratio is the corruption error; and the number of its classes.
    """

    name: str
    title: str
    make: Maker = field(repr=False)
    tests: Mapping[str, Sequence[int]]
    means: Mapping[str, Sequence[str]]
    side: int | None = None
    data: str | None = None
    published: str | None = None
    reference: Mapping[str, float] | None = None
    classes: int | None = None

    def chosen(self, corruptions: Sequence[str] | None, severities: Sequence[int] | None) -> list[TestSet]:
        """The clean images, and the corruptions at the severities; ValueError for unknown ones."""
        for name in corruptions or ():
            require_known(f"corruption of {self.name}", name, self.tests)
        known = sorted({severity for held in self.tests.values() for severity in held})
        if wrong := [severity for severity in severities or () if severity not in known]:
            raise ValueError(f"severity {wrong[0]} must be one of {', '.join(map(str, known))}")
        tests = [
            TestSet(name, severity)
            for name, held in self.tests.items()
            if corruptions is None or name in corruptions
            for severity in held
            if severities is None or severity in severities
        ]
        return [TestSet(), *tests]

    def made(self, height: int, width: int) -> str:
        """How the images of this size compare with the published ones, in a sentence."""
        if self.side is None:
            return "made as the paper describes it, at any size"
        if (height, width) == (self.side, self.side):
            return "made as the published set was, with random draws of our own"
        return (
            f"made at {height} x {width} px; {self.title} was published at {self.side} px, and lengths in pixels do "
            "not grow with the image, so that published numbers are no reference"
        )


_C_TESTS = dict.fromkeys(CORRUPTIONS, SEVERITIES)
_C_MEANS = {"all 15": STANDARD, "all 19": CORRUPTIONS, **GROUPS}


def _c(name: str, title: str, maker: Maker, side: int, data: str | None, classes: int) -> Benchmark:
    reference = REFERENCE_ERRORS.get(name)
    published = name if data is not None else None
    return Benchmark(name, title, maker, _C_TESTS, _C_MEANS, side, data, published, reference, classes)


def _c_bar(data: str, title: str, profile: str, side: int, classes: int) -> Benchmark:
    names = C_BAR[profile]
    own = data if data in ("cifar10", "cifar100") else None
    tests, means = dict.fromkeys(names, SEVERITIES), {"C-bar": names}
    return Benchmark(f"{data}-c-bar", title, Common(profile), tests, means, side, own, classes=classes)


BENCHMARKS: dict[str, Benchmark] = {
    each.name: each
    for each in (
        _c("cifar10-c", "CIFAR-10-C", Common("cifar"), 32, "cifar10", 10),
        _c("cifar100-c", "CIFAR-100-C", Common("cifar"), 32, "cifar100", 100),
        _c("tiny-imagenet-c", "Tiny-ImageNet-C", Common("tiny", 85), 64, None, 200),
        _c("imagenet-c", "ImageNet-C", Common("imagenet", 85), 224, None, 1000),
        _c_bar("cifar10", "CIFAR-10-C-bar", "cifar", 32, 10),
        _c_bar("cifar100", "CIFAR-100-C-bar", "cifar", 32, 100),
        _c_bar("imagenet", "ImageNet-C-bar", "imagenet", 224, 1000),
        Benchmark(
            "pixel-noise",
            "Pixel noise",
            Pixels(),
            dict.fromkeys(("UN", "NUN"), SEVERITIES),
            {"all": ("UN", "NUN"), "UN": ("UN",), "NUN": ("NUN",)},
            data="cifar10",
        ),
    )
}


def benchmark_of(name: str) -> Benchmark:
    """The benchmark of this name; ValueError with the closest match."""
    require_known("benchmark", name, BENCHMARKS)
    return BENCHMARKS[name]
