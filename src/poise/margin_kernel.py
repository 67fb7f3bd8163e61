"""Cross-entropy from the margin in one Triton kernel, which reads a row of logits once and writes its loss and slopes.

    m = log sum_{c != y} exp(f_c) - f_y,   loss = log(1 + e^m),   slopes_c = s(m) exp(f_c) / sum_{d != y} exp(f_d)

with s(m) = 1 / (1 + e^-m), and slopes_y = -s(m). As separate operations these are nine small kernels, which take longer
than a step of a small network can hide.

Axes: B examples, L classes.
"""

# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-def, untyped-decorator"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def losses_and_slopes(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """logits [B, L] in float32 or float64, classes y [B, 1] → losses [B], slopes [B, L]."""
    logits, y = logits.contiguous(), y.contiguous()
    losses, slopes = logits.new_empty(len(logits)), torch.empty_like(logits)
    classes = logits.shape[1]
    width = triton.next_power_of_2(classes)
    _of_a_row[(len(logits),)](logits, y, losses, slopes, classes, width, num_warps=1 if width <= 128 else 4)
    return losses, slopes


@triton.jit
def _of_a_row(logits, y, losses, slopes, classes, width: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, width)
    f = tl.load(logits + row * classes + c, mask=c < classes, other=-float("inf"))
    own = c == tl.load(y + row)
    others = tl.where(own, -float("inf"), f)
    top = tl.max(others, 0)
    top = tl.where(top == -float("inf"), 0.0, top)  # if all others are excluded, their sum is 0
    e = tl.exp(others - top)
    total = tl.sum(e, 0)
    margin = top + tl.log(total) - tl.sum(tl.where(own, f, 0.0), 0)
    u = tl.exp(-tl.abs(margin))  # in [0, 1]
    wrong = tl.where(margin < 0, u, 1.0) / (1.0 + u)
    near_1 = 1.0 + u
    rest = tl.where(near_1 == 1.0, u, tl.log(near_1) * (u / tl.where(near_1 == 1.0, 1.0, near_1 - 1.0)))  # log(1 + u)
    tl.store(losses + row, tl.where(margin > 0, margin, 0.0) + rest)
    share = tl.where(total > 0, e / tl.where(total > 0, total, 1.0), e)
    tl.store(slopes + row * classes + c, tl.where(own, -wrong, wrong * share), mask=c < classes)
