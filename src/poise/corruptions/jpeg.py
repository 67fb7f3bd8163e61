"""JPEG compression without a codec: what libjpeg-turbo loses, in its own integers.

Colours to luma and chroma, chroma halved, 8 x 8 cosine transforms, quantised; and back. Entropy coding loses nothing
and is left out. The transforms are the "islow" ones: 13-bit constants, two extra bits between the passes.

Axes: B images, H rows, W columns, P blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from poise.choices import is_whole
from poise.corruptions.draws import Random
from poise.corruptions.pixels import replicate

_LUMA = """
    16 11 10 16 24 40 51 61   12 12 14 19 26 58 60 55   14 13 16 24 40 57 69 56   14 17 22 29 51 87 80 62
    18 22 37 56 68 109 103 77   24 35 55 64 81 104 113 92   49 64 78 87 103 121 120 101   72 92 95 98 112 100 103 99
"""
_CHROMA = """
    17 18 24 47 99 99 99 99   18 21 26 66 99 99 99 99   24 26 56 99 99 99 99 99   47 66 99 99 99 99 99 99
    99 99 99 99 99 99 99 99   99 99 99 99 99 99 99 99   99 99 99 99 99 99 99 99   99 99 99 99 99 99 99 99
"""


@dataclass(frozen=True)
class Jpeg:
    """Saved and read at this quality (1 to 100), chroma at half the resolution."""

    quality: int

    def __post_init__(self) -> None:
        if not is_whole(self.quality) or self.quality not in range(1, 101):
            raise ValueError(f"quality={self.quality!r} must be from 1 to 100")

    def draw(self, random: Random, images: Tensor) -> tuple[()]:
        return ()

    def apply(self, images: Tensor) -> Tensor:
        height, width = images.shape[2:]
        coarse, fine = self._table(_CHROMA, images.device), self._table(_LUMA, images.device)
        # Columns are repeated to whole blocks before chroma is halved, rows after it.
        luma, blue, red = _to_ycc(_fill(images.int(), height + height % 2, width + -width % 16))
        luma = _lossy(luma, fine)[:, :height, :width]
        rows, columns = (height + 1) // 2, (width + 1) // 2
        blue, red = (
            _double(_lossy(_halve(plane), coarse)[:, :rows, :columns])[:, :height, :width] for plane in (blue, red)
        )
        return _to_rgb(luma, blue, red)

    def _table(self, base: str, device: torch.device) -> Tensor:
        scale = 5000 // self.quality if self.quality < 50 else 200 - 2 * self.quality
        steps = [min(max((int(number) * scale + 50) // 100, 1), 255) for number in base.split()]
        return torch.tensor(steps, dtype=torch.int32, device=device).view(8, 8)


def _fill(planes: Tensor, height: int, width: int) -> Tensor:
    """Repeat the last row and column up to this size."""
    rows = replicate(torch.arange(height, device=planes.device), planes.shape[-2])
    columns = replicate(torch.arange(width, device=planes.device), planes.shape[-1])
    return planes.index_select(-2, rows).index_select(-1, columns)


def _to_ycc(images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    red, green, blue = images.unbind(1)
    return (
        (19595 * red + 38470 * green + 7471 * blue + 32768) >> 16,
        (-11059 * red - 21709 * green + 32768 * blue + 8388608 + 32767) >> 16,
        (32768 * red - 27439 * green - 5329 * blue + 8388608 + 32767) >> 16,
    )


def _to_rgb(luma: Tensor, blue: Tensor, red: Tensor) -> Tensor:
    blue, red = blue - 128, red - 128
    channels = (
        luma + ((91881 * red + 32768) >> 16),
        luma + ((-22554 * blue - 46802 * red + 32768) >> 16),
        luma + ((116130 * blue + 32768) >> 16),
    )
    return torch.stack(channels, dim=1).clamp_(0, 255).to(torch.uint8)


def _halve(plane: Tensor) -> Tensor:
    """The mean of 2 x 2, rounded down and up in turn along a row."""
    pairs = plane[:, :, ::2] + plane[:, :, 1::2]
    bias = torch.arange(pairs.shape[2], device=plane.device, dtype=torch.int32) % 2 + 1
    return (pairs[:, ::2] + pairs[:, 1::2] + bias) >> 2


def _double(plane: Tensor) -> Tensor:
    """Each value three parts of the nearer and one of the farther, down and across ("fancy" upsampling)."""
    above, below = (F.pad(plane.float(), pad, mode="replicate").int() for pad in ((0, 0, 1, 0), (0, 0, 0, 1)))
    rows = torch.stack([3 * plane + above[:, :-1], 3 * plane + below[:, 1:]], dim=2).flatten(1, 2)
    left, right = (F.pad(rows.float(), pad, mode="replicate").int() for pad in ((1, 0, 0, 0), (0, 1, 0, 0)))
    even, odd = (3 * rows + left[:, :, :-1] + 8) >> 4, (3 * rows + right[:, :, 1:] + 7) >> 4
    return torch.stack([even, odd], dim=3).flatten(2)


def _lossy(plane: Tensor, table: Tensor) -> Tensor:
    """Transform, quantise and transform back each 8 x 8 block of [B, H, W]."""
    plane = _fill(plane, plane.shape[1] + -plane.shape[1] % 8, plane.shape[2])
    size, height, width = plane.shape
    blocks = plane.view(size, height // 8, 8, width // 8, 8).transpose(2, 3) - 128
    coefficients = _forward(_forward(blocks, 4, first=True), 3, first=False)
    steps = 8 * table
    quantised = (coefficients.abs() + steps // 2).div(steps, rounding_mode="floor") * coefficients.sign()
    values = _inverse(_inverse(quantised * table, 3, shift=11), 4, shift=18)
    return (values + 128).clamp_(0, 255).transpose(2, 3).reshape(size, height, width)


def _round(x: Tensor, bits: int) -> Tensor:
    return (x + (1 << (bits - 1))) >> bits


def _odd_part(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The rotations that forward and inverse transform share: 13-bit constants of Loeffler, Ligtenberg and Moschytz."""
    all_four = (a + c + b + d) * 9633  # 1.175875602
    outer, inner = (a + d) * -7373, (b + c) * -20995  # 0.899976223, 2.562915447
    first, second = (a + c) * -16069 + all_four, (b + d) * -3196 + all_four  # 1.961570560, 0.390180644
    return (
        a * 2446 + outer + first,  # 0.298631336
        b * 16819 + inner + second,  # 2.053119869
        c * 25172 + inner + first,  # 3.072711026
        d * 12299 + outer + second,  # 1.501321110
    )


