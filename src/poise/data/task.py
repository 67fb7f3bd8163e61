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

    def __len__(self) -> int:
        return len(self.y)


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
