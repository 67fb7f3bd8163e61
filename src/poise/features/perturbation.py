"""Utility-aware perturbations (Definition 3): x + epsilon(S), or x without the tokens S.

    continuous   epsilon_j ~ N(0, sigma^2) for j in S, 0 elsewhere
    discrete     the tokens of S are removed

Features outside S stay bit-identical.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Protocol, cast

import torch
from torch import Tensor

from poise.checks import require_choice, require_number, require_several
from poise.classifier import check_kind
from poise.tokens import Input, Removal, Tokens


class Perturbation(Protocol):
    def check(self, x: Input) -> None:
        """Raise if this perturbation does not support inputs like x."""

    def __call__(self, x: Input, chosen: Tensor, generator: torch.Generator | None = None) -> Input:
        """x, chosen [B, *D] → a new input like x."""


@dataclass(frozen=True)
class Gaussian:
    """N(0, sigma^2) on the chosen features; `clip=(0, 1)` keeps the changed values inside the input range.

    >>> x, chosen = torch.zeros(1, 3), torch.tensor([[False, True, True]])
    >>> (Gaussian(sigma=0.5)(x, chosen) != 0).tolist()
    [[False, True, True]]
    """

    sigma: float
    clip: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        require_number("sigma", self.sigma, least=0)
        if self.clip is None:
            return
        require_several("clip", self.clip)
        numbers = all(isinstance(end, Real) for end in self.clip)
        if not numbers or len(self.clip) != 2 or not self.clip[0] < self.clip[1]:
            raise ValueError(f"clip={self.clip} must be (lowest, highest)")

    def check(self, x: Input) -> None:
        check_kind(x)
        if isinstance(x, Tokens):
            raise TypeError("x are Tokens, and Gaussian noise needs a float tensor: use Remove() for Tokens")
        if not x.is_floating_point():
            raise TypeError(f"x is {x.dtype}, but Gaussian noise needs floats: convert images with x.float() / 255")

    def __call__(self, x: Input, chosen: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """chosen=None perturbs every feature."""
        self.check(x)
        x = cast(Tensor, x)
        if chosen is not None:
            _check_chosen(chosen, x.shape)
        moved = x + torch.empty_like(x).normal_(std=self.sigma, generator=generator)
        if self.clip is not None:
            moved = moved.clamp(*self.clip)
        if chosen is None:
            return moved
        # Keep the memory format of x: `where` would change channels_last to the mask's.
        return torch.where(torch.empty_like(x, dtype=torch.bool).copy_(chosen), moved, x)


@dataclass(frozen=True)
class Remove:
    """Removal of the chosen tokens: "mask" keeps the positions of the others, "delete" closes the gaps."""

    how: Removal = "mask"

    def __post_init__(self) -> None:
        require_choice("how", self.how, "mask", "delete")

    def check(self, x: Input) -> None:
        if not isinstance(x, Tokens):
            raise TypeError("Remove() removes tokens: x must be Tokens; use Gaussian(sigma) for float tensors")

    def __call__(self, x: Input, chosen: Tensor, generator: torch.Generator | None = None) -> Tokens:
        self.check(x)
        tokens = cast(Tokens, x)
        _check_chosen(chosen, tokens.ids.shape)
        return tokens.without(chosen, self.how)


def _check_chosen(chosen: Tensor, shape: torch.Size) -> None:
    """Raise unless there is one boolean per feature. Checks type and shape only, not values."""
    if not isinstance(chosen, Tensor) or chosen.dtype != torch.bool:
        kind = chosen.dtype if isinstance(chosen, Tensor) else type(chosen).__name__
        raise TypeError(f"chosen must be a tensor of booleans {list(shape)}, got {kind}")
    if chosen.shape != shape:
        raise ValueError(f"chosen has shape {list(chosen.shape)}, must have that of the features, {list(shape)}")
