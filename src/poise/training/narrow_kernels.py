"""3x3 convolutions of few channels, in Triton: stride 1, a border of zeros, channels last.

    out[n, y, x, k] = sum over dy, dx, c of  in[n, y + dy - 1, x + dx - 1, c] * w[k, dy, dx, c]

A row of a tile is a pair of neighbours on a line, so that a tensor core has 2K columns to fill instead of K. For each
dy the pair sees four pixels, which lie side by side in memory, and is their product with the line's taps:

    [R, 4C] @ [4C, 2K],    taps[(p, c), (q, k)] = w[k, dy, p - q, c], and 0 where p - q is not one of 0, 1, 2

Axes: R pairs of pixels of the whole batch, C channels that are read, K channels that are written.
"""

# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-def, untyped-decorator"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_PAIRS = 64  # of a tile
_TILES = 16  # one after the other in a program, which reads the weights once
_PROGRAMS = 132  # that share the gradient of the weights: one for each processor of an H200


def convolved(x: Tensor, w: Tensor, back: bool = False) -> Tensor:
    """x [N, C, H, W] by w [K, C, 3, 3]; `back`: x is the gradient of what came out, w [C, K, 3, 3]."""
    n, c, height, width = x.shape
    k = w.shape[1] if back else w.shape[0]
    shape = (n, k, height, width)
    out = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    pairs = n * height * width // 2
    grid = (triton.cdiv(pairs, _PAIRS * _TILES),)
    _convolve[grid](x, w, out, pairs, height, width, c, k, back, _PAIRS, _TILES, num_warps=4, num_stages=3)
    return out


def weight_gradient(x: Tensor, gradient: Tensor) -> Tensor:
    """Of w [K, C, 3, 3] in float32; x [N, C, H, W] was read, `gradient` [N, K, H, W] is that of what came out.

    Programs add up a share of the pairs each, and their sums are added in one order: the same every time.
    """
    n, c, height, width = x.shape
    k, pairs = gradient.shape[1], n * height * width // 2
    tile = 2048 // c
    tiles = triton.cdiv(pairs, tile * _PROGRAMS)
    programs = triton.cdiv(pairs, tile * tiles)
    sums = x.new_empty((programs * 2, k, 3, 3, c), dtype=torch.float32)
    _correlate[(programs,)](x, gradient, sums, pairs, height, width, c, k, tile, tiles, num_warps=4, num_stages=3)
    return sums.sum(0).permute(0, 3, 1, 2)


@triton.jit
def _seen(x, pair, dy: tl.constexpr, pairs, height: tl.constexpr, width: tl.constexpr, c: tl.constexpr):
    """The four pixels [R, 4C] that pairs see on the line dy."""
    place = tl.arange(0, 4 * c)[None, :]
    line = (pair // (width // 2)) % height + dy - 1
    column = 2 * (pair % (width // 2))[:, None] + place // c - 1
    inside = (column >= 0) & (column < width) & ((line >= 0) & (line < height) & (pair < pairs))[:, None]
    return tl.load(x + (2 * pair + (dy - 1) * width - 1)[:, None] * c + place, mask=inside, other=0.0)


@triton.jit
def _taps(w, dy: tl.constexpr, c: tl.constexpr, k: tl.constexpr, back: tl.constexpr):
    """[4C, 2K]; `back`: of the convolution turned round, with w [C, 3, 3, K] in memory."""
    place, channel = tl.arange(0, 4 * c)[:, None], tl.arange(0, 2 * k)[None, :]
    dx = place // c - channel // k
    if back:
        where = (place % c) * (9 * k) + (8 - 3 * dy - dx) * k + channel % k
    else:
        where = (channel % k) * (9 * c) + (3 * dy + dx) * c + place % c
    return tl.load(w + where, mask=(dx >= 0) & (dx <= 2), other=0.0)


@triton.jit
def _convolve(
    x,
    w,
    out,
    pairs,
    height: tl.constexpr,
    width: tl.constexpr,
    c: tl.constexpr,
    k: tl.constexpr,
    back: tl.constexpr,
    tile: tl.constexpr,
    tiles: tl.constexpr,
):
    above = _taps(w, 0, c, k, back).to(x.dtype.element_ty)
    here = _taps(w, 1, c, k, back).to(x.dtype.element_ty)
    below = _taps(w, 2, c, k, back).to(x.dtype.element_ty)
    first = tl.program_id(0) * tile * tiles
    for number in range(tiles):
        pair = first + number * tile + tl.arange(0, tile)
        both = tl.dot(_seen(x, pair, 0, pairs, height, width, c), above)
        both = tl.dot(_seen(x, pair, 1, pairs, height, width, c), here, both)
        both = tl.dot(_seen(x, pair, 2, pairs, height, width, c), below, both)
        where = pair[:, None] * (2 * k) + tl.arange(0, 2 * k)[None, :]
        tl.store(out + where, both.to(out.dtype.element_ty), mask=(pair < pairs)[:, None])


@triton.jit
def _correlate(
    x,
    gradient,
    sums,
    pairs,
    height: tl.constexpr,
    width: tl.constexpr,
    c: tl.constexpr,
    k: tl.constexpr,
    tile: tl.constexpr,
    tiles: tl.constexpr,
):
    program = tl.program_id(0)
    above = tl.zeros((4 * c, 2 * k), tl.float32)
    here = tl.zeros((4 * c, 2 * k), tl.float32)
    below = tl.zeros((4 * c, 2 * k), tl.float32)
    for number in range(tiles):
        pair = (program * tiles + number) * tile + tl.arange(0, tile)
        where = pair[:, None] * (2 * k) + tl.arange(0, 2 * k)[None, :]
        both = tl.load(gradient + where, mask=(pair < pairs)[:, None], other=0.0)
        above = tl.dot(tl.trans(_seen(x, pair, 0, pairs, height, width, c)), both, above)
        here = tl.dot(tl.trans(_seen(x, pair, 1, pairs, height, width, c)), both, here)
        below = tl.dot(tl.trans(_seen(x, pair, 2, pairs, height, width, c)), both, below)
    _write(sums, above, program, 0, c, k)
    _write(sums, here, program, 1, c, k)
    _write(sums, below, program, 2, c, k)


@triton.jit
def _write(sums, line, program, dy: tl.constexpr, c: tl.constexpr, k: tl.constexpr):
    """A line's taps [4C, 2K] into sums [2 * programs, K, 3, 3, C]: those of each neighbour of the pair apart."""
    place, channel = tl.arange(0, 4 * c)[:, None], tl.arange(0, 2 * k)[None, :]
    dx = place // c - channel // k
    row = (program * 2 + channel // k) * k + channel % k
    tl.store(sums + row * (9 * c) + (3 * dy + dx) * c + place % c, line, mask=(dx >= 0) & (dx <= 2))
