"""Apply a corruption: `corrupt` for batches, and `Corrupt` as a transform for datasets.

Results are reproducible in every batch size and number of workers, and memory stays within a budget.

Axes: B images, H rows, W columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import string_at
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor

from poise.checks import is_whole, require_choice, require_known, require_whole
from poise.corruptions.blur import MotionBlur
from poise.corruptions.digital import Elastic
from poise.corruptions.draws import Random
from poise.corruptions.jpeg import Jpeg
from poise.corruptions.pixels import divided
from poise.corruptions.profiles import PROFILES, Setting
from poise.corruptions.protocols import C_BAR, CORRUPTIONS, EVERY, SEVERITIES
from poise.corruptions.weather import Snow
from poise.io.decoding import as_rgb

_SIDES = {32: "cifar", 64: "tiny", 224: "imagenet"}
SMALLEST = 16
_NUMBERS_AT_ONCE = 16  # float64 per value that a corruption may hold


@dataclass(frozen=True)
class Corruption:
    """One corruption in one profile, at any severity.

    name      one of the 19, `poise.corruptions.protocols.CORRUPTIONS`, or of C-bar, `C_BAR[profile]`.
    profile   the set of constants: "cifar" (made for 32 px), "tiny" (64) or "imagenet" (224).
    libraries "2018", which made the published data sets, or "today": the results of the original code with today's
              libraries. They differ in motion_blur and snow (ImageMagick truncates since 6.9.10-69), jpeg_compression
              (IJG's libjpeg 9c, now libjpeg-turbo) and elastic_transform (another border since SciPy 1.6).
    """

    name: str
    profile: str = "cifar"
    libraries: str = "2018"

    def __post_init__(self) -> None:
        require_corruption(self.name)
        require_choice("profile", self.profile, *PROFILES)
        require_choice("libraries", self.libraries, "2018", "today")
        if self.name not in CORRUPTIONS and self.name not in C_BAR.get(self.profile, ()):
            homes = " or ".join(repr(profile) for profile, names in C_BAR.items() if self.name in names)
            raise ValueError(f"{self.name} has no constants for profile={self.profile!r}: choose {homes}")

    def at(self, severity: int) -> Setting:
        """The constants at a severity."""
        if not is_whole(severity) or severity not in SEVERITIES:
            raise ValueError(f"severity={severity!r} must be 1, 2, 3, 4 or 5")
        setting = self._settings()[severity - 1]
        return setting if self.libraries == "2018" else _today(setting)

    def _settings(self) -> tuple[Setting, ...]:
        if self.name in CORRUPTIONS:
            return PROFILES[self.profile][self.name]
        from poise.corruptions.c_bar.settings import C_BAR_PROFILES

        return C_BAR_PROFILES[self.profile][self.name]

    def require_size(self, height: int, width: int) -> None:
        """ValueError for images that are too small."""
        _require_smallest(height, width)

    def draw(self, random: Random, images: Tensor, severity: int) -> tuple[Tensor, ...]:
        """All random numbers for these images, bytes [B, 3, H, W]."""
        return self.at(severity).draw(random, images)

    def apply(self, images: Tensor, severity: int, draws: Sequence[Tensor]) -> Tensor:
        """Bytes [B, 3, H, W] to corrupted bytes; deterministic."""
        return self.at(severity).apply(images, *draws)


def corrupt(
    images: Tensor,
    name: str,
    severity: int,
    profile: str | None = None,
    *,
    seed: int = 0,
    index: Tensor | Sequence[int] | int | None = None,
    libraries: str = "2018",
    jpeg: int | None = None,
    memory: int | None = None,
) -> Tensor:
    """Corrupt images; the result has the same shape, dtype and device.

    images    [B, 3, H, W] or [3, H, W], RGB; uint8, or floats in [0, 1], rounded to the nearest of 256 levels.
    profile   "cifar", "tiny" or "imagenet"; by default the one made for 32, 64 or 224 px.
    index     identifies each image: the same seed and index draw the same numbers in every batch. By default 0, 1, ...
    libraries "2018" as published, or "today", see `Corruption`; also applies to the second JPEG pass.
    jpeg      quality of a second JPEG pass; ImageNet-C was saved at 85.
    memory    approximate number of bytes in use at once; by default 64 MB, on a GPU 2 GB.

    >>> images = torch.full((2, 3, 32, 32), 128, dtype=torch.uint8)
    >>> corrupt(images, "gaussian_noise", severity=1, seed=0).float().std() > 5
    tensor(True)
    """
    require_whole("seed", seed)
    if memory is not None:
        require_whole("memory", memory, least=1)
    pixels = _as_bytes(images)
    corruption = Corruption(name, profile or profile_for(*pixels.shape[2:]), libraries)
    setting = corruption.at(severity)
    saved = None if jpeg is None else Jpeg(jpeg, "9c" if libraries == "2018" else "turbo")
    names = _as_index(index, pixels)
    result = torch.empty_like(pixels)
    for part in _parts(pixels, memory):
        random = Random(seed, f"{name}/{severity}", names[part])
        changed = setting.apply(pixels[part], *setting.draw(random, pixels[part]))
        result[part] = changed if saved is None else saved.apply(changed)
    return _as_given(result, images)


def profile_for(height: int, width: int) -> str:
    """The profile that was made for images of this size."""
    if height != width or height not in _SIDES:
        raise ValueError(
            f"no profile exists for {height} x {width} pixels: pass profile= one of {', '.join(map(repr, PROFILES))}"
        )
    return _SIDES[height]


def require_c_bar(profile: str) -> None:
    """ValueError unless C-bar has constants for this profile."""
    if profile not in C_BAR:
        raise ValueError(f"C-bar has no constants for profile={profile!r}: choose {' or '.join(map(repr, C_BAR))}")


def require_corruption(name: str) -> None:
    """ValueError, with the closest match, unless `name` is one of the 19 corruptions or of C-bar."""
    require_known("corruption", name, EVERY)


def _today(setting: Setting) -> Setting:
    """The setting with today's libraries."""
    if isinstance(setting, MotionBlur | Snow):
        return replace(setting, rounding="truncate")
    if isinstance(setting, Jpeg):
        return replace(setting, libjpeg="turbo")
    return replace(setting, scipy="1.6") if isinstance(setting, Elastic) else setting


def _as_bytes(images: Tensor) -> Tensor:
    """uint8 [B, 3, H, W]"""
    if not isinstance(images, Tensor):
        raise TypeError(f"images must be a tensor [B, 3, H, W], got {type(images).__name__}: use torch.as_tensor")
    if images.dim() not in (3, 4) or images.shape[-3] != 3:
        hint = (
            ": move the channels from the last axis with permute"
            if images.dim() in (3, 4) and images.shape[-1] == 3
            else ""
        )
        raise ValueError(f"images must have shape [B, 3, H, W] or [3, H, W], got {list(images.shape)}{hint}")
    _require_smallest(*images.shape[-2:])
    images = images if images.dim() == 4 else images[None]
    if images.dtype == torch.uint8:
        return images.contiguous()
    if not images.is_floating_point():
        raise TypeError(f"images must be uint8 or floats in [0, 1], got {images.dtype}")
    require_range(images)
    return images.detach().float().mul(255).round_().to(torch.uint8).contiguous()


def require_range(images: Tensor) -> None:
    """ValueError for floats outside [0, 1], and for NaN."""
    if images.is_floating_point() and not bool(((images >= 0) & (images <= 1)).all()):
        raise ValueError("images must lie in [0, 1] if they are floats: corrupt first, then normalize")


def _require_smallest(height: int, width: int) -> None:
    if min(height, width) < SMALLEST:
        raise ValueError(f"images must have at least {SMALLEST} x {SMALLEST} pixels, got {height} x {width}")


def _as_given(result: Tensor, images: Tensor) -> Tensor:
    result = result.view(images.shape)
    return result if images.dtype == torch.uint8 else divided(result.to(images.dtype), 255)


def _as_index(index: Tensor | Sequence[int] | int | None, images: Tensor) -> Tensor:
    try:
        names = torch.arange(len(images)) if index is None else torch.as_tensor(index)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"index={index!r} must hold one whole number per image, {len(images)}") from None
    names = names if names.numel() else names.long()  # an empty list becomes a tensor of floats
    if names.is_floating_point() or names.dtype == torch.bool or names.numel() != len(images) or names.dim() > 1:
        raise ValueError(
            f"index must hold one whole number per image, {len(images)}; got {list(names.shape)} {names.dtype}"
        )
    return names.reshape(-1).to(images.device, torch.int64)


