"""JPEG compression without a codec: the loss of libjpeg, in its own integer arithmetic.

Converts colours to luma and chroma, applies cosine transforms, quantises, and inverts these steps. Entropy coding is
lossless and is left out. Chroma has half the resolution, which the two families of libraries compute differently:

    9c      IJG's libjpeg 9a to 9d: transforms a 16 x 16 block of chroma and keeps its lowest 8 x 8 coefficients; the
            inverse gives 16 x 16 values. CIFAR-10-C was made with it.
    turbo   libjpeg-turbo, like libjpeg 6b: transforms means of 2 x 2, and interpolates after the inverse.

A pass of the integer ("islow") transforms along one axis, however it is factored, is a matrix of integers T and one
rounding, y = floor((T x + 2^(bits - 1)) / 2^bits). So are the colours. All products and sums are below 2^53, and so
exact in float64: neither the order of sums nor the device changes the result.

Axes: B planes, H rows, W columns, n a block's side, h and w blocks in a column and in a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from poise.checks import is_whole, require_choice
from poise.corruptions.draws import Deterministic
from poise.corruptions.pixels import replicate

_LUMA = """
    16 11 10 16 24 40 51 61   12 12 14 19 26 58 60 55   14 13 16 24 40 57 69 56   14 17 22 29 51 87 80 62
    18 22 37 56 68 109 103 77   24 35 55 64 81 104 113 92   49 64 78 87 103 121 120 101   72 92 95 98 112 100 103 99
"""
_CHROMA = """
    17 18 24 47 99 99 99 99   18 21 26 66 99 99 99 99   24 26 56 99 99 99 99 99   47 66 99 99 99 99 99 99
    99 99 99 99 99 99 99 99   99 99 99 99 99 99 99 99   99 99 99 99 99 99 99 99   99 99 99 99 99 99 99 99
"""

# 2^13 sqrt(2) cos(k (2 j + 1) pi / 2n) for k = 0..7 and the first half of j; the other half mirrors it with the sign
# (-1)^k. Entries differ from the nearest integer by one where libjpeg computes them from several rounded constants.
_EIGHT = """
    8192 8192 8192 8192      11363 9633 6437 2260     10703 4433 -4433 -10703   9633 -2259 -11362 -6436
    8192 -8192 -8192 8192    6437 -11362 2261 9633    4433 -10704 10704 -4433   2260 -6436 9633 -11363
"""
_SIXTEEN = """
    8192 8192 8192 8192 8192 8192 8192 8192               11529 11086 10217 8956 7350 5461 3363 1135
    11363 9633 6436 2260 -2260 -6436 -9633 -11363         11086 7350 1136 -5461 -10217 -11529 -8956 -3363
    10703 4433 -4433 -10703 -10703 -4433 4433 10703       10217 1136 -8955 -11086 -3363 7350 11529 5461
    9633 -2260 -11363 -6437 6437 11363 2260 -9633         8956 -5461 -11086 1137 11530 3363 -10217 -7350
"""
_SIXTEEN_BACK = """
    8192 8192 8192 8192 8192 8192 8192 8192               11529 11086 10217 8956 7350 5461 3363 1136
    11363 9633 6437 2260 -2260 -6437 -9633 -11363         11086 7350 1136 -5461 -10217 -11529 -8955 -3363
    10703 4433 -4433 -10703 -10703 -4433 4433 10703       10217 1136 -8955 -11086 -3363 7349 11529 5461
    9632 -2260 -11363 -6436 6436 11363 2260 -9632         8956 -5461 -11086 1137 11529 3363 -10217 -7350
