"""Spatter: drops of water or mud on the lens.

Axes: B images, H rows, W columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from poise.corruptions.draws import Random
from poise.corruptions.edges import canny, chamfer_distance
from poise.corruptions.filters import correlate, smoothing_matrix
from poise.corruptions.pixels import as_bytes, divided, unit

_WATER, _MUD = (175, 238, 238), (63, 42, 20)
_RELIEF = ((-2, -1, 0), (-1, 1, 1), (0, 1, 2))


@dataclass(frozen=True)
class Spatter:
    """A smoothed random layer, kept above a threshold: water glistens at the edges of its drops, mud covers."""

    mean: float
    std: float
    sigma: float
    threshold: float
    strength: float
    mud: bool

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor]:
        return (random.normal(*images.shape[2:]),)

    def apply(self, images: Tensor, noise: Tensor) -> Tensor:
        layer = _smooth(self.mean + self.std * noise, self.sigma)
        x = unit(images, torch.float32)
        return as_bytes(self._mud(x, layer) if self.mud else self._water(x, layer))

    def _water(self, x: Tensor, layer: Tensor) -> Tensor:
        # A layer above 1 wraps, as the reference's cast to a byte does on x86.
        drops = torch.where(layer < self.threshold, 0.0, layer).mul(255).long().remainder(256)
        light = drops.float() * _glints(drops)
        brightest = light.amax((1, 2), keepdim=True)
        light = torch.where(brightest > 0, light / brightest.clamp(min=1), 0.0) * self.strength
        return x + light[:, None] * _colour(_WATER, x)

    def _mud(self, x: Tensor, layer: Tensor) -> Tensor:
        cover = _smooth((layer > self.threshold).float(), self.strength)
        cover = torch.where(cover < 0.8, 0.0, cover)[:, None]
        return x * (1 - cover) + _colour(_MUD, x) * cover


def _glints(drops: Tensor) -> Tensor:
    """Where drops shine: the relief of the distance to their edges, 0 to 255 [B, H, W]."""
    distance = chamfer_distance(canny(drops, 50, 150), 20)
    level = divided(_box_sum(distance), 9).float().long()
    shine = correlate(_equalize(level)[:, None].double(), _RELIEF).clamp_(0, 255)[:, 0]
    return divided(_box_sum(shine), 9).round_().float()


def _box_sum(planes: Tensor) -> Tensor:
    return correlate(planes[:, None].double(), ((1, 1, 1),) * 3)[:, 0]


def _equalize(level: Tensor) -> Tensor:
    """Histogram equalisation as in OpenCV, each plane for itself; a plane of one level stays as it is."""
    count = torch.zeros(len(level), 256, dtype=torch.int64, device=level.device)
    flat = level.flatten(1)
    count.scatter_add_(1, flat, torch.ones_like(flat))
    lowest = count.gather(1, flat.amin(1, keepdim=True))
    rest = flat.shape[1] - lowest
    scale = torch.full_like(rest, 255).float() / rest.clamp(min=1).float()
    table = ((count.cumsum(1) - lowest).float() * scale).round().clamp(0, 255).long()
    return torch.where(rest > 0, table.gather(1, flat), flat).view_as(level)


def _smooth(planes: Tensor, sigma: float) -> Tensor:
    """Rows, then columns, each kept in the planes' own precision."""
    rows, columns = (smoothing_matrix(size, sigma, device=planes.device) for size in planes.shape[1:])
    half = torch.matmul(rows, planes.double()).to(planes.dtype)
    return torch.matmul(half.double(), columns.T).to(planes.dtype)


def _colour(rgb: tuple[int, int, int], like: Tensor) -> Tensor:
    return torch.tensor([channel / 255 for channel in rgb], dtype=like.dtype, device=like.device)[:, None, None]
