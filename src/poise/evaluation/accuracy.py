"""Accuracy on a test set, class by class, and on pairs of twins.

Axes: N images or sentences, T positions, L classes.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from poise.classifier import both_classes, evaluating
from poise.data.loading.resident import as_read
from poise.tokens import Input, device_of


def count_right(
    model: nn.Module,
    rows: Input,
    labels: Tensor,
    num_classes: int,
    batch_size: int = 2000,
    bfloat16: bool = False,
    part: int = 0,
    parts: int = 1,
) -> Tensor:
    """The number of correct predictions and of examples in each class [L, 2], on the CPU.

    rows  uint8 images [N, C, H, W] or Tokens [N, T], on the model's device; labels [N]. The model is left unchanged.
    part  one of `parts` parts: every parts-th batch, starting at this one. Batches are those of the whole set, with a
          shorter last one, so that the counts of all parts add up exactly.
    """
    starts = range(part * batch_size, len(labels), parts * batch_size)
    batches = ((rows[start : start + batch_size], labels[start : start + batch_size]) for start in starts)
    return count_batches(model, batches, labels.device, num_classes, bfloat16)


def pair_accuracy(model: nn.Module, rows: Input, labels: Tensor, twins: Tensor, batch_size: int = 2000) -> float:
    """The share of pairs, rows twins [P, 2], of which both are right.

    Twins differ in the detail that decides their class. A model that ignores it has at most one of them right; one
    that guesses has both right by chance squared.
    """
    parts = []
    with evaluating(model), torch.inference_mode():
        for start in range(0, len(labels), batch_size):
            x = as_read(rows[start : start + batch_size])
            parts.append(both_classes(model(x)).argmax(1) == labels[start : start + batch_size])
    return float(torch.cat(parts)[twins].all(1).float().mean())


def count_batches(
    model: nn.Module,
    batches: Iterable[tuple[Input, Tensor]],
    device: torch.device,
    num_classes: int,
    bfloat16: bool = False,
) -> Tensor:
    """The same [L, 2] for a set that arrives in batches, on the model's device."""
    counts = torch.zeros(2, num_classes, dtype=torch.int64, device=device)
    with evaluating(model), torch.inference_mode():
        for rows, y in batches:
            x = as_read(rows)
            with torch.autocast(device_of(x).type, torch.bfloat16, enabled=bfloat16):
                right = both_classes(model(x)).argmax(1) == y
            # bincount and y[right] would synchronise with the device at every batch.
            counts[0].index_add_(0, y, right.long())
            counts[1].index_add_(0, y, torch.ones_like(y))
    return counts.T.cpu()
