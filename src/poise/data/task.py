"""A task: what is learned, what decides between settings, and what is tested.

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
    """uint8 images, as arrays [N, H, W] or [N, H, W, C] or tensors [N, C, H, W], or int32 word pieces [N, T] (see
    sentences.py), and labels [N]."""

    x: np.ndarray | Tensor
    y: np.ndarray | Tensor

    def __len__(self) -> int:
        return len(self.y)


Make: TypeAlias = (
    "Callable[[torch.device], Examples | Pictures]"  # for the device that will look at them, where that matters
)


@dataclass(frozen=True, eq=False)
class Task:
    """Settings are chosen on `validation`; `tests` are made one by one when they are needed, {score: examples}.

    validation   None where all examples are trained on: the settings were chosen before.
    validations  validation in other guises, with noise say, that settings may be chosen on as well.
    origins      where test sets came from that can be had in more than one way, for the record.
    """

    train: Examples | Pictures
    validation: Examples | None
    tests: dict[str, Make]
    num_classes: int
    validations: dict[str, Make] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
