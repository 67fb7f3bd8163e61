"""The fourteen operations of RandAugment and TrivialAugment, as Pillow has them, for batches of images.

    geometry   shears, translations and rotations: the nearest pixel, black outside; a shear by m moves row y by m y
    blends     brightness, color, contrast, sharpness: other + (1 + m) (x - other), with black, the image's grey, its
               mean grey and the smoothed image as the other
    levels     posterize to m bits, solarize from m on, autocontrast and equalize

Every image has its own operation and magnitude. Inputs and outputs are floats with integer levels from 0 to 255.

Axes: B images, C channels, H rows, W columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from poise.data.augmix import affine, autocontrast, equalize, posterize, solarize, through, unchanged

FOURTEEN = (
    *("identity", "shear_x", "shear_y", "translate_x", "translate_y", "rotate"),
    *("brightness", "color", "contrast", "sharpness", "posterize", "solarize", "autocontrast", "equalize"),
)
_BLENDS = ("brightness", "color", "contrast", "sharpness")
_ONE = 1 << 16  # Pillow's coordinates are fixed-point numbers of 16 bits


def magnitudes(most: Mapping[str, float], lost_bits: int, bins: int, device: torch.device) -> Tensor:
    """The magnitude of every operation and bin [14, bins]: evenly spaced from 0 to `most`, which is signed later.

    posterize keeps 8 to 8 - lost_bits bits, solarize has thresholds from 255 down to 0.
    """
    return _table(tuple(most.items()), lost_bits, bins, device)


@lru_cache(64)
def _table(most: tuple[tuple[str, float], ...], lost_bits: int, bins: int, device: torch.device) -> Tensor:
    with torch.inference_mode(False):
        table = torch.zeros(len(FOURTEEN), bins)
        for name, value in most:
            table[FOURTEEN.index(name)] = torch.linspace(0, value, bins)
        table[FOURTEEN.index("posterize")] = 8 - (torch.arange(bins) / ((bins - 1) / lost_bits)).round()
        table[FOURTEEN.index("solarize")] = torch.linspace(255, 0, bins)
        return table.double().to(device)


def directed(magnitude: Tensor, drawn: Tensor, negative: Tensor) -> Tensor:
    """The magnitudes with half of the signs turned, for the operations that have a direction, all [B]."""
    aimed = (drawn >= FOURTEEN.index("shear_x")) & (drawn <= FOURTEEN.index("sharpness"))
    return torch.where(aimed & negative, -magnitude, magnitude)


def apply_each(images: Tensor, drawn: Tensor, magnitude: Tensor) -> Tensor:
    """Apply one operation to each image: its index in FOURTEEN and its signed magnitude, both [B]."""
    height, width = images.shape[2:]

    def only(name: str) -> Tensor:
        return magnitude.where(drawn == FOURTEEN.index(name), 0)

    moved = affine(
        height,
        width,
        degrees=only("rotate"),
        shear_x=only("shear_x"),
        shear_y=only("shear_y"),
        translate_x=-only("translate_x").trunc(),
        translate_y=-only("translate_y").trunc(),
    )
    tables = {
        "posterize": posterize(images, only("posterize")),
        "solarize": solarize(images, only("solarize")),
        "autocontrast": autocontrast(images),
        "equalize": equalize(images),
    }
    table = unchanged(images)
    for name, other in tables.items():
        table = other.to(table.dtype).where((drawn == FOURTEEN.index(name))[:, None, None], table)
    return _blended(through(nearest(images, moved), table), drawn, magnitude)


def nearest(images: Tensor, matrices: Tensor) -> Tensor:
    """images [B, C, H, W] at the pixels nearest to the places of matrices [B, 6] → the same shape."""
    height, width = images.shape[2:]
    place = torch.arange(height * width, device=images.device)
    x, y = place % width, place // width
    a, b, c, d, e, f = matrices.double().unbind(1)
    across, down = (
        _fixed(part)[:, None] * x + _fixed(other)[:, None] * y + _fixed(shift + 0.5 * part + 0.5 * other)[:, None]
        for part, other, shift in ((a, b, c), (d, e, f))
    )
    column, row = across >> 16, down >> 16
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    index = row.clamp(0, height - 1) * width + column.clamp(0, width - 1)
    flat = images.flatten(2)
    return flat.gather(2, index[:, None].expand_as(flat)).where(inside[:, None], 0).view_as(images)


def _fixed(number: Tensor) -> Tensor:
    return (number * _ONE + 0.5).floor().long()


def _blended(images: Tensor, drawn: Tensor, magnitude: Tensor) -> Tensor:
    """Brightness, color, contrast or sharpness of the images that drew one of them."""
    grey = grey_of(images)
    mean = (grey.mean((2, 3), keepdim=True, dtype=torch.float64) + 0.5).floor().to(images.dtype)
    others = {"brightness": torch.zeros_like(mean), "color": grey, "contrast": mean, "sharpness": smoothed(images)}
    other = images
    for name in _BLENDS:
        other = others[name].where((drawn == FOURTEEN.index(name))[:, None, None, None], other)
    factor = (1 + magnitude).to(torch.float32)[:, None, None, None]
    return (other + factor * (images - other)).clamp(0, 255).trunc()


def grey_of(images: Tensor) -> Tensor:
    """The luma of red, green and blue, rounded [B, 1, H, W]; one channel is grey already."""
    if images.shape[1] == 1:
        return images
    if images.shape[1] != 3:
        raise ValueError(f"images must have 1 or 3 channels for their grey, got {list(images.shape)}")
    red, green, blue = images.int().unbind(1)
    grey: Tensor = (red * 19595 + green * 38470 + blue * 7471 + (1 << 15)) >> 16
    return grey[:, None].to(images.dtype)


def smoothed(images: Tensor) -> Tensor:
    """The mean of a pixel, five times, and its eight neighbours, rounded; the border stays."""
    if min(images.shape[2:]) < 3:
        return images
    total = (F.avg_pool2d(images, 3, 1) * 9).round() + 4 * images[:, :, 1:-1, 1:-1]
    result = images.clone()
    result[:, :, 1:-1, 1:-1] = (total / 13).round()  # 13 is odd: there are no ties
    return result
