"""Rows of CIFAR-10 by class, so that training and validation have exact numbers of each class.

Axes: N pictures.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def first_of_each(y: np.ndarray, counts: Sequence[int]) -> np.ndarray:
    """The rows of the first counts[c] pictures of each class c, in the order of the set."""
    return np.sort(np.concatenate([_rows(y, label, count)[:count] for label, count in enumerate(counts)]))


def last_of_each(y: np.ndarray, classes: int, count: int) -> np.ndarray:
    """The rows of the last `count` pictures of each class, in the order of the set."""
    return np.sort(np.concatenate([_rows(y, label, count)[-count:] for label in range(classes)]))


def _rows(y: np.ndarray, label: int, count: int) -> np.ndarray:
    rows = np.flatnonzero(y == label)
    if len(rows) < count:
        raise ValueError(f"there are {len(rows)} pictures of class {label}, {count} are needed")
    return rows
