"""The frost photographs, as pixels: decoders of JPEG differ by a level, so their pixels are shipped.

`frost.xz` holds frost1, frost2, frost4 and frost5 of hendrycks/robustness (Apache-2.0), packed without loss: green,
red - green and blue - green, each as second differences modulo 256. frost3 equals frost2, and the reference never draws
frost6.
"""

from __future__ import annotations

import lzma
from functools import cache
from importlib.resources import files

import torch
from torch import Tensor

_SIZES = ((600, 900), (315, 560), (350, 527), (495, 660))


@cache
def pictures(scale: float) -> tuple[Tensor, ...]:
    """The five photographs that are drawn, at a scale of their size, uint8 [3, H, W] each."""
    first, second, fourth, fifth = (picture if scale == 1 else _resize(picture, scale) for picture in _unpack())
    return first, second, second, fourth, fifth


def _unpack() -> list[Tensor]:
    packed = files("poise.corruptions").joinpath("frost.xz").read_bytes()
    planes = torch.frombuffer(bytearray(lzma.decompress(packed)), dtype=torch.uint8)
    result, start = [], 0
    for height, width in _SIZES:
        part = planes[start : start + 3 * height * width].view(3, height, width)
        start += part.numel()
        green, red, blue = part.long().cumsum(1).cumsum(2).unbind()
        result.append(torch.stack([green + red, green, green + blue]).remainder(256).to(torch.uint8))
    return result


def _resize(picture: Tensor, scale: float) -> Tensor:
    """OpenCV's bilinear resize of bytes, with weights of 11 bits."""
    _, height, width = picture.shape
    top, bottom, upper, lower = _weights(height, round(height * scale), scale)
    left, right, before, after = _weights(width, round(width * scale), scale)
    pixels = picture.int()
    rows = (pixels[:, :, left] * before + pixels[:, :, right] * after) >> 4
    upper_part = (upper[:, None] * rows[:, top]) >> 16
    lower_part = (lower[:, None] * rows[:, bottom]) >> 16
    return ((upper_part + lower_part + 2) >> 2).to(torch.uint8)


def _weights(size: int, small: int, scale: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """For each output pixel the two pixels it lies between, and their weights."""
    place = ((torch.arange(small, dtype=torch.float64) + 0.5) / scale - 0.5).float()
    first = place.floor().clamp(0, size - 2)
    weight = place - first
    before, after = (part.mul(2048).round().int() for part in (1 - weight, weight))
    return first.long(), first.long() + 1, before, after
