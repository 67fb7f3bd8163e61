"""3x3 convolutions of few channels, in Triton: stride 1, a border of zeros, channels last.

    out[n, y, x, k] = sum over dy, dx, c of  in[n, y + dy - 1, x + dx - 1, c] * w[k, dy, dx, c]

A row of a tile is a pair of neighbours on a line, so that a tensor core has 2K columns to fill instead of K. For each
dy the pair sees four pixels, which lie side by side in memory, and is their product with the line's taps:

    [R, 4C] @ [4C, 2K],    taps[(p, c), (q, k)] = w[k, dy, p - q, c], and 0 where p - q is not one of 0, 1, 2

A tile is R pairs on the same line of their pictures, and a program goes down the lines: what it reads of one is
multiplied by three lines of taps, for the output above, here and below, and not read again.

Axes: R pairs of pixels, of all columns of pairs in the batch; C channels that are read, K channels that are written.
"""

# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-def, untyped-decorator"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_PAIRS = 64  # of a tile
_PROGRAMS = 132  # that share the gradient of the weights: one for each processor of an H200


def convolved(x: Tensor, w: Tensor, back: bool = False) -> Tensor:
    """x [N, C, H, W] by w [K, C, 3, 3]; `back`: x is the gradient of what came out, w [C, K, 3, 3]."""
    n, c, height, width = x.shape
    k = w.shape[1] if back else w.shape[0]
    shape = (n, k, height, width)
    out = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    columns, lines = n * width // 2, 8 if c > 16 else 16
    grid = (triton.cdiv(columns, _PAIRS), triton.cdiv(height, lines))
    _convolve[grid](x, w, out, columns, height, width, c, k, back, _PAIRS, lines, num_warps=4, num_stages=3)
    return out


def correlated(x: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of w [K, C, 3, 3] in float32; for the input x [N, C, H, W] and
    the gradient of the output [N, K, H, W].

    Programs add up a share of the tiles each, and their sums are added in one order: the same every time.
    """
    n, c, height, width = x.shape
    k, columns = gradient.shape[1], n * width // 2
    tile = min(128, 2048 // c)
    count = triton.cdiv(columns, tile) * height
    tiles = triton.cdiv(count, _PROGRAMS)
    programs = triton.cdiv(count, tiles)
    sums = x.new_empty((2 * programs, k, 3, 3, c), dtype=torch.float32)
    _correlate[(programs,)](x, gradient, sums, columns, tiles, height, width, c, k, tile, num_warps=4, num_stages=3)
    out = x.new_empty((k, 3, 3, c), dtype=torch.float32)
    size = out.numel()
    _add[(triton.cdiv(size, 32),)](sums, out, 2 * programs, size, num_warps=4)
    return out.permute(0, 3, 1, 2)


@triton.jit
def _places(column, y, height: tl.constexpr, width: tl.constexpr):
    """Of the first pixels of pairs [R], counted through the batch."""
    return (column // (width // 2) * height + y) * width + 2 * (column % (width // 2))


@triton.jit
def _inside(column, columns, y, first, height: tl.constexpr):
    """[R, 1]: whether there is such a pair, on a line from `first` on."""
    line = tl.zeros_like(column) + y
    return ((column < columns) & (line >= first) & (line < height))[:, None]


@triton.jit
def _seen(x, column, columns, y, height: tl.constexpr, width: tl.constexpr, c: tl.constexpr):
    """The four pixels [R, 4C] that pairs see on a line."""
    place = tl.arange(0, 4 * c)[None, :]
    across = 2 * (column % (width // 2))[:, None] + place // c - 1
    inside = (across >= 0) & (across < width) & _inside(column, columns, y, 0, height)
    return tl.load(x + (_places(column, y, height, width) - 1)[:, None] * c + place, mask=inside, other=0.0)


@triton.jit
def _pairs(gradient, column, columns, y, height: tl.constexpr, width: tl.constexpr, k: tl.constexpr):
    """Pairs [R, 2K] on a line."""
    where = _places(column, y, height, width)[:, None] * k + tl.arange(0, 2 * k)[None, :]
    return tl.load(gradient + where, mask=_inside(column, columns, y, 0, height), other=0.0)


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
    columns,
    height: tl.constexpr,
    width: tl.constexpr,
    c: tl.constexpr,
    k: tl.constexpr,
    back: tl.constexpr,
    tile: tl.constexpr,
    lines: tl.constexpr,
):
    above = _taps(w, 0, c, k, back).to(x.dtype.element_ty)
    here = _taps(w, 1, c, k, back).to(x.dtype.element_ty)
    below = _taps(w, 2, c, k, back).to(x.dtype.element_ty)
    column = tl.program_id(0) * tile + tl.arange(0, tile)
    first = tl.program_id(1) * lines
    last = tl.zeros((tile, 2 * k), tl.float32)  # the line that is complete with this one
    this = tl.zeros((tile, 2 * k), tl.float32)
    for y in range(first - 1, first + lines + 1):
        seen = _seen(x, column, columns, y, height, width, c)
        last = tl.dot(seen, below, last)
        where = _places(column, y - 1, height, width)[:, None] * k + tl.arange(0, 2 * k)[None, :]
        tl.store(out + where, last.to(out.dtype.element_ty), mask=_inside(column, columns, y - 1, first, height))
        last = tl.dot(seen, here, this)
        this = tl.dot(seen, above)


@triton.jit
def _correlate(
    x,
    gradient,
    sums,
    columns,
    tiles,
    height: tl.constexpr,
    width: tl.constexpr,
    c: tl.constexpr,
    k: tl.constexpr,
    tile: tl.constexpr,
):
    program = tl.program_id(0)
    above = tl.zeros((4 * c, 2 * k), tl.float32)
    here = tl.zeros((4 * c, 2 * k), tl.float32)
    below = tl.zeros((4 * c, 2 * k), tl.float32)
    for number in range(program * tiles, (program + 1) * tiles):
        column, y = number // height * tile + tl.arange(0, tile), number % height
        seen = tl.trans(_seen(x, column, columns, y, height, width, c))
        above = tl.dot(seen, _pairs(gradient, column, columns, y + 1, height, width, k), above)
        here = tl.dot(seen, _pairs(gradient, column, columns, y, height, width, k), here)
        below = tl.dot(seen, _pairs(gradient, column, columns, y - 1, height, width, k), below)
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


@triton.jit
def _add(sums, out, count, size):
    """The sum [size] of the rows of sums [count, size]."""
    place, row = tl.program_id(0) * 32 + tl.arange(0, 32)[None, :], tl.arange(0, 32)[:, None]
    total = tl.zeros((32, 32), tl.float32)
    for first in range(0, count, 32):
        there = (first + row < count) & (place < size)
        total += tl.load(sums + (first + row) * size + place, mask=there, other=0.0)
    whole = tl.program_id(0) * 32 + tl.arange(0, 32)
    tl.store(out + whole, tl.sum(total, 0), mask=whole < size)
