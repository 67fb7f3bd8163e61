"""Operations on pictures as Pillow does them, for batches in which every picture has its own settings.

    geometry   result(x, y) = picture(a x + b y + c, d x + e y + f) at the centres of pixels, bilinear, black outside
    levels     autocontrast, equalize, posterize, solarize: a table with a new level for each of the 256 of a channel

Pictures are floats that hold whole levels from 0 to 255, before and after.

Axes: B pictures, C channels, H rows, W columns.
"""

from __future__ import annotations

import torch
from torch import Tensor


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
    """(a, b, c, d, e, f) [B, 6] of a rotation about the centre, a shear or a shift, each [B], 0 for none of it."""
    angle = -torch.deg2rad(degrees.double())
    cosine, sine = angle.cos(), angle.sin()
    x, y = width / 2, height / 2
    first = [cosine, sine + shear_x, x - cosine * x - sine * y + translate_x]
    second = [shear_y - sine, cosine, y + sine * x - cosine * y + translate_y]
    return torch.stack([*first, *second], dim=1)


def warp(images: Tensor, matrices: Tensor) -> Tensor:
    """images [B, C, H, W], matrices [B, 6] → the same shape; levels are cut to whole ones, as Pillow cuts them."""
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
    """Every level by its new one: table [B, C, 256]."""
    return table.gather(2, images.long().flatten(2)).view_as(images)


def unchanged(images: Tensor) -> Tensor:
    """The table that changes nothing [B, C, 256]."""
    return _levels(images).expand(*images.shape[:2], 256)


def autocontrast(images: Tensor) -> Tensor:
    """The darkest level of a channel becomes 0, the brightest 255."""
    low, high = images.amin((2, 3))[..., None].double(), images.amax((2, 3))[..., None].double()
    scale = torch.full_like(low, 255) / (high - low)  # 255 / tensor would be 255 times a rounded inverse
    stretched = (_levels(images).double() * scale - low * scale).trunc().clamp(0, 255)
    return stretched.to(images.dtype).where(high > low, _levels(images))


def equalize(images: Tensor) -> Tensor:
    """Every level of a channel becomes about as frequent."""
    counts = torch.zeros(*images.shape[:2], 256, dtype=torch.int64, device=images.device)
    levels = images.long().flatten(2)
    counts.scatter_add_(2, levels, torch.ones_like(levels))
    brightest = counts.gather(2, levels.amax(2, keepdim=True))
    step = (levels.shape[2] - brightest) // 255
    below = counts.cumsum(2) - counts
    even = ((step // 2 + below) // step.clamp(min=1)).clamp(max=255)
    return even.to(images.dtype).where(step > 0, _levels(images))


def posterize(images: Tensor, bits: Tensor) -> Tensor:
    """Only the highest bits of a level stay, bits [B]."""
    size = 2.0 ** (8 - bits[:, None, None])
    return ((_levels(images) / size).floor() * size).expand(-1, images.shape[1], -1)


def solarize(images: Tensor, threshold: Tensor) -> Tensor:
    """Levels from a threshold on are inverted, threshold [B]."""
    levels = _levels(images)
    return levels.where(levels < threshold[:, None, None], 255 - levels).expand(-1, images.shape[1], -1)


def _levels(images: Tensor) -> Tensor:
    return torch.arange(256, device=images.device, dtype=images.dtype)
