"""The digital corruptions except JPEG: brightness, saturation, contrast, pixelate and the elastic transform.

Brightness and saturation change hue, saturation and value, by scikit-image's formulas. Pixelate shrinks with Pillow's
box filter and enlarges by repeating pixels. The elastic transform is a random affine map, then a smooth random
displacement of every pixel.

Axes: B images, H rows, W columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from poise.checks import require_choice
from poise.corruptions.draws import Deterministic, Random
from poise.corruptions.pixels import as_bytes, divided, gather_pixels, reflect, smoothing_matrix, symmetric, unit


@dataclass(frozen=True)
class Brightness(Deterministic):
    """More value."""

    shift: float

    def apply(self, images: Tensor) -> Tensor:
        hue, saturation, value = _to_hsv(unit(images))
        return as_bytes(_to_rgb(hue, saturation, (value + self.shift).clamp_(0, 1)))


@dataclass(frozen=True)
class Saturate(Deterministic):
    """Less or more saturation; with a shift, grey becomes reddish."""

    factor: float
    shift: float

    def apply(self, images: Tensor) -> Tensor:
        hue, saturation, value = _to_hsv(unit(images))
        return as_bytes(_to_rgb(hue, (saturation * self.factor + self.shift).clamp_(0, 1), value))


@dataclass(frozen=True)
class LowContrast(Deterministic):
    """Move every channel towards its mean."""

    factor: float

    def apply(self, images: Tensor) -> Tensor:
        x = unit(images)
        mean = _mean_in_order(x)[:, :, None, None]
        return as_bytes((x - mean).mul_(self.factor).add_(mean))


def _mean_in_order(x: Tensor) -> Tensor:
    """The mean of each channel, pixels added one after the other as numpy does here [B, C].

    In flat images the last bit decides a level. A running sum over the first axis is sequential on every device.
    """
    pixels = x.flatten(2).permute(2, 0, 1).contiguous()
    return divided(pixels.cumsum(0)[-1], len(pixels))


def _to_hsv(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Hue, saturation and value in [0, 1], each [B, H, W]; if two channels are largest, the later one decides."""
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


_ONE = 1 << 22  # Pillow's weights are fixed-point numbers of 22 bits


@dataclass(frozen=True)
class Pixelate(Deterministic):
    """Keep this share of the pixels of each axis."""

    share: float

    def apply(self, images: Tensor) -> Tensor:
        height, width = images.shape[2:]
        small = _shrink(images.double(), int(height * self.share), int(width * self.share)).to(torch.uint8)
        rows, columns = (
            _repeats(*sizes, images.device) for sizes in zip(small.shape[2:], (height, width), strict=True)
        )
        return small.index_select(2, rows).index_select(3, columns)


def _shrink(images: Tensor, height: int, width: int) -> Tensor:
    """Shrink columns first, then rows, and round after each."""
    across = _box_weights(images.shape[3], width, images.device)
    down = _box_weights(images.shape[2], height, images.device)
    return _rounded(torch.matmul(down, _rounded(torch.matmul(images, across.T))))


@lru_cache(64)
def _repeats(size: int, new: int, device: torch.device) -> Tensor:
    """The pixel that the box filter assigns to each output position when it enlarges [new]."""
    return _box_weights(size, new, device).argmax(1)


@lru_cache(64)
def _box_weights(size: int, new: int, device: torch.device) -> Tensor:
    """Equal weights for the pixels whose centre lies in an output pixel, in fixed point [new, size].

    Products and sums of these integers are exact in float64, whatever the order. If a centre lies on the border of two
    output pixels, Pillow's own order of operations decides.
    """
    scale = size / new
    wide = max(scale, 1.0)
    centre = ((torch.arange(new, dtype=torch.float64) + 0.5) * scale)[:, None]
    pixel = torch.arange(size, dtype=torch.float64)
    distance = (pixel - centre + 0.5) * (1 / wide)
    window = (pixel >= (centre - wide / 2 + 0.5).floor()) & (pixel < (centre + wide / 2 + 0.5).floor())
    weights = (window & (distance > -0.5) & (distance <= 0.5)).double()
    return (weights / weights.sum(1, keepdim=True) * _ONE + 0.5).floor().to(device)


def _rounded(total: Tensor) -> Tensor:
    return total.add_(_ONE / 2).div_(_ONE).floor_().clamp_(0, 255)


@dataclass(frozen=True)
class Elastic:
    """Displacements of `strength` smoothed by `sigma`, after an affine map that moves its points by `jitter`, all in
    pixels.

    scipy   the version whose border to use: "1.1" for every SciPy before 1.6, "1.6" since then.
    """

    strength: float
    sigma: float
    jitter: float
    scipy: str = "1.1"

    def __post_init__(self) -> None:
        require_choice("scipy", self.scipy, "1.1", "1.6")

    def draw(self, random: Random, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The (x, y) of three points [B, 3, 2], and displacements to the right and down [B, H, W]."""
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
            taken = gather_pixels(x, reflect(rows + below, height), reflect(columns + beside, width))
            result += taken.mul_((vertical * horizontal)[:, None])
    return result


def _inverse_affine(moved: Tensor, height: int, width: int) -> Tensor:
    """The inverse of the affine map that moves the three points, rows (a, b, c) for x and y [B, 2, 3]."""
    middle = torch.tensor([height // 2, width // 2])  # (x, y): swapped in the reference, whose images are square
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
            taken = gather_pixels(x, rows, border(left.long() + beside, width)).double()
            result += taken.mul_((vertical * horizontal)[:, None])
    return result.to(x.dtype)


def _folded(place: Tensor, size: int) -> Tensor:
    """Coordinates folded into (-1, n) as in SciPy before 1.6, with period 2n.

    Below 0: c + 2n if c < -n, else -c - 1. Above n - 1: 2n - c - 1 if c >= n, else c. Coordinates that remain outside
    [0, n - 1] are interpolated with a neighbour that is reflected without the edge.
    """
    place = place.fmod(2 * size)
    below = torch.where(place < -size, place + 2 * size, -place - 1)
    above = torch.where(place >= size, 2 * size - place - 1, place)
    return torch.where(place < 0, below, above)
