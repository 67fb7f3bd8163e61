"""Brightness, saturation and contrast. The first two work on hue, saturation and value, by scikit-image's formulas."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from poise.corruptions.draws import Random
from poise.corruptions.pixels import as_bytes, divided, unit


@dataclass(frozen=True)
class Brightness:
    """More value."""

    shift: float

    def draw(self, random: Random, images: Tensor) -> tuple[()]:
        return ()

    def apply(self, images: Tensor) -> Tensor:
        hue, saturation, value = _to_hsv(unit(images))
        return as_bytes(_to_rgb(hue, saturation, (value + self.shift).clamp_(0, 1)))


@dataclass(frozen=True)
class Saturate:
    """Less saturation, or more; with a shift, grey becomes reddish."""

    factor: float
    shift: float

    def draw(self, random: Random, images: Tensor) -> tuple[()]:
        return ()

    def apply(self, images: Tensor) -> Tensor:
        hue, saturation, value = _to_hsv(unit(images))
        return as_bytes(_to_rgb(hue, (saturation * self.factor + self.shift).clamp_(0, 1), value))


@dataclass(frozen=True)
class Contrast:
    """Every channel nearer to its own mean."""

    factor: float

    def draw(self, random: Random, images: Tensor) -> tuple[()]:
        return ()

    def apply(self, images: Tensor) -> Tensor:
        x = unit(images)
        mean = _mean_in_order(x)[:, :, None, None]
        return as_bytes((x - mean).mul_(self.factor).add_(mean))


def _mean_in_order(x: Tensor) -> Tensor:
    """The mean of each channel, pixels added one after the other as numpy does here [B, C].

    In flat images the last bit decides on a level. A running sum over the first axis is sequential on every device.
    """
    pixels = x.flatten(2).permute(2, 0, 1).contiguous()
    return divided(pixels.cumsum(0)[-1], len(pixels))


def _to_hsv(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Hue, saturation and value in [0, 1], each [B, H, W]; where two channels are largest, the later one decides."""
    red, green, blue = x.unbind(1)
    value = x.amax(1)
    spread = value - x.amin(1)
    flat = spread == 0
    safe = torch.where(flat, 1.0, spread)
    hue = torch.where(
        blue == value,
        4 + (red - green) / safe,
        torch.where(green == value, 2 + (blue - red) / safe, (green - blue) / safe),
    )
    hue = torch.where(flat, 0.0, divided(hue, 6).remainder(1.0))
    saturation = torch.where(flat, 0.0, spread / torch.where(flat, 1.0, value))
    return hue, saturation, value


def _to_rgb(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    """[B, 3, H, W]"""
    sector = (hue * 6).floor()
    part = hue * 6 - sector
    low = value * (1 - saturation)
    falling = value * (1 - part * saturation)
    rising = value * (1 - (1 - part) * saturation)
    choices = torch.stack([value, falling, low, rising], dim=1)
    table = torch.tensor([[0, 3, 2], [1, 0, 2], [2, 0, 3], [2, 1, 0], [3, 2, 0], [0, 2, 1]], device=hue.device)
    return choices.gather(1, table[sector.long() % 6].permute(0, 3, 1, 2))
