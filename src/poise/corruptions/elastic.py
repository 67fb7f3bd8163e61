"""Elastic transform: a random affine map, then a smooth random displacement of every pixel.

Axes: B images, H rows, W columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from poise.choices import require_choice
from poise.corruptions.draws import Random
from poise.corruptions.filters import smoothing_matrix
from poise.corruptions.pixels import as_bytes, divided, gather, reflect, symmetric, unit


@dataclass(frozen=True)
class Elastic:
    """In pixels: displacements of `strength` smoothed by `sigma`, after an affine map whose points move by `jitter`.

    scipy   whose border: "1.1" as in every SciPy before 1.6, "1.6" as since then.
    """

    strength: float
    sigma: float
    jitter: float
    scipy: str = "1.1"

    def __post_init__(self) -> None:
        require_choice("scipy", self.scipy, "1.1", "1.6")

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Three points' (x, y) [B, 3, 2], displacements to the right and down [B, H, W]."""
        plane = images.shape[2:]
        return random.uniform(3, 2), random.uniform(*plane), random.uniform(*plane)

    def apply(self, images: Tensor, points: Tensor, right: Tensor, down: Tensor) -> Tensor:
        x = _warp(unit(images, torch.float32), (-self.jitter + 2 * self.jitter * points).float())
        return as_bytes(_displace(x, self._displacement(down), self._displacement(right), self.scipy))

    def _displacement(self, noise: Tensor) -> Tensor:
        height, width = noise.shape[1:]
        rows, columns = (smoothing_matrix(size, self.sigma, 3, symmetric, noise.device) for size in (height, width))
        return (torch.matmul(torch.matmul(rows, -1 + 2 * noise), columns.T) * self.strength).float()


def _warp(x: Tensor, moved: Tensor) -> Tensor:
    """OpenCV's bilinear warp: coordinates rounded to 1/32 pixel, reflected without the edge."""
    height, width = x.shape[2:]
    inverse = _inverse_affine(moved, height, width)
    row = torch.arange(height, dtype=torch.float64, device=x.device)[:, None]
    column = torch.arange(width, dtype=torch.float64, device=x.device)
    places = []
    for coefficients in inverse.unbind(1):
        a, b, c = coefficients[:, :, None, None].unbind(1)
        place = ((b * row + c) * 1024).round().long() + 16 + (a * column * 1024).round().long()
        places.append(place >> 5)
    columns, rows = places
    right, down = ((part & 31).float() / 32 for part in (columns, rows))
    columns, rows = columns >> 5, rows >> 5
    result = torch.zeros_like(x)
    for below, vertical in ((0, 1 - down), (1, down)):
        for beside, horizontal in ((0, 1 - right), (1, right)):
            taken = gather(x, reflect(rows + below, height), reflect(columns + beside, width))
            result += taken.mul_((vertical * horizontal)[:, None])
    return result


def _inverse_affine(moved: Tensor, height: int, width: int) -> Tensor:
    """The inverse of the map that moves three points so, rows (a, b, c) for x and y [B, 2, 3]."""
    middle = torch.tensor([height // 2, width // 2])  # (x, y): crossed in the reference, where all images are square
    third = min(height, width) // 3
    corners = torch.tensor([[1, 1], [1, -1], [-1, -1]]) * third + middle
    points = (corners.to(moved) + moved).double()  # float32 sums, as in the reference
    along_x = divided(points[:, 1] - points[:, 2], 2 * third)
    along_y = divided(points[:, 0] - points[:, 1], 2 * third)
    shift = points[:, 2] - along_x * float(corners[2, 0]) - along_y * float(corners[2, 1])
    (a, d), (b, e), (c, f) = along_x.unbind(1), along_y.unbind(1), shift.unbind(1)
    scale = 1 / (a * e - b * d)
    a, b, d, e = e * scale, -b * scale, -d * scale, a * scale
    rows = (torch.stack([a, b, -a * c - b * f], dim=1), torch.stack([d, e, -d * c - e * f], dim=1))
    return torch.stack(rows, dim=1)


def _displace(x: Tensor, down: Tensor, right: Tensor, scipy: str) -> Tensor:
    """SciPy's bilinear sampling, reflected with the edge; double weights, stored in x's precision."""
    height, width = x.shape[2:]
    row = torch.arange(height, device=x.device)[:, None] + down.double()
    column = torch.arange(width, device=x.device) + right.double()
    border = symmetric
    if scipy == "1.1":
        row, column, border = _folded(row, height), _folded(column, width), reflect
    top, left = row.floor(), column.floor()
    result = torch.zeros(x.shape, dtype=torch.float64, device=x.device)
    for below, vertical in ((0, 1 - (row - top)), (1, row - top)):
        rows = border(top.long() + below, height)
        for beside, horizontal in ((0, 1 - (column - left)), (1, column - left)):
            taken = gather(x, rows, border(left.long() + beside, width)).double()
            result += taken.mul_((vertical * horizontal)[:, None])
    return result.to(x.dtype)


def _folded(place: Tensor, size: int) -> Tensor:
    """Coordinates brought into (-1, n) as SciPy before 1.6 did, with period 2n.

    Below 0: c + 2n if c < -n, else -c - 1. Above n - 1: 2n - c - 1 if c >= n, else c. What then still lies outside of
    [0, n - 1] is interpolated with a neighbour that is reflected without the edge.
    """
    place = place.fmod(2 * size)
    below = torch.where(place < -size, place + 2 * size, -place - 1)
    above = torch.where(place >= size, 2 * size - place - 1, place)
    return torch.where(place < 0, below, above)
