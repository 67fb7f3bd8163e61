"""Rare classes: how often each class occurs, and batches in which all classes are as frequent.

    balanced   P(example i) = 1 / (L * count of its class),   drawn with replacement

Axes: N examples, L classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, WeightedRandomSampler

from poise.checks import require_several, require_whole


def class_counts(labels: Any, num_classes: int | None = None) -> tuple[int, ...]:
    """The number of examples of each class, for `poise.LogitAdjusted`.

    labels       classes [N]: a tensor, an array or a list; or a DataLoader, which is read once. Its batches are pairs
                 of inputs and labels, or mappings with "labels" or "label".
    num_classes  by default one more than the highest label. A class without examples counts 0.

    >>> class_counts([0, 2, 2, 1, 2])
    (1, 1, 3)
    """
    found = _read(labels) if isinstance(labels, DataLoader) else _as_labels(labels)
    highest = int(found.max())
    if num_classes is not None:
        require_whole("num_classes", num_classes, least=1)
        if highest >= num_classes:
            raise ValueError(f"label {highest} is out of range: num_classes={num_classes}")
    return tuple(found.bincount(minlength=num_classes or 0).tolist())


def balanced_sampler(
    labels: Any, count: int | None = None, generator: torch.Generator | None = None
) -> WeightedRandomSampler:
    """A sampler for DataLoader(data, sampler=...) that draws every class equally often, with replacement.

    labels  classes [N] of the examples, in their order.
    count   the examples of an epoch; by default N.

    Batches already balanced need no LogitAdjusted: choose one of the two.
    """
    found = _as_labels(labels)
    if count is not None:
        require_whole("count", count, least=1)
    weights = 1.0 / found.bincount().double()[found]
    return WeightedRandomSampler(weights.tolist(), len(found) if count is None else count, generator=generator)


def _read(loader: Iterable[Any]) -> Tensor:
    """The labels of all batches; torch's random state, which a loader draws from, is restored."""
    with torch.random.fork_rng(devices=()):
        parts = [_as_labels(_labels_of(batch)) for batch in loader]
    if not parts:
        raise ValueError("labels is a DataLoader without batches")
    return torch.cat(parts)


def _labels_of(batch: Any) -> Any:
    if isinstance(batch, Mapping):
        for name in ("labels", "label"):
            if name in batch:
                return batch[name]
    elif isinstance(batch, tuple | list) and len(batch) > 1:
        return batch[1]
    raise TypeError(
        "labels is a DataLoader whose batches are not pairs of inputs and labels: pass the labels themselves"
    )


def _as_labels(labels: Any) -> Tensor:
    """[N] on the CPU; raise unless they are whole numbers of 0 or more."""
    if not isinstance(labels, Tensor):
        require_several("labels", labels)
        try:
            labels = torch.as_tensor(labels if hasattr(labels, "dtype") else list(labels))
        except (TypeError, ValueError, RuntimeError):
            raise TypeError("labels must be whole numbers [N], or a DataLoader") from None
    if labels.ndim != 1 or labels.is_floating_point() or labels.is_complex() or not len(labels):
        raise ValueError(f"labels must be whole numbers [N], at least one, got {labels.dtype} {list(labels.shape)}")
    found: Tensor = labels.detach().cpu().long()
    if (lowest := int(found.min())) < 0:
        raise ValueError(f"label {lowest} is out of range: labels must be whole numbers of 0 or more")
    return found
