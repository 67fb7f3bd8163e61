"""The plan of a training run: epochs, batch size, optimizer, learning rate and precision."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol, TypeAlias

import torch
from torch import nn

from poise.checks import require_choice
from poise.schedules import Schedule

Precision: TypeAlias = Literal["float32", "bfloat16"]
Decays: TypeAlias = Literal["all", "kernels"]


class Optimizer(Protocol):
    """The settings of an optimizer; the plan sets the learning rate at every step."""

    def __call__(self, parameters: Iterable[nn.Parameter], device: torch.device) -> torch.optim.Optimizer: ...


@dataclass(frozen=True, repr=False)
class SGD:
    """Stochastic gradient descent.

    decays  the weights that weight decay acts on: "all", or "kernels", those with two axes or more: of convolutions and
            linear layers, but not biases or the scales and shifts of batch norms.
    """

    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 0.0
    decays: Decays = "all"

    def __post_init__(self) -> None:
        require_choice("decays", self.decays, "all", "kernels")

    def __repr__(self) -> str:
        return _repr(self, {"decays": self.decays != "all"})

    def __call__(self, parameters: Iterable[nn.Parameter], device: torch.device) -> torch.optim.Optimizer:
        decayed: list[nn.Parameter] = []
        free: list[nn.Parameter] = []
        for parameter in parameters:
            (decayed if self.decays == "all" or axes_of(parameter) > 1 else free).append(parameter)
        groups = ({"params": decayed}, {"params": free, "weight_decay": 0.0})
        return torch.optim.SGD(
            [group for group in groups if group["params"]],
            momentum=self.momentum,
            nesterov=self.nesterov,
            weight_decay=self.weight_decay,
            **_rate(device, capturable=False),
        )


@dataclass(frozen=True)
class Adam:
    """Adam; a weight decay is decoupled, as in AdamW."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0

    def __call__(self, parameters: Iterable[nn.Parameter], device: torch.device) -> torch.optim.Optimizer:
        return torch.optim.AdamW(
            parameters,
            betas=self.betas,
            eps=self.eps,
            weight_decay=self.weight_decay,
            **_rate(device, capturable=True),
        )


@dataclass(frozen=True, repr=False)
class Plan:
    """Epochs over the data in batches of `batch_size`, summed over all processes; the rate is a function of the step.

    compile  use torch.compile on a GPU: compiling takes a minute, which pays off in runs of more than a few minutes.
    average  the decay of an average of the weights over the steps, which is validated and tested; None: no average.
    sync_batch_norm  synchronise batch norm over all processes, so that several train like one; each pass then waits for
             all of them. Does nothing in a single process.
    """

    epochs: int
    batch_size: int
    optimizer: Optimizer
    learning_rate: Schedule
    precision: Precision = "float32"
    compile: bool = False
    average: float | None = None
    sync_batch_norm: bool = False

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1:
            raise ValueError(f"epochs={self.epochs} and batch_size={self.batch_size} must be at least 1")
        if self.average is not None and not 0 <= self.average < 1:
            raise ValueError(f"average={self.average} must lie in [0, 1)")
        require_choice("precision", self.precision, "float32", "bfloat16")

    def __repr__(self) -> str:
        return _repr(self, {"average": self.average is not None, "sync_batch_norm": self.sync_batch_norm})

    @property
    def layout(self) -> torch.memory_format:
        """Channels last for tensor cores; float32 kernels are faster with channels first."""
        return torch.channels_last if self.precision == "bfloat16" else torch.contiguous_format


def in_layout(model: nn.Module, plan: Plan) -> nn.Module:
    """The model with its weights in the plan's memory layout."""
    placed: nn.Module = model.to(memory_format=plan.layout)  # type: ignore[call-overload]
    return placed


def axes_of(parameter: nn.Parameter) -> int:
    """The number of axes of the weight itself, without that of stacked replicas."""
    return int(getattr(parameter, "axes", parameter.ndim))


def _repr(held: Any, later: dict[str, bool]) -> str:
    """The repr without later additions that are not used, so that older records still match."""
    shown = [field.name for field in fields(held) if later.get(field.name, True)]
    return f"{type(held).__name__}({', '.join(f'{name}={getattr(held, name)!r}' for name in shown)})"


def _rate(device: torch.device, capturable: bool) -> dict[str, Any]:
    """On a GPU the rate is a tensor, so that a captured step reads its current value."""
    if device.type != "cuda":
        return {"lr": 0.0}
    rate = {"lr": torch.zeros((), device=device), "fused": True}
    return {**rate, "capturable": True} if capturable else rate
