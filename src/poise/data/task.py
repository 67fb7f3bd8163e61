"""Tasks: training examples, a validation set to choose settings, and test sets.

Axes: N images or sentences, H rows, W columns, C channels, T positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from poise.data.loading.streamed import Pictures


@dataclass(frozen=True, eq=False)
class Examples:
    """Examples x with labels y [N].

    x  uint8 images, as arrays [N, H, W] or [N, H, W, C] or tensors [N, C, H, W], or int32 word pieces [N, T] (see
       sentences.py).
    """

    x: np.ndarray | Tensor
    y: np.ndarray | Tensor

    def __post_init__(self) -> None:
        x, y = _described(self.x), _described(self.y)
        images, words = self.x.ndim in (3, 4) and "uint8" in x, self.x.ndim == 2 and "int32" in x
        if not images and not words:
            raise ValueError(
                f"x is {x}: give uint8 images [N, H, W] or [N, H, W, C] (0 to 255), or int32 word pieces [N, T]"
            )
        if self.y.ndim != 1 or "int" not in y:
            raise ValueError(f"y is {y}: give one whole number per example [N]")
        if len(self.x) != len(self.y):
            raise ValueError(f"y has {len(self.y)} labels for {len(self.x)} examples")

    def __len__(self) -> int:
        return len(self.y)


def _described(values: np.ndarray | Tensor) -> str:
    return f"{str(values.dtype).removeprefix('torch.')} {list(values.shape)}"


Make: TypeAlias = "Callable[[torch.device], Examples | Pictures]"  # makes a set for the device that tests it


@dataclass(frozen=True, eq=False)
class Task:
    """What to train on and what to test.

    validation   the set on which settings are chosen; None if all examples are used for training.
    tests        {score: function that makes the test set}; each set is made when it is needed.
    validations  variants of the validation set, with noise for example, that may also be used to choose settings.
    origins      for the record: the sources of test sets that have more than one.
    """

    train: Examples | Pictures
    validation: Examples | None
    tests: dict[str, Make]
    num_classes: int
    validations: dict[str, Make] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, examples in (("train", self.train), ("validation", self.validation)):
            if isinstance(examples, Examples):
                require_labels(name, examples, self.num_classes)


def require_labels(name: str, examples: Examples, num_classes: int) -> None:
    """Raise ValueError unless all labels are below the number of classes."""
    if len(examples) and not 0 <= int(examples.y.min()) <= int(examples.y.max()) < num_classes:
        low, high = int(examples.y.min()), int(examples.y.max())
        raise ValueError(f"{name} has labels from {low} to {high}: number the {num_classes} classes from 0")
