"""Classifiers around others: data on one scale, a logit more, copies for a model that changes what it is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from poise.auditing.outputs import on_a_copy
from poise.classifier import evaluating
from poise.models.normalize import Normalize
from poise.outputs import both_classes, logits_of


class Own(nn.Module):
    """A classifier with embed and head of its own: it gets copies, and its embed and head must make up the whole."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner: Any = inner
        self._checked = False

    def head(self, z: Tensor) -> Tensor:
        return both_classes(logits_of(self.inner.head(z.clone())))

    def embed(self, x: Any) -> Tensor:
        self.check_head(x)
        z: Tensor = on_a_copy(self.inner.embed, x)
        return z

    def check_head(self, x: Any) -> None:
        if not self._checked:
            self._check(x[:2])

    def forward(self, x: Any) -> Tensor:
        return both_classes(logits_of(on_a_copy(self.inner, x)))

    def get_submodule(self, target: str) -> nn.Module:
        """Layers are called as the user calls them."""
        found: nn.Module = self.inner.get_submodule(target)
        return found

    @torch.no_grad()
    def _check(self, x: Any) -> None:
        with evaluating(self):
            got = self._try(x)
            try:
                whole = self(x).float()
            except NotImplementedError:  # embed and head are all there is
                whole = got = self.head(on_a_copy(self.inner.embed, x)).float()
        slack = 1e-3 * whole.nan_to_num(0, 0, 0).abs().max().item()
        if got is None or got.shape != whole.shape or not got.allclose(whole, atol=slack, equal_nan=True):
            name = type(self.inner).__name__
            raise ValueError(
                f"head(embed(x)) is not what this {name} gives: its embed must lead up to its head, or else name the "
                "last layer: split(model, head=...)"
            )
        self._checked = True

    def _try(self, x: Any) -> Tensor | None:
        """head(embed(x)); None where their shapes do not fit."""
        try:
            return self.head(on_a_copy(self.inner.embed, x)).float()
        except RuntimeError:
            return None


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
        return both_classes(self.inner.head(z))

    def embed(self, x: Any) -> Tensor:
        z: Tensor = self.inner.embed(x)
        return z

    def forward(self, x: Any) -> Tensor:
        return self.head(self.embed(x))