def _parts(images: Tensor, memory: int | None) -> list[slice]:
    if memory is None:
        memory = 1 << 31 if images.is_cuda else 1 << 26
    at_once = max(1, memory // (images[0].numel() * 8 * _NUMBERS_AT_ONCE)) if len(images) else 1
    return [slice(start, start + at_once) for start in range(0, len(images), at_once)]


@dataclass(frozen=True)
class Corrupt:
    """Corrupt one image, a tensor [3, H, W] or a PIL image, and return the same type.

    A transform does not know the index of its image, so the random numbers depend on the pixels: the same image is
    corrupted in the same way in every epoch, order and worker. `transform(image, index=i)` uses the index instead.
    """

    name: str
    severity: int
    profile: str | None = None
    seed: int = 0
    libraries: str = "2018"
    jpeg: int | None = None

    def __post_init__(self) -> None:
        Making((self.name,), (self.severity,), self.profile or "cifar", self.seed, self.libraries, self.jpeg)

    def __call__(self, image: Any, index: int | None = None) -> Any:
        if isinstance(image, Tensor):
            return self._corrupt(image, index)
        if not hasattr(image, "convert"):
            raise TypeError(f"image must be a tensor [3, H, W] or a PIL image, got {type(image).__name__}")
        width, height = image.size
        pixels = torch.frombuffer(bytearray(as_rgb(image).tobytes()), dtype=torch.uint8)
        changed = self._corrupt(pixels.view(height, width, 3).permute(2, 0, 1), index)
        from PIL import Image  # installed if the image is a PIL image

        return Image.frombytes("RGB", (width, height), _raw(changed.permute(1, 2, 0)))

    def _corrupt(self, image: Tensor, index: int | None) -> Tensor:
        if image.dim() != 3:
            raise ValueError(f"image must have shape [3, H, W], got {list(image.shape)}; use poise.corrupt for batches")
        return corrupt(
            image,
            self.name,
            self.severity,
            self.profile,
            seed=self.seed,
            index=_fingerprint(image) if index is None else index,
            libraries=self.libraries,
            jpeg=self.jpeg,
        )


def _fingerprint(image: Tensor) -> int:
    """63 bits of the image's levels."""
    levels = image if image.dtype == torch.uint8 else image.detach().float().mul(255).round()
    return int.from_bytes(sha256(_raw(levels.to("cpu", torch.uint8))).digest()[:8], "big") >> 1


def _raw(levels: Tensor) -> bytes:
    """The bytes of a uint8 tensor on the CPU, without numpy."""
    levels = levels.contiguous()
    return string_at(levels.data_ptr(), levels.numel())


@dataclass(frozen=True)
class Making:
    """The corruptions and settings to apply to a set of images; the device affects only the speed."""

    corruptions: tuple[str, ...] = CORRUPTIONS
    severities: tuple[int, ...] = SEVERITIES
    profile: str = "cifar"
    seed: int = 0
    libraries: str = "2018"
    jpeg: int | None = None

    def __post_init__(self) -> None:
        if not self.corruptions or not self.severities:
            raise ValueError("corruptions and severities must have at least one entry each")
        require_whole("seed", self.seed)
        if self.jpeg is not None:
            Jpeg(self.jpeg)
        for name in self.corruptions:
            for severity in self.severities:
                Corruption(name, self.profile, self.libraries).at(severity)

    def require_size(self, height: int, width: int) -> None:
        """ValueError for images that one of the corruptions does not support."""
        for name in self.corruptions:
            Corruption(name, self.profile, self.libraries).require_size(height, width)

    def of(self, images: Tensor, name: str, severity: int, index: Tensor | Sequence[int] | int | None = None) -> Tensor:
        """The images under one of the corruptions; `index` as in `corrupt`."""
        return corrupt(
            images, name, severity, self.profile, seed=self.seed, index=index, libraries=self.libraries, jpeg=self.jpeg
        )
