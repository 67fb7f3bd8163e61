"""Augmentations of batches of images in [0, 1]; the draws of every image are independent and made on its device.

    Standard        random crop after padding, random horizontal flip
    PatchGaussian   x + N(0, sigma^2) inside a square at a random place (Lopes et al. 2019), clipped to [0, 1]
    GaussianNoise   x + N(0, sigma^2) everywhere, for a fraction of the batch, clipped to [0, 1]

`Chain` applies its parts in order, so Patch Gaussian can come before or after the standard augmentation. `AugMix` is in
augmix.py.

Axes: B images, C channels, H rows, W columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from poise.checks import require_number, require_part, require_several, require_switch, require_whole
from poise.classifier import may_look

_SLACK = 0.01  # outside [0, 1], for rounding in an earlier augmentation


class Augmentation(Protocol):
    def __call__(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """x [B, C, H, W] in [0, 1] → the same shape."""


@dataclass(frozen=True)
class Chain:
    """Several augmentations, applied in order."""

    parts: tuple[Augmentation, ...]

    def __post_init__(self) -> None:
        require_several("parts", self.parts)
        for place, part in enumerate(self.parts):
            require_part(f"parts[{place}]", part)

    def __call__(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        for part in self.parts:
            x = part(x, generator)
        return x


@dataclass(frozen=True)
class Standard:
    """Pad with `padding` black pixels on each side, crop at random to the original size, and flip half of the batch."""

    padding: int = 4
    flip: bool = True

    def __post_init__(self) -> None:
        require_whole("padding", self.padding, least=0)
        require_switch("flip", self.flip)

    def __call__(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        require_images(x)
        batch, _, height, width = x.shape
        shifts = 2 * self.padding + 1
        rows = _place(height, torch.randint(shifts, (batch, 1), device=x.device, generator=generator))
        columns = _place(width, torch.randint(shifts, (batch, 1), device=x.device, generator=generator))
        if self.flip:
            flipped = torch.rand((batch, 1), device=x.device, generator=generator) < 0.5
            columns = columns.where(~flipped, columns.flip(1))
        padded = F.pad(x, (self.padding,) * 4)
        image = torch.arange(batch, device=x.device)[:, None, None]
        cropped = padded.permute(0, 2, 3, 1)[image, rows[:, :, None], columns[:, None, :]]  # [B, H, W, C]
        return cropped.permute(0, 3, 1, 2).contiguous(memory_format=layout_of(x))


@dataclass(frozen=True)
class PatchGaussian:
    """Gaussian noise inside a square with side `size`, centred at a random pixel and cut at the border.

    random_size  draw the side of every image from 1, ..., size.
    """

    size: int
    sigma: float
    random_size: bool = False

    def __post_init__(self) -> None:
        require_whole("size", self.size, least=1)
        require_number("sigma", self.sigma, least=0)
        require_switch("random_size", self.random_size)

    def __call__(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        require_levels(x)
        batch, _, height, width = x.shape
        side = torch.full((batch, 1), self.size, device=x.device)
        if self.random_size:
            side = torch.randint(1, self.size + 1, (batch, 1), device=x.device, generator=generator)
        rows = _inside(height, side, generator)[:, None, :, None]
        columns = _inside(width, side, generator)[:, None, None, :]
        return torch.where(rows & columns, _noisy(x, self.sigma, generator), x)


@dataclass(frozen=True)
class GaussianNoise:
    """Gaussian noise on whole images, for a random `fraction` of the batch. With 0.5, the tuned baseline."""

    sigma: float
    fraction: float = 0.5

    def __post_init__(self) -> None:
        require_number("sigma", self.sigma, least=0)
        require_number("fraction", self.fraction, least=0, most=1)

    def __call__(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        require_levels(x)
        order = torch.rand(len(x), device=x.device, generator=generator).argsort()
        chosen = (order < round(self.fraction * len(x))).view(-1, 1, 1, 1)
        return torch.where(chosen, _noisy(x, self.sigma, generator), x)


def _noisy(x: Tensor, sigma: float, generator: torch.Generator | None) -> Tensor:
    return (x + torch.empty_like(x).normal_(std=sigma, generator=generator)).clamp(0, 1)


def _inside(length: int, side: Tensor, generator: torch.Generator | None) -> Tensor:
    """True inside an interval of `side` pixels around a random one: [B, length]."""
    centre = torch.randint(length, side.shape, device=side.device, generator=generator)
    first = centre - side // 2
    place = torch.arange(length, device=side.device)
    return (place >= first) & (place < first + side)


def _place(length: int, shift: Tensor) -> Tensor:
    return torch.arange(length, device=shift.device) + shift  # [B, length]


def layout_of(x: Tensor) -> torch.memory_format:
    """The memory format of a batch."""
    channels_last = x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
    return torch.channels_last if channels_last else torch.contiguous_format


def require_images(x: Tensor) -> None:
    """Raise TypeError unless x is a batch of images as floats."""
    if not isinstance(x, Tensor):
        raise TypeError(f"images must be a tensor of floats [B, C, H, W] in [0, 1], got a {type(x).__name__}")
    if x.ndim != 4 or not x.is_floating_point():
        raise TypeError(f"images must be floats [B, C, H, W] in [0, 1], got {x.dtype} {list(x.shape)}")


def require_levels(x: Tensor) -> None:
    """Like `require_images`, and raise ValueError for values outside [0, 1].

    Values are checked on the CPU only: elsewhere the check would stall the device.
    """
    require_images(x)
    if x.device.type != "cpu" or not x.numel() or not may_look():
        return
    low, high = (float(end) for end in x.detach().aminmax())
    if not (low >= -_SLACK and high <= 1 + _SLACK):
        hint = "divide by 255" if high > 16 else "augment first, normalize later"
        raise ValueError(f"images must lie in [0, 1], got values from {low:.3g} to {high:.3g}: {hint}")
