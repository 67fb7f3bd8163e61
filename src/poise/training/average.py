"""The average of the weights over the steps, which often classifies better than the last weights.

    a ← decay · a + (1 - decay) · w      after every step, starting from the initial weights

The initial weights contribute decay ** steps, which is negligible after some thousand steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """The average of a model's weights; everything else, such as running statistics, remains the model's own."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._decay = decay
        self._weights = dict(model.named_parameters())
        self.tensors = {name: weight.detach().clone() for name, weight in self._weights.items()}

    @torch.no_grad()
    def update(self) -> None:
        """Move the average towards the current weights."""
        torch._foreach_lerp_(list(self.tensors.values()), list(self._weights.values()), 1 - self._decay)

    @torch.no_grad()
    def load(self, tensors: dict[str, Tensor]) -> None:
        """Continue from a saved average."""
        for name, tensor in self.tensors.items():
            tensor.copy_(tensors[name])

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Use the average as the model's weights inside, and restore its own weights afterwards."""
        own = [weight.detach().clone() for weight in self._weights.values()]
        self.give()
        try:
            yield
        finally:
            with torch.no_grad():
                for weight, value in zip(self._weights.values(), own, strict=True):
                    weight.copy_(value)

    @torch.no_grad()
    def give(self) -> None:
        """Copy the average into the model's weights."""
        for name, weight in self._weights.items():
            weight.copy_(self.tensors[name])

    def snapshot(self) -> Callable[[], None]:
        """A function that restores the current average, in place."""
        held = {name: tensor.clone() for name, tensor in self.tensors.items()}
        return lambda: self.load(held)
