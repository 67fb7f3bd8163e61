"""XE: the classification loss alone, the paper's first baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from poise.checks import require_part
from poise.classifier import Classifier, run
from poise.losses import CrossEntropy, ExampleLoss
from poise.objectives.objective import Loss, check_step, plain
from poise.tokens import Input


@dataclass(frozen=True)
class XE:
    """total = mean of the examples' losses."""

    loss: ExampleLoss = CrossEntropy()

    def __post_init__(self) -> None:
        require_part("loss", self.loss)

    def __call__(
        self,
        model: Classifier,
        x: Input,
        y: Tensor,
        step: int | None = None,
        *,
        generator: torch.Generator | None = None,
        scaler: Any = None,
        given: Tensor | None = None,
    ) -> Loss:
        check_step(step)
        return plain(run(model, x, y, self.loss))
