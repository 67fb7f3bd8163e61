"""Classifiers that change their input first, so that an audit sees data on one scale; and one that adds a logit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from poise.models.normalize import Normalize


class Normalized(nn.Module):
    """A classifier for pictures in [0, 1], of one that wants them normalized."""

    def __init__(self, inner: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.normalize = Normalize(mean, std)
        self.inner: Any = inner

    @property
    def head(self) -> Callable[[Tensor], Tensor]:
        found: Callable[[Tensor], Tensor] = self.inner.head
        return found

    def embed(self, x: Tensor) -> Tensor:
        z: Tensor = self.inner.embed(self.normalize(x))
        return z

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.inner(self.normalize(x))
        return logits


class Unscaled(nn.Module):
    """A classifier for a standardized table, of one that wants its columns as they are. mean and deviation [F]."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, inner: nn.Module, mean: Tensor, deviation: Tensor) -> None:
        super().__init__()
        self.inner: Any = inner
        self.register_buffer("mean", mean, persistent=False)
        self.register_buffer("deviation", deviation, persistent=False)

    @property
    def head(self) -> Callable[[Tensor], Tensor]:
        found: Callable[[Tensor], Tensor] = self.inner.head
        return found

    def embed(self, x: Tensor) -> Tensor:
        z: Tensor = self.inner.embed(x * self.deviation + self.mean)
        return z

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.inner(x * self.deviation + self.mean)
        return logits


class OneLogit(nn.Module):
    """A classifier of two classes, of one that gives the logit z of the second alone: (0, z) has the same odds."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner: Any = inner

    def head(self, z: Tensor) -> Tensor:
        logit: Tensor = self.inner.head(z)
        return torch.cat([torch.zeros_like(logit), logit], dim=1)

    def embed(self, x: Any) -> Tensor:
        z: Tensor = self.inner.embed(x)
        return z

    def forward(self, x: Any) -> Tensor:
        return self.head(self.embed(x))
