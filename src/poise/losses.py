"""Losses: one number per example.

Any callable (logits [B, L], y) → [B] is a loss. It is per example because utility is (Definition 1), and the batch is
averaged by the objective. CrossEntropy is the paper's, with the minus sign that its text drops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class ExampleLoss(Protocol):
    def __call__(self, logits: Tensor, y: Tensor, /) -> Tensor: ...


@dataclass(frozen=True)
class CrossEntropy:
    """- log softmax(logits)[y], per example, in float32 or better; y holds classes [B] or probabilities [B, L]."""

    label_smoothing: float = 0.0

    def __call__(self, logits: Tensor, y: Tensor, /) -> Tensor:
        if logits.dtype in (torch.float16, torch.bfloat16):
            logits = logits.float()
        if y.is_floating_point():
            return F.cross_entropy(logits, y, reduction="none", label_smoothing=self.label_smoothing)
        inside = _known_classes(y, logits.shape[-1])
        losses = F.cross_entropy(logits, y.where(inside, 0), reduction="none", label_smoothing=self.label_smoothing)
        return losses.where(inside, torch.nan)


def _known_classes(y: Tensor, num_classes: int) -> Tensor:
    """Where y is a class. On the CPU an unknown class raises; elsewhere, where looking would stall the device and
    torch would kill its context, the example's loss becomes NaN."""
    inside = (y >= 0) & (y < num_classes)
    if y.device.type == "cpu" and not torch.compiler.is_compiling() and not inside.all():
        raise ValueError(f"label {y[~inside][0].item()} is out of range: the model has {num_classes} classes")
    return inside