def _forward(x: Tensor, axis: int, first: bool) -> Tensor:
    """One pass of the forward transform; the first keeps two bits more, the second gives them back."""
    d = x.unbind(axis)
    sums, differences = [d[i] + d[7 - i] for i in range(4)], [d[i] - d[7 - i] for i in range(4)]
    even, odd = sums[0] + sums[3], sums[1] + sums[2]
    near, far = sums[0] - sums[3], sums[1] - sums[2]
    bits = 11 if first else 15
    turn = (near + far) * 4433  # 0.541196100
    flat = (even + odd, even - odd)
    zero, four = (value << 2 for value in flat) if first else (_round(value, 2) for value in flat)
    two, six = _round(turn + near * 6270, bits), _round(turn - far * 15137, bits)  # 0.765366865, 1.847759065
    seven, five, three, one = (_round(part, bits) for part in _odd_part(*reversed(differences)))
    return torch.stack([zero, one, two, three, four, five, six, seven], dim=axis)


def _inverse(x: Tensor, axis: int, shift: int) -> Tensor:
    """One pass of the inverse transform."""
    c = x.unbind(axis)
    turn = (c[2] + c[6]) * 4433
    low, high = turn - c[6] * 15137, turn + c[2] * 6270
    plus, minus = (c[0] + c[4]) << 13, (c[0] - c[4]) << 13
    even = [plus + high, minus + low, minus - low, plus - high]
    odd = list(reversed(_odd_part(c[7], c[5], c[3], c[1])))
    left = [_round(e + o, shift) for e, o in zip(even, odd, strict=True)]
    right = [_round(e - o, shift) for e, o in zip(even, odd, strict=True)]
    return torch.stack(left + right[::-1], dim=axis)
