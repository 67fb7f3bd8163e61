"""A task: what is learned, what decides between settings, and what is tested.

Axes: N images or sentences, H rows, W columns, C channels, T positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, eq=False)
class Examples:
    """uint8 images [N, H, W] or [N, H, W, C], or int32 word pieces [N, T] (see sentences.py), and labels [N]."""

    x: np.ndarray
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, eq=False)
class Task:
    """Settings are chosen on `validation`; `tests` are made one by one when they are needed, {score: examples}.

    validations  validation in other guises, with noise say, that settings may be chosen on as well.
    """

    train: Examples
    validation: Examples
    tests: dict[str, Callable[[], Examples]]
    num_classes: int
    validations: dict[str, Callable[[], Examples]] = field(default_factory=dict)
