"""A corruption as a transform: for anybody's Dataset, in any number of workers."""

from __future__ import annotations

from ctypes import string_at
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor

from poise.choices import require_whole
from poise.corruptions.corrupt import Corruption, corrupt
from poise.corruptions.jpeg import Jpeg
from poise.corruptions.rgb import as_rgb


@dataclass(frozen=True)
class Corrupt:
    """Corrupts one image, a tensor [3, H, W] or a PIL image, and returns its kind.

    A transform is not told which image it gets, so that the draws follow the pixels: the same picture is corrupted in
    the same way in every epoch, order and worker. With `transform(image, index=i)` they follow the index instead.
    """

    name: str
    severity: int
    profile: str | None = None
    seed: int = 0
    libraries: str = "2018"
    jpeg: int | None = None

    def __post_init__(self) -> None:
        Corruption(self.name, self.profile or "cifar", self.libraries).at(self.severity)
        require_whole("seed", self.seed)
        if self.jpeg is not None:
            Jpeg(self.jpeg)

    def __call__(self, image: Any, index: int | None = None) -> Any:
        if isinstance(image, Tensor):
            return self._corrupt(image, index)
        if not hasattr(image, "convert"):
            raise TypeError(f"image must be a tensor [3, H, W] or a PIL image, got {type(image).__name__}")
        width, height = image.size
        pixels = torch.frombuffer(bytearray(as_rgb(image).tobytes()), dtype=torch.uint8)
        changed = self._corrupt(pixels.view(height, width, 3).permute(2, 0, 1), index)
        from PIL import Image  # whoever passes a PIL image has it

        return Image.frombytes("RGB", (width, height), _raw(changed.permute(1, 2, 0)))

    def _corrupt(self, image: Tensor, index: int | None) -> Tensor:
        if image.dim() != 3:
            raise ValueError(f"image must have shape [3, H, W], got {list(image.shape)}; poise.corrupt takes batches")
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
