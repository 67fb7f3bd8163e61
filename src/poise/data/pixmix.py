"""PixMix (Hendrycks et al. 2022): an image mixed several times with itself, augmented, or with a fractal.

    m = x or augment(x);   up to 4 times:  m = clip(add or multiply (m, augment(x) or fractal))
    add        ((2m - 1) a + (2y - 1) b + 1) / 2          multiply  (2m)^a (2y)^b / 2
    a, b       Beta(beta, 1), Beta(1, beta),   or   1 + Beta(1, beta), -Beta(1, beta)

The published pictures were collected from the web. Here they are made by code: the attractors of random iterated
function systems, colored by their maps. `augment` is one of AugMix's nine operations, none of which is tested.

Axes: B images, C channels, H rows, W columns, F fractals, P points, M maps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from poise.checks import require_number, require_whole
from poise.data.augment import layout_of, require_levels
from poise.data.augmix import OPERATIONS, operate

_MARGIN = 9 / 8  # fractals are larger than images by this, and cropped at random


@dataclass(frozen=True)
class PixMix:
    """Up to `rounds` mixings of strength `beta`, which is weaker the larger it is, with one of `fractals` pictures."""

    rounds: int = 4
    beta: float = 3.0
    severity: float = 3.0
    fractals: int = 256

    def __post_init__(self) -> None:
        require_whole("rounds", self.rounds, least=0)
        require_whole("fractals", self.fractals, least=1)
        require_number("severity", self.severity, least=0.1, most=10)
        require_number("beta", self.beta, least=0.01)

    def __call__(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """x [B, C, H, W] in [0, 1] → the same shape."""
        require_levels(x)
        image = x.float().contiguous()
        fractal = self._pictures(image, generator)
        count = torch.randint(self.rounds + 1, (len(x), 1, 1, 1), device=x.device, generator=generator)
        mixed = self._augmented(image, generator).where(_coin(x, generator), image)
        for step in range(self.rounds):
            other = self._augmented(image, generator).where(_coin(x, generator), fractal)
            mixed = self._mixed(mixed, other, generator).where(step < count, mixed)
        return mixed.to(x.dtype).contiguous(memory_format=layout_of(x))

    def _augmented(self, image: Tensor, generator: torch.Generator | None) -> Tensor:
        """Each image after one operation."""
        size = (len(image),)
        drawn = torch.randint(len(OPERATIONS), size, device=image.device, generator=generator)
        strength = torch.rand(size, device=image.device, generator=generator) * (self.severity - 0.1) + 0.1
        sign = 1 - 2 * torch.randint(2, size, device=image.device, generator=generator)
        return operate((255 * image).round().clamp(0, 255), drawn, strength, sign) / 255

    def _mixed(self, first: Tensor, second: Tensor, generator: torch.Generator | None) -> Tensor:
        shape = (len(first), 1, 1, 1)
        one, other = torch.rand(2, *shape, device=first.device, generator=generator) ** (1 / self.beta)
        within = _coin(first, generator)
        a, b = torch.where(within, one, 2 - one), torch.where(within, 1 - other, other - 1)
        mixed = torch.where(_coin(first, generator), add(first, second, a, b), multiply(first, second, a, b))
        return mixed.clamp(0, 1)

    def _pictures(self, image: Tensor, generator: torch.Generator | None) -> Tensor:
        """A random crop of a random fractal for each image; grey if the images are."""
        batch, channels, height, width = image.shape
        side = math.ceil(max(height, width) * _MARGIN)
        pictures = fractals(self.fractals, side, image.device)
        pictures = pictures if channels == 3 else pictures.mean(1, keepdim=True).expand(-1, channels, -1, -1)
        which = torch.randint(len(pictures), (batch, 1, 1), device=image.device, generator=generator)
        rows, columns = (
            torch.arange(length, device=image.device)
            + torch.randint(side - length + 1, (batch, 1), device=image.device, generator=generator)
            for length in (height, width)
        )
        return pictures.permute(0, 2, 3, 1)[which, rows[:, :, None], columns[:, None]].permute(0, 3, 1, 2).contiguous()


def add(first: Tensor, second: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return (a * (2 * first - 1) + b * (2 * second - 1) + 1) / 2


def multiply(first: Tensor, second: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return (2 * first) ** a * (2 * second).clamp(min=1e-37) ** b / 2


def _coin(x: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.rand(len(x), 1, 1, 1, device=x.device, generator=generator) < 0.5


_MAPS, _POINTS, _STEPS, _FIRST = 4, 512, 36, 12
_MOST = 72  # pixels that so many points fill; larger pictures are enlarged


@lru_cache(8)
def fractals(count: int, side: int, device: torch.device) -> Tensor:
    """The same pictures at every call, in [0, 1] [F, 3, side, side].

    The chaos game: points jump by a map drawn in proportion to its area, and take half of its color.
    """
    with torch.inference_mode(False):
        generator = torch.Generator().manual_seed(0)
        matrices, offsets = _systems(count, generator)
        colors = torch.rand(count, _MAPS, 3, generator=generator)
        area = torch.linalg.det(matrices).abs().clamp(min=0.02).cumsum(1)  # [F, M]
        place, color = torch.zeros(count, _POINTS, 2), torch.full((count, _POINTS, 3), 0.5)
        places, taken, row = [], [], torch.arange(count)[:, None]
        for step in range(_STEPS):
            drawn = torch.searchsorted(area, area[:, -1:] * torch.rand(count, _POINTS, generator=generator))  # [F, P]
            place = (matrices[row, drawn] * place[..., None, :]).sum(3) + offsets[row, drawn]
            color = (color + colors[row, drawn]) / 2
            if step >= _FIRST:
                places.append(place)
                taken.append(color)
        ground = torch.rand(count, 3, generator=generator)
        pictures = _drawn(torch.cat(places, 1), torch.cat(taken, 1), ground, min(side, _MOST))
        return F.interpolate(pictures, (side, side), mode="bilinear").to(device)


def _systems(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Contractions, rotation x scales x rotation [F, M, 2, 2], and offsets [F, M, 2]."""
    angles = 2 * math.pi * torch.rand(2, count, _MAPS, generator=generator)
    first, second = (torch.stack([a.cos(), -a.sin(), a.sin(), a.cos()], -1).view(count, _MAPS, 2, 2) for a in angles)
    scales = 0.2 + 0.65 * torch.rand(count, _MAPS, 2, generator=generator)
    return first @ (scales[..., None] * second), 2 * torch.rand(count, _MAPS, 2, generator=generator) - 1


def _drawn(places: Tensor, colors: Tensor, ground: Tensor, side: int) -> Tensor:
    """The mean color of the points in each pixel, more opaque the more there are, on a plain ground."""
    low, high = (places[:, ::8].quantile(share, dim=1, keepdim=True) for share in (0.01, 0.99))
    cell = ((places - low) / (high - low) * side).floor()
    inside = ((cell >= 0) & (cell < side)).all(2)
    index = (cell[..., 0] * side + cell[..., 1]).long().where(inside, side * side)
    hits = torch.zeros(len(places), side * side + 1).scatter_add_(1, index, torch.ones(index.shape))[:, :-1]
    total = torch.zeros(len(places), side * side + 1, 3).scatter_add_(1, index[..., None].expand_as(colors), colors)
    mean = total[:, :-1] / hits.clamp(min=1)[..., None]
    opacity = (1 + hits).log()[..., None]
    opacity = (opacity / opacity.quantile(0.95, dim=1, keepdim=True).clamp(min=1e-6)).clamp(max=1)
    pictures = ground[:, None] + opacity * (mean - ground[:, None])
    return pictures.view(-1, side, side, 3).permute(0, 3, 1, 2).contiguous()