"""

# Red, green and blue to luma and chroma, in 16 bits, and the bias added before rounding. Luma and chroma are kept
# centred, in [-128, 127]. The inverse differs in green by one: 0.344136286 in IJG's library, 0.34414 in the other.
_TO_YCC = (19595, 38470, 7471, -11059, -21709, 32768, 32768, -27439, -5329)
_YCC_BIAS = (32768 - (128 << 16), 32767, 32767)
_TO_RGB = {
    "9c": (65536, 0, 91881, 65536, -22553, -46802, 65536, 116130, 0),
    "turbo": (65536, 0, 91881, 65536, -22554, -46802, 65536, 116130, 0),
}
_RGB_BIAS = (32768 + (128 << 16),) * 3


@dataclass(frozen=True)
class Jpeg(Deterministic):
    """Saved and read at this quality (1 to 100), chroma at half the resolution, by libjpeg "9c" or libjpeg-"turbo"."""

    quality: int
    libjpeg: str = "9c"

    def __post_init__(self) -> None:
        if not is_whole(self.quality) or self.quality not in range(1, 101):
            raise ValueError(f"quality={self.quality!r} must be from 1 to 100")
        require_choice("libjpeg", self.libjpeg, "9c", "turbo")

    def apply(self, images: Tensor) -> Tensor:
        height, width = images.shape[2:]
        lossy = self._lossy_9c if self.libjpeg == "9c" else self._lossy_turbo
        planes = lossy(images)[:, :, :height, :width]
        rgb = _recoloured(planes, _TO_RGB[self.libjpeg], _RGB_BIAS)
        return rgb.clamp_(0, 255).to(torch.uint8)

    def _lossy_9c(self, images: Tensor) -> Tensor:
        """Repeat rows and columns to fill blocks of 16; chroma uses 16 x 16 transforms."""
        height, width = images.shape[2:]
        planes = _recoloured(_fill(images, height + -height % 16, width + -width % 16), _TO_YCC, _YCC_BIAS)
        luma = _lossy(planes[:, :1], _table(_LUMA, self.quality, images.device), 8)
        chroma = _lossy(planes[:, 1:], _table(_CHROMA, self.quality, images.device), 16)
        return torch.cat([luma, chroma], dim=1)

    def _lossy_turbo(self, images: Tensor) -> Tensor:
        """Repeat columns to fill blocks before chroma is halved, and rows after it."""
        height, width = images.shape[2:]
        rows, columns = (height + 1) // 2, (width + 1) // 2
        planes = _recoloured(_fill(images, 2 * rows, width + -width % 16), _TO_YCC, _YCC_BIAS)
        luma, chroma = planes[:, :1], _halve(planes[:, 1:])
        luma, chroma = (_fill(x, x.shape[2] + -x.shape[2] % 8, x.shape[3]) for x in (luma, chroma))
        luma = _lossy(luma, _table(_LUMA, self.quality, images.device), 8)
        chroma = _double(_lossy(chroma, _table(_CHROMA, self.quality, images.device), 8)[:, :, :rows, :columns])
        return torch.cat([luma[:, :, :height, :width], chroma[:, :, :height, :width]], dim=1)


@cache
def _table(base: str, quality: int, device: torch.device) -> Tensor:
    """The quantisation steps of the coefficients [8, 1, 8]."""
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    steps = [min(max((int(number) * scale + 50) // 100, 1), 255) for number in base.split()]
    return torch.tensor(steps, dtype=torch.float64, device=device).view(8, 1, 8)


@cache
def _transform(half: str, device: torch.device) -> Tensor:
    """All columns of a transform [8, n]."""
    left = torch.tensor([float(number) for number in half.split()], dtype=torch.float64).view(8, -1)
    sign = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(4)[:, None]
    return torch.cat([left, sign * left.flip(1)], dim=1).to(device)


def _fill(planes: Tensor, height: int, width: int) -> Tensor:
    """Repeat the last row and column up to this size."""
    if planes.shape[2:] == (height, width):
        return planes
    rows = replicate(torch.arange(height, device=planes.device), planes.shape[-2])
    columns = replicate(torch.arange(width, device=planes.device), planes.shape[-1])
    return planes.index_select(-2, rows).index_select(-1, columns)


def _recoloured(planes: Tensor, weights: tuple[int, ...], bias: tuple[int, int, int]) -> Tensor:
    """floor((weights x + bias) / 2^16) over the three planes of an image."""
    first, second, third = planes.double().unbind(1)
    result = torch.empty(planes.shape, dtype=torch.float64, device=planes.device)
    for number, out in enumerate(result.unbind(1)):
        a, b, c = (weight / 65536 for weight in weights[3 * number : 3 * number + 3])
        torch.mul(first, a, out=out)
        out.add_(second, alpha=b).add_(third, alpha=c).add_(bias[number] / 65536)
    return result.floor_()


def _halve(planes: Tensor) -> Tensor:
    """The mean of 2 x 2, rounded down and up alternately along a row."""
    pairs = planes[..., ::2] + planes[..., 1::2]
    bias = torch.arange(pairs.shape[-1], device=planes.device) % 2 + 1
    return (pairs[:, :, ::2] + pairs[:, :, 1::2] + bias).mul_(1 / 4).floor_()


def _double(planes: Tensor) -> Tensor:
    """Each value three parts of the nearer and one of the farther, down and across ("fancy" upsampling)."""
    above, below = (F.pad(planes, pad, mode="replicate") for pad in ((0, 0, 1, 0), (0, 0, 0, 1)))
    rows = torch.stack([3 * planes + above[:, :, :-1], 3 * planes + below[:, :, 1:]], dim=3).flatten(2, 3)
    left, right = (F.pad(rows, pad, mode="replicate") for pad in ((1, 0, 0, 0), (0, 1, 0, 0)))
    even, odd = 3 * rows + left[..., :-1] + 8, 3 * rows + right[..., 1:] + 7
    return torch.stack([even, odd], dim=4).flatten(3).mul_(1 / 16).floor_()


def _lossy(planes: Tensor, table: Tensor, side: int) -> Tensor:
    """Transform, quantise and invert each block of this side, with 8 coefficients per axis."""
    forward = _transform(_EIGHT if side == 8 else _SIXTEEN, planes.device)
    inverse = _transform(_EIGHT if side == 8 else _SIXTEEN_BACK, planes.device)
    across = planes.shape[-1] // side
    # Rows and then columns; inverse, columns and then rows. Two more bits are kept in between.
    rows = _rounded(torch.matmul(planes.reshape(-1, side), forward.T), 11)
    blocks = _rounded(torch.matmul(forward, rows.view(-1, side, 8 * across)), 15 if side == 8 else 17)
    blocks = _quantised(blocks.view(-1, 8, across, 8), table).view(-1, 8, 8 * across)
    rows = _rounded(torch.matmul(inverse.T, blocks), 11)
    values = _rounded(torch.matmul(rows.view(-1, 8), inverse), 18)
    # Beyond 10 bits libjpeg's own limit wraps; images made to overshoot at quality 1 reach two thirds of that.
    return values.clamp_(-128, 127).view(planes.shape)


def _rounded(x: Tensor, bits: int) -> Tensor:
    """floor((x + 2^(bits - 1)) / 2^bits)"""
    return x.mul_(0.5**bits).add_(0.5).floor_()


def _quantised(blocks: Tensor, table: Tensor) -> Tensor:
    """Round coefficients, eight times too large, to the nearest multiple of their step; halves away from zero.

    The added quarter moves every integer away from the boundaries of the division, so that rounding cannot change it.
    """
    shift = blocks.sign().mul_(4 * table + 0.25)
    return shift.add_(blocks).div_(8 * table).trunc_().mul_(table)
