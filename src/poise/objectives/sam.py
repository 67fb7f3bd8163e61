"""Sharpness-aware minimisation (Foret et al. 2021), around any objective: the gradient where the loss is worse.

    g = d L / d w,   e = rho g / ||g||,   the step takes d L / d w at w + e

The norm is over all weights that learn. Each process of several takes its own ascent, as in the paper. The second pass
uses the statistics of its own batch and does not update the running ones. Noise and mixtures are drawn anew for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from poise.checks import require_number, require_part
from poise.classifier import Classifier, check_model, gradient_of, untracked
from poise.objectives.objective import Loss, Objective
from poise.tokens import Input


@dataclass(frozen=True)
class SAM:
    """total is L(w + e), whose gradient arrives at w; parts and logits are those at w."""

    objective: Objective
    rho: float = 0.05

    def __post_init__(self) -> None:
        require_part("objective", self.objective)
        require_number("rho", self.rho, least=0)

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
        check_model(model)
        given_too: dict[str, Any] = {"generator": generator, "scaler": scaler, "given": given}
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        if not weights:
            raise ValueError("model has no weights that require gradients: SAM moves them")
        first = self.objective(model, x, y, step, **given_too)
        with climbed(weights, gradient_of(first.total, weights), self.rho), untracked(model):
            second = self.objective(model, x, y, step, **given_too)
            gradients = gradient_of(second.total, weights)
        pairs = [(weight, each) for weight, each in zip(weights, gradients, strict=True) if each is not None]
        # Worth 0, with the gradient of w + e at w: the weights are back before the caller's backward pass.
        carrier = second.total.new_zeros(())
        for weight, each in pairs:
            carrier = carrier + ((weight - weight.detach()) * each).sum()
        return Loss(second.total.detach() + carrier, first.parts, first.logits)


@contextmanager
def climbed(weights: Sequence[nn.Parameter], gradients: Sequence[Tensor | None], rho: float) -> Iterator[None]:
    """The weights at w + rho g / ||g|| inside, and bit for bit at w afterwards."""
    pairs = [(weight, each) for weight, each in zip(weights, gradients, strict=True) if each is not None]
    before = [weight.data for weight, _ in pairs]
    norm = torch.stack([each.float().square().sum() for _, each in pairs]).sum().sqrt()
    try:
        for weight, each in pairs:
            weight.data = weight.data + (each * (rho / (norm + 1e-12))).to(weight.dtype)
        torch.clear_autocast_cache()  # it holds copies of the weights in half precision
        yield
    finally:
        for (weight, _), held in zip(pairs, before, strict=True):
            weight.data = held
        torch.clear_autocast_cache()
