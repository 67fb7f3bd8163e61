"""Spatter: drops of water or mud on the lens.

Includes the edges and the distance to them, computed as in OpenCV: Canny with the L1 norm, and the 5 x 5 chamfer
distance.

Axes: B images, H rows, W columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor

from poise.corruptions.draws import Random
from poise.corruptions.pixels import as_bytes, correlate, divided, replicate, smoothing_matrix, unit

# Steps of the chamfer distance, as in OpenCV: 1, 1.4 and 2.1969 in 16-bit fixed point.
_STRAIGHT, _DIAGONAL, _KNIGHT, _UNIT = 65536, 91750, 143976, 65536.0
_TANGENT = 13573  # tan(22.5 degrees) in 15-bit fixed point


def canny(images: Tensor, low: int, high: int) -> Tensor:
    """Edges of byte images, True on an edge [B, H, W]."""
    gx, gy = _sobel(images.int())
    strength = gx.abs() + gy.abs()
    weak = (strength > low) & _is_ridge(strength, gx, gy)
    return _connected(weak & (strength > high), weak)


def chamfer_distance(edges: Tensor, farthest: int) -> Tensor:
    """The length of the shortest path to an edge, at most `farthest` [B, H, W]."""
    far = farthest * _STRAIGHT
    distance = torch.where(edges, 0, far).int()
    for _ in range(farthest):
        shorter = _relax(distance, far)
        if torch.equal(shorter, distance):
            break
        distance = shorter
    return distance.double().div_(_UNIT).float()


def _sobel(images: Tensor) -> tuple[Tensor, Tensor]:
    height, width = images.shape[1:]
    rows = replicate(torch.arange(-1, height + 1, device=images.device), height)
    columns = replicate(torch.arange(-1, width + 1, device=images.device), width)
    padded = images.index_select(1, rows).index_select(2, columns)
    across = padded[:, :, 2:] - padded[:, :, :-2]
    down = padded[:, 2:] - padded[:, :-2]
    gx = across[:, :-2] + 2 * across[:, 1:-1] + across[:, 2:]
    gy = down[:, :, :-2] + 2 * down[:, :, 1:-1] + down[:, :, 2:]
    return gx, gy


def _is_ridge(strength: Tensor, gx: Tensor, gy: Tensor) -> Tensor:
    """Stronger than both neighbours along the gradient, in one of four directions; the outside counts as 0."""
    near = _Neighbours(strength, 1, 0)
    wide, tall = gx.abs().long() * _TANGENT, gy.abs().long() << 15
    horizontal = tall < wide
    vertical = tall > wide + (gx.abs().long() << 16)
    falling = (gx ^ gy) >= 0
    across = (strength > near(0, -1)) & (strength >= near(0, 1))
    along = (strength > near(-1, 0)) & (strength >= near(1, 0))
    down = (strength > near(-1, -1)) & (strength > near(1, 1))
    up = (strength > near(-1, 1)) & (strength > near(1, -1))
    diagonal = torch.where(falling, down, up)
    return torch.where(horizontal, across, torch.where(vertical, along, diagonal))


def _connected(strong: Tensor, weak: Tensor) -> Tensor:
    """The weak pixels that are connected to a strong one through weak neighbours."""
    found = strong
    while True:
        grown = (F.max_pool2d(found.float(), 3, stride=1, padding=1) > 0) & weak
        if torch.equal(grown, found):
            return found
        found = grown


def _relax(distance: Tensor, far: int) -> Tensor:
    """The distance by the best of the 16 steps."""
    near = _Neighbours(distance, 2, far)
    best = distance
    for square, step in ((1, _STRAIGHT), (2, _DIAGONAL), (5, _KNIGHT)):
        moves = [(i, j) for i in range(-2, 3) for j in range(-2, 3) if i * i + j * j == square]
        nearest = reduce(torch.minimum, (near(down, right) for down, right in moves))
        best = torch.minimum(best, nearest + step)
    return best


class _Neighbours:
    """A batch of planes, shifted by a number of pixels, with a constant beyond the border."""

    def __init__(self, planes: Tensor, reach: int, beyond: int) -> None:
        self._height, self._width = planes.shape[1:]
        self._reach = reach
        self._padded = F.pad(planes, (reach,) * 4, value=beyond)

    def __call__(self, down: int, right: int) -> Tensor:
        top, left = self._reach + down, self._reach + right
        return self._padded[:, top : top + self._height, left : left + self._width]


_WATER, _MUD = (175, 238, 238), (63, 42, 20)
_RELIEF = ((-2, -1, 0), (-1, 1, 1), (0, 1, 2))


@dataclass(frozen=True)
class Spatter:
    """A smoothed random layer, kept above a threshold: water glistens at the edges of its drops, mud is opaque."""

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
    """The highlights of drops: the relief of the distance to their edges, 0 to 255 [B, H, W]."""
    distance = chamfer_distance(canny(drops, 50, 150), 20)
    level = divided(_box_sum(distance), 9).float().long()
    shine = correlate(_equalize(level)[:, None].double(), _RELIEF).clamp_(0, 255)[:, 0]
    return divided(_box_sum(shine), 9).round_().float()


def _box_sum(planes: Tensor) -> Tensor:
    return correlate(planes[:, None].double(), ((1, 1, 1),) * 3)[:, 0]


def _equalize(level: Tensor) -> Tensor:
    """Histogram equalisation as in OpenCV, for each plane; a plane with a single level is unchanged."""
    count = torch.zeros(len(level), 256, dtype=torch.int64, device=level.device)
    flat = level.flatten(1)
    count.scatter_add_(1, flat, torch.ones_like(flat))
    lowest = count.gather(1, flat.amin(1, keepdim=True))
    rest = flat.shape[1] - lowest
    scale = torch.full_like(rest, 255).float() / rest.clamp(min=1).float()
    table = ((count.cumsum(1) - lowest).float() * scale).round().clamp(0, 255).long()
    return torch.where(rest > 0, table.gather(1, flat), flat).view_as(level)


def _smooth(planes: Tensor, sigma: float) -> Tensor:
    """Smooth rows, then columns, each in the precision of the planes."""
    rows, columns = (smoothing_matrix(size, sigma, device=planes.device) for size in planes.shape[1:])
    half = torch.matmul(rows, planes.double()).to(planes.dtype)
    return torch.matmul(half.double(), columns.T).to(planes.dtype)


def _colour(rgb: tuple[int, int, int], like: Tensor) -> Tensor:
    return torch.tensor([channel / 255 for channel in rgb], dtype=like.dtype, device=like.device)[:, None, None]
