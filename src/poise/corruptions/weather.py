"""The weather corruptions: snow, frost and fog.

Frost uses photographs. JPEG decoders differ by a level, so their pixels are shipped: `frost.xz` contains frost1,
frost2, frost4 and frost5 of hendrycks/robustness (Apache-2.0), compressed losslessly: green, red - green and blue -
green, each as second differences modulo 256. frost3 equals frost2, and the reference never draws frost6.
"""

from __future__ import annotations

import lzma
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import torch
from torch import Tensor

from poise.corruptions.blur import streak, zoom
from poise.corruptions.draws import Random
from poise.corruptions.pixels import as_bytes, unit

_SIZES = ((600, 900), (315, 560), (350, 527), (495, 660))


def scale_for(scale: float, height: int, width: int) -> float:
    """The scale, or a larger one at which the smallest photograph is larger than the images."""
    least = [min(sides) for sides in zip(*_SIZES, strict=True)]
    return max(scale, (height + 1) / least[0], (width + 1) / least[1])


@lru_cache(maxsize=8)
def pictures(scale: float) -> tuple[Tensor, ...]:
    """The five photographs that may be drawn, scaled, uint8 [3, H, W] each."""
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
    """OpenCV's bilinear resize of bytes, with 11-bit weights."""
    _, height, width = picture.shape
    top, bottom, upper, lower = _weights(height, round(height * scale), scale)
    left, right, before, after = _weights(width, round(width * scale), scale)
    pixels = picture.int()
    rows = (pixels[:, :, left] * before + pixels[:, :, right] * after) >> 4
    upper_part = (upper[:, None] * rows[:, top]) >> 16
    lower_part = (lower[:, None] * rows[:, bottom]) >> 16
    return ((upper_part + lower_part + 2) >> 2).to(torch.uint8)


def _weights(size: int, small: int, scale: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """For each output pixel the two input pixels around it, and their weights."""
    place = ((torch.arange(small, dtype=torch.float64) + 0.5) / scale - 0.5).float()
    first = place.floor().clamp(0, size - 2)
    weight = (place - first).clamp(0, 1)
    before, after = (part.mul(2048).round().int() for part in (1 - weight, weight))
    return first.long(), first.long() + 1, before, after


@dataclass(frozen=True)
class Snow:
    """Motion-blurred flakes on a whitened image, and the same flakes again, rotated by 180 degrees."""

    mean: float
    std: float
    zoom: float
    threshold: float
    radius: float
    sigma: float
    keep: float
    rounding: str = "nearest"

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor, Tensor]:
        return random.normal(*images.shape[2:]), random.uniform()

    def apply(self, images: Tensor, noise: Tensor, turn: Tensor) -> Tensor:
        flakes = zoom((self.mean + self.std * noise).transpose(0, 1).contiguous(), self.zoom).transpose(0, 1)
        flakes = as_bytes(torch.where(flakes < self.threshold, 0.0, flakes))[:, None]
        flakes = unit(streak(flakes, -135 + 90 * turn, self.radius, self.sigma, self.rounding))
        x = unit(images, torch.float32)
        red, green, blue = x.unbind(1)
        grey = (red * 0.299 + green * 0.587 + blue * 0.114)[:, None]
        x = self.keep * x + (1 - self.keep) * torch.maximum(x, grey * 1.5 + 0.5)
        return as_bytes(x + flakes + flakes.flip(2, 3))


@dataclass(frozen=True)
class Frost:
    """The image under a crop of a photograph of frost; `scale` is that of the photographs, larger for large images."""

    image: float
    frost: float
    scale: float

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor, Tensor]:
        """The index of one of five photographs, and where the crop starts [B, 2]; the last possible position is never
        drawn.
        """
        sizes = torch.tensor([picture.shape[1:] for picture in self._pictures(images)], device=images.device)
        size = torch.tensor(images.shape[2:], device=images.device)
        which = random.integers(0, len(sizes))
        return which, (random.uniform(2) * (sizes[which] - size)).long()

    def apply(self, images: Tensor, which: Tensor, start: Tensor) -> Tensor:
        height, width = images.shape[2:]
        rows = start[:, :1] + torch.arange(height, device=images.device)
        columns = start[:, 1:] + torch.arange(width, device=images.device)
        result = torch.empty_like(images)
        for number, picture in enumerate(self._pictures(images)):
            chosen = (which == number).nonzero()[:, 0]
            piece = picture.to(images.device)[:, rows[chosen, :, None], columns[chosen, None]].transpose(0, 1)
            mixed = self.image * images[chosen].double() + self.frost * piece.double()
            result[chosen] = mixed.clamp_(0, 255).to(torch.uint8)
        return result

    def _pictures(self, images: Tensor) -> tuple[Tensor, ...]:
        return pictures(scale_for(self.scale, *images.shape[2:]))


@dataclass(frozen=True)
class Fog:
    """A plasma cloud over the image, by diamond-square on a torus of `side` x `side`."""

    thickness: float
    decay: float
    side: int

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor, ...]:
        """For each step N, N/2, ..., 2 the noise of centres, rows and columns [B, 3, n, n], n = N / step."""
        side = max(self.side, 1 << (max(images.shape[2:]) - 1).bit_length())
        cells = [1 << level for level in range(side.bit_length() - 1)]
        return tuple(random.uniform(3, n, n) for n in cells)

    def apply(self, images: Tensor, *noise: Tensor) -> Tensor:
        x = unit(images)
        cloud = self._plasma(noise)[:, None, : x.shape[2], : x.shape[3]]
        brightest = x.amax((1, 2, 3), keepdim=True)
        return as_bytes((x + self.thickness * cloud) * brightest / (brightest + self.thickness))

    def _plasma(self, noise: tuple[Tensor, ...]) -> Tensor:
        """The cloud, in [0, 1] [B, N, N]."""
        cloud = torch.zeros(len(noise[0]), 1, 1, dtype=torch.float64, device=noise[0].device)
        width = 100.0
        for each in noise:
            cloud = _refine(cloud, width * (-width + 2 * width * each))
            width /= self.decay
        low, high = cloud.amin((1, 2), keepdim=True), cloud.amax((1, 2), keepdim=True)
        return (cloud - low) / (high - low)


def _refine(corners: Tensor, noise: Tensor) -> Tensor:
    """Double the resolution: centres from four corners, then edge midpoints from corners and centres [B, 2n, 2n]."""
    pair = corners + corners.roll(-1, 1)
    centres = (pair + pair.roll(-1, 2)) / 4 + noise[:, 0]
    in_rows = ((centres + centres.roll(1, 1)) + (corners + corners.roll(-1, 2))) / 4 + noise[:, 1]
    in_columns = ((centres + centres.roll(1, 2)) + (corners + corners.roll(-1, 1))) / 4 + noise[:, 2]
    even = torch.stack([corners, in_rows], dim=3).flatten(2)
    odd = torch.stack([in_columns, centres], dim=3).flatten(2)
    return torch.stack([even, odd], dim=2).flatten(1, 2)
