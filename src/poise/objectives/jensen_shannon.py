"""Consistency under AugMix (Hendrycks et al. 2020), added to any objective: predictions should not change.

    M = (p(x) + p(x') + p(x'')) / 3
    JS = ( KL(p(x) || M) + KL(p(x') || M) + KL(p(x'') || M) ) / 3,   x' and x'' two mixtures of x
    total = objective(x) + strength * mean JS

All three go through the network as one batch, so that they share its batch statistics, as in AugMix; the objective sees
x alone. With XE this is AugMix, with FCL it is AugMix with FCL.

Axes: B examples, E embedding, L classes, V versions of an example.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from poise.checks import require_number, require_part
from poise.classifier import Classifier, both_classes, check_head, check_model
from poise.data.augment import Augmentation
from poise.objectives.objective import Loss, Objective
from poise.tokens import Input


@dataclass(frozen=True)
class JensenShannon:
    """total = objective(x) + strength * mean JS(p(x), p(mix(x)), p(mix(x)))."""

    objective: Objective
    mix: Augmentation
    strength: float = 12.0

    def __post_init__(self) -> None:
        require_part("objective", self.objective)
        require_part("mix", self.mix)
        require_number("strength", self.strength, least=0)

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
        if not isinstance(x, Tensor):
            raise TypeError("AugMix mixes images: x must be a float tensor [B, C, H, W]")
        mixed = self.mix(torch.cat([x, x]), generator)
        if not isinstance(mixed, Tensor) or mixed.shape != (2 * len(x), *x.shape[1:]):
            given_back = list(mixed.shape) if isinstance(mixed, Tensor) else type(mixed).__name__
            raise ValueError(
                f"mix returned {given_back} for images {[2 * len(x), *x.shape[1:]]}: it must keep their shape"
            )
        with_mixtures: Any = _WithMixtures(model, mixed)
        loss = self.objective(with_mixtures, x, y, step, generator=generator, scaler=scaler, given=given)
        versions = [with_mixtures.logits, *model.head(with_mixtures.z_mixed).chunk(2)]
        term = divergence(torch.stack([both_classes(logits) for logits in versions])).mean()
        xe, *others = loss.parts.items()
        return Loss(loss.total + self.strength * term, dict([xe, ("js", term.detach()), *others]), loss.logits)


def divergence(logits: Tensor) -> Tensor:
    """The Jensen-Shannon divergence of V predictions [V, B, L] → [B], in float32 or better."""
    logp = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    log_mean = logp.logsumexp(0) - math.log(len(logits))
    return (logp.exp() * (logp - log_mean)).sum(-1).mean(0)


class _WithMixtures:
    """The model, with mixed images [2B, C, H, W] that are added to the batch of its first pass only."""

    def __init__(self, model: Classifier, mixed: Tensor) -> None:
        self.model, self.mixed = model, mixed
        self.z_mixed: Tensor | None = None
        self.logits: Tensor | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def __call__(self, x: Tensor) -> Tensor:
        return self.head(self.embed(x))

    @property
    def last_layer(self) -> Any:
        return self.model.head

    def check_head(self, x: Tensor) -> None:
        check_head(self.model, x)

    def embed(self, x: Tensor) -> Tensor:
        if self.z_mixed is not None:
            return self.model.embed(x)
        with warnings.catch_warnings():  # a compiled embed reads the .grad of its input
            warnings.filterwarnings("ignore", message="The .grad attribute of a Tensor that is not a leaf")
            z = self.model.embed(torch.cat([x, self.mixed]))  # [3B, E]
        self.z_mixed = z[len(x) :]
        return z[: len(x)]

    def head(self, z: Tensor) -> Tensor:
        logits: Tensor = self.model.head(z)
        self.logits = logits if self.logits is None else self.logits
        return logits
