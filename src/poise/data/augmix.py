"""AugMix (Hendrycks et al. 2020): an image mixed with the results of a few short chains of simple operations.

    mixed = (1 - m) x + m (w_1 chain_1(x) + ... + w_K chain_K(x)),   m ~ U(0, 1),   w ~ Dirichlet(1, ..., 1)

A chain has 1 to `depth` operations, each drawn from nine with its own strength: autocontrast, equalize, posterize,
rotate, solarize, shear x, shear y, translate x, translate y. None of them is one of the tested corruptions.

The operations equal Pillow's, for batches in which every image has its own settings:

    geometry   result(x, y) = image(a x + b y + c, d x + e y + f) at the centres of pixels, bilinear, black outside
    levels     autocontrast, equalize, posterize, solarize: a table with a new level for each of the 256 of a channel

Their inputs and outputs are floats with integer levels from 0 to 255.

Axes: B images, K chains, C channels, H rows, W columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from poise.checks import require_number, require_whole
from poise.data.augment import layout_of, require_levels

OPERATIONS = (
    *("autocontrast", "equalize", "posterize", "rotate", "solarize"),
    *("shear_x", "shear_y", "translate_x", "translate_y"),
)
_WEAKEST, _STRONGEST = 0.1, 10.0  # range of strengths


@dataclass(frozen=True)
class AugMix:
    """`width` chains of 1 to `depth` operations with strengths up to `severity`. The defaults are those for CIFAR."""

    severity: float = 3.0
    width: int = 3
    depth: int = 3

    def __post_init__(self) -> None:
        require_number("severity", self.severity, least=_WEAKEST, most=_STRONGEST)
        require_whole("width", self.width, least=1)
        require_whole("depth", self.depth, least=1)

    def __call__(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """x [B, C, H, W] in [0, 1] → the same shape."""
        require_levels(x)
        # Always in float32: half precision would round to wrong levels.
        chains = (255 * x.float()).round().clamp(0, 255).contiguous().repeat(self.width, 1, 1, 1)  # [K B, C, H, W]
        depth = torch.randint(1, self.depth + 1, (len(chains),), device=x.device, generator=generator)
        for step in range(self.depth):
            drawn = torch.randint(len(OPERATIONS), depth.shape, device=x.device, generator=generator)
            strength = _uniform(depth, generator) * (self.severity - _WEAKEST) + _WEAKEST
            sign = 1 - 2 * torch.randint(2, depth.shape, device=x.device, generator=generator)
            chains = operate(chains, drawn.where(step < depth, -1), strength, sign)
        return mixture(x, chains.view(self.width, *x.shape), 255, generator)


def mixture(x: Tensor, ends: Tensor, white: float, generator: torch.Generator | None) -> Tensor:
    """(1 - m) x + m (w_1 end_1 + ... + w_K end_K), for ends of chains [K, B, C, H, W] whose white is not 1."""
    shares = torch.empty(len(ends), len(x), 1, 1, 1, device=x.device).exponential_(generator=generator)
    mixed = (shares / shares.sum(0) * ends).sum(0) / white
    much = torch.rand(len(x), 1, 1, 1, device=x.device, generator=generator)
    return torch.lerp(x, mixed.to(x.dtype), much.to(x.dtype)).contiguous(memory_format=layout_of(x))


def operate(images: Tensor, drawn: Tensor, strength: Tensor, sign: Tensor) -> Tensor:
    """Apply one operation to each image: its index in OPERATIONS, -1 for none; strength in [0.1, 10], sign +1 or -1.

    images [B, C, H, W] with integer levels 0 to 255; drawn, strength, sign [B].
    """
    height, width = images.shape[2:]
    part = strength / _STRONGEST

    def only(name: str, value: Tensor) -> Tensor:
        return value.where(drawn == OPERATIONS.index(name), 0)

    moved = affine(
        height,
        width,
        degrees=only("rotate", sign * (30 * part).floor()),
        shear_x=only("shear_x", sign * 0.3 * part),
        shear_y=only("shear_y", sign * 0.3 * part),
        translate_x=only("translate_x", sign * (width / 3 * part).floor()),
        translate_y=only("translate_y", sign * (height / 3 * part).floor()),
    )
    tables = {
        "autocontrast": autocontrast(images),
        "equalize": equalize(images),
        "posterize": posterize(images, 4 - (4 * part).floor()),
        "solarize": solarize(images, 256 - (256 * part).floor()),
    }
    table = unchanged(images)
    for name, other in tables.items():
        table = other.where((drawn == OPERATIONS.index(name))[:, None, None], table)
    return through(warp(images, moved), table)


def affine(
    height: int,
    width: int,
    *,
    degrees: Tensor,
    shear_x: Tensor,
    shear_y: Tensor,
    translate_x: Tensor,
    translate_y: Tensor,
) -> Tensor:
    """(a, b, c, d, e, f) [B, 6] of a rotation about the centre, a shear or a translation, each [B], 0 for none."""
    angle = -torch.deg2rad(degrees.double())
    cosine, sine = angle.cos(), angle.sin()
    x, y = width / 2, height / 2
    first = [cosine, sine + shear_x, x - cosine * x - sine * y + translate_x]
    second = [shear_y - sine, cosine, y + sine * x - cosine * y + translate_y]
    return torch.stack([*first, *second], dim=1)


def warp(images: Tensor, matrices: Tensor) -> Tensor:
    """images [B, C, H, W], matrices [B, 6] → the same shape; levels are truncated to integers, as in Pillow."""
    height, width = images.shape[2:]
    place = torch.arange(height * width, device=images.device)
    x, y = place % width + 0.5, place // width + 0.5
    a, b, c, d, e, f = matrices.double()[:, :, None].unbind(1)  # [B, 1] each
    across, down = a * x + b * y + c, d * x + e * y + f  # [B, H W]
    inside = (across >= 0) & (across < width) & (down >= 0) & (down < height)
    left, top = (across - 0.5).floor(), (down - 0.5).floor()
    right_part, lower_part = ((across - 0.5 - left).float()[:, None], (down - 0.5 - top).float()[:, None])
    flat = images.flatten(2)

    def at(column: Tensor, row: Tensor) -> Tensor:
        index = (row.clamp(0, height - 1) * width + column.clamp(0, width - 1)).long()
        return flat.gather(2, index[:, None].expand_as(flat))

    upper = torch.lerp(at(left, top), at(left + 1, top), right_part)
    lower = torch.lerp(at(left, top + 1), at(left + 1, top + 1), right_part)
    return torch.lerp(upper, lower, lower_part).floor().where(inside[:, None], 0).view_as(images)


def through(images: Tensor, table: Tensor) -> Tensor:
    """Replace every level by its entry in a table [B, C, 256]."""
    return table.gather(2, images.long().flatten(2)).view_as(images)


def unchanged(images: Tensor) -> Tensor:
    """The identity table [B, C, 256]."""
    return _levels(images).expand(*images.shape[:2], 256)


def autocontrast(images: Tensor) -> Tensor:
    """The table that maps the darkest level of a channel to 0 and the brightest to 255."""
    low, high = images.amin((2, 3))[..., None].double(), images.amax((2, 3))[..., None].double()
    scale = torch.full_like(low, 255) / (high - low)  # 255 / tensor would be 255 times a rounded inverse
    stretched = (_levels(images).double() * scale - low * scale).trunc().clamp(0, 255)
    return stretched.to(images.dtype).where(high > low, _levels(images))


def equalize(images: Tensor) -> Tensor:
    """The table that makes the levels of a channel about equally frequent."""
    counts = torch.zeros(*images.shape[:2], 256, dtype=torch.int64, device=images.device)
    levels = images.long().flatten(2)
    counts.scatter_add_(2, levels, torch.ones_like(levels))
    brightest = counts.gather(2, levels.amax(2, keepdim=True))
    step = (levels.shape[2] - brightest) // 255
    below = counts.cumsum(2) - counts
    even = ((step // 2 + below) // step.clamp(min=1)).clamp(max=255)
    return even.to(images.dtype).where(step > 0, _levels(images))


def posterize(images: Tensor, bits: Tensor) -> Tensor:
    """The table that keeps only the highest bits of a level, bits [B]."""
    size = 2.0 ** (8 - bits[:, None, None])
    return ((_levels(images) / size).floor() * size).expand(-1, images.shape[1], -1)


def solarize(images: Tensor, threshold: Tensor) -> Tensor:
    """The table that inverts levels from a threshold on, threshold [B]."""
    levels = _levels(images)
    return levels.where(levels < threshold[:, None, None], 255 - levels).expand(-1, images.shape[1], -1)


def _levels(images: Tensor) -> Tensor:
    return torch.arange(256, device=images.device, dtype=images.dtype)


def _uniform(like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.rand(like.shape, device=like.device, generator=generator)
