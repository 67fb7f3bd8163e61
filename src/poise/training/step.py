"""TrainStep: a model and its objective as one module, the thing to wrap in DistributedDataParallel.

An objective runs the model several times and takes a gradient in between. Inside one forward of a wrapped TrainStep,
all of that is one pass to DDP:

    step = DistributedDataParallel(TrainStep(model, objective))
    step(x, y, number).total.backward()
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from poise.choices import require_part
from poise.objectives.objective import Loss, Objective
from poise.tokens import Input


class TrainStep(nn.Module):
    """objective(model, ...) as the forward of one module."""

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"model={model!r} must be a torch.nn.Module, not a {type(model).__name__}")
        require_part("objective", objective)
        super().__init__()
        self.model = model
        self.objective = objective

    def forward(self, x: Input, y: Tensor, step: int | None = None, **options: Any) -> Loss:
        """The objective's loss; `options` are its generator, scaler and given."""
        return self.objective(self.model, x, y, step, **options)  # type: ignore[arg-type]


def over_processes(step: TrainStep) -> nn.Module:
    """A step wrapped in DDP, whose buckets are settled: the same after every start.

    DDP lays its buckets out once more after its first backward pass, in the order in which the gradients came. What
    more than two processes add up depends on that layout in the last bit, so a run that goes on would end beside one
    that never stopped. Here the first pass is over before a run begins: it touches every weight, in the order of the
    model, and changes none.
    """

    def touch() -> Any:
        return sum(each.sum() for each in step.parameters() if each.requires_grad)

    wrapped = nn.parallel.DistributedDataParallel(step)
    step.forward = touch  # type: ignore[method-assign, assignment]
    wrapped().backward()
    del step.forward
    step.zero_grad(set_to_none=True)
    return wrapped
