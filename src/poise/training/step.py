"""TrainStep: a model and its objective as one module, the thing to wrap in DistributedDataParallel.

An objective runs the model several times and takes a gradient in between. Inside one forward of a wrapped TrainStep,
all of that is one pass to DDP:

    step = DistributedDataParallel(TrainStep(model, objective))
    step(x, y, number).total.backward()
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from poise.objectives.objective import Loss, Objective
from poise.tokens import Input


class TrainStep(nn.Module):
    """objective(model, ...) as the forward of one module."""

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model = model
        self.objective = objective

    def forward(self, x: Input, y: Tensor, step: int = 0, **options: Any) -> Loss:
        """The objective's loss; `options` are its generator, scaler and given."""
        return self.objective(self.model, x, y, step, **options)  # type: ignore[arg-type]
