"""An average of the weights over the steps, which often classifies better than the last ones.

    a ← decay · a + (1 - decay) · w      after every step, from the first weights on

What the first weights leave in it is decay ** steps: nothing, after some thousand steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """The average of a model's weights; everything else, such as running statistics, stays the model's own."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._decay = decay
        self._weights = dict(model.named_parameters())
        self.tensors = {name: weight.detach().clone() for name, weight in self._weights.items()}

    @torch.no_grad()
    def update(self) -> None:
        """Move towards the weights of this step."""
        torch._foreach_lerp_(list(self.tensors.values()), list(self._weights.values()), 1 - self._decay)

    @torch.no_grad()
    def load(self, tensors: dict[str, Tensor]) -> None:
        """Go on from an average that was kept."""
        for name, tensor in self.tensors.items():
            tensor.copy_(tensors[name])

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model has the average for its weights inside; its own come back."""
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
        """The average becomes the model's weights."""
        for name, weight in self._weights.items():
            weight.copy_(self.tensors[name])

    def snapshot(self) -> Callable[[], None]:
        """A function that brings the average of now back, in place."""
        held = {name: tensor.clone() for name, tensor in self.tensors.items()}
        return lambda: self.load(held)
