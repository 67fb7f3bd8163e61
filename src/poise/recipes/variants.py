"""Variants of FCL in the studies: controls that isolate the effect of utility, and candidates that strengthen it.

Controls change which features move, and nothing else (see also `AtRandom` in features/selection.py):

    Swapped    the most useful near, the least useful far
    NearOnly   no far view in the loss

Candidates give the utility more effect:

    Uneven         other numbers of features near and far
    Graded         every feature moves: near by sigma * (1 - its rank), far by sigma * its rank, ranks in [0, 1]
    WeightedFar    an example's own far view counts as much as several negatives
    SmoothUtility  the utility averaged over noisy copies of the input
    Confident      only examples with a small loss have a utility

With WeightedFar, FCL's `drop_below` decides whose far view counts: 1e-5 keeps it for the examples that are still being
learned, most of the rare ones and few others; 0 keeps it for all.

Axes: B examples, *D features of one example.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from poise.classifier import Classifier, Forward
from poise.features.perturbation import Gaussian
from poise.features.selection import TopBottom
from poise.features.utility import GradientUtility
from poise.losses import CrossEntropy, ExampleLoss
from poise.objectives.contrast import Contrast
from poise.tokens import Input


@dataclass(frozen=True)
class Swapped:
    """The k most useful features near, the k least useful far."""

    k: int

    def check(self, shape: torch.Size) -> None:
        TopBottom(self.k).check(shape)

    def __call__(
        self, u: Tensor, valid: Tensor | None = None, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        low, high = TopBottom(self.k)(u, valid, generator)
        return high, low


@dataclass(frozen=True)
class Uneven:
    """The `near` least useful and the `far` most useful features."""

    near: int
    far: int

    def check(self, shape: torch.Size) -> None:
        if self.near + self.far > shape[1:].numel():
            raise ValueError(f"near={self.near} and far={self.far} overlap in {shape[1:].numel()} features")

    def __call__(
        self, u: Tensor, valid: Tensor | None = None, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        place = _places(u)
        return place < self.near, place >= u[0].numel() - self.far


@dataclass(frozen=True)
class Graded:
    """Every feature moves, by an amount that follows its rank: one minus the rank near, the rank far."""

    def check(self, shape: torch.Size) -> None:
        if shape[1:].numel() < 2:
            raise ValueError(f"an example needs at least 2 features, got shape {list(shape[1:])}")

    def __call__(
        self, u: Tensor, valid: Tensor | None = None, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        rank = _places(u).to(u.dtype) / (u[0].numel() - 1)
        return 1 - rank, rank


@dataclass(frozen=True)
class GradedGaussian:
    """N(0, (sigma * grade)^2) on every feature, for the grades of Graded."""

    sigma: float

    def check(self, x: Input) -> None:
        Gaussian(self.sigma).check(x)

    def __call__(self, x: Input, chosen: Tensor, generator: torch.Generator | None = None) -> Tensor:
        self.check(x)
        x = cast(Tensor, x)
        return x + chosen * torch.empty_like(x).normal_(std=self.sigma, generator=generator)


@dataclass(frozen=True)
class NearOnly:
    """A contrast without the far view."""

    contrast: Contrast

    def __call__(
        self,
        z: Tensor,
        near: Tensor,
        far: Tensor | None = None,
        *,
        keep: Tensor | None = None,
        taking_part: Tensor | None = None,
    ) -> Tensor:
        return self.contrast(z, near, taking_part=taking_part)


@dataclass(frozen=True)
class WeightedFar:
    """InfoNCE whose far view counts as `times` negatives: `times` e^{sim(z, z-) / tau}. For a single process."""

    temperature: float
    times: float

    def __call__(
        self,
        z: Tensor,
        near: Tensor,
        far: Tensor | None = None,
        *,
        keep: Tensor | None = None,
        taking_part: Tensor | None = None,
    ) -> Tensor:
        if far is None or keep is None or taking_part is None:
            raise ValueError("WeightedFar needs far and keep: use it in FCL")
        z, near, far = (F.normalize(each.flatten(1).float(), dim=1) for each in (z, near, far))
        others = (z @ z.T).masked_fill(torch.eye(len(z), dtype=torch.bool, device=z.device), -torch.inf)
        close, apart = ((z * each).sum(1, keepdim=True) / self.temperature for each in (near, far))
        apart = (apart + log(self.times)).masked_fill(~keep[:, None], -torch.inf)
        logits = torch.cat([close, apart, others / self.temperature], dim=1)
        losses = logits.logsumexp(1) - logits[:, 0]
        return losses.where(taking_part, 0).mean()


@dataclass(frozen=True)
class SmoothUtility:
    """| d loss / d x | averaged over the input and `copies` noisy copies of it, with one backward pass each."""

    copies: int = 3
    sigma: float = 0.25

    @property
    def uses_forward(self) -> bool:
        return True

    def check(self, x: Input) -> None:
        GradientUtility().check(x)

    def __call__(
        self,
        model: Classifier,
        x: Input,
        y: Tensor,
        *,
        loss: ExampleLoss = CrossEntropy(),
        forward: Forward | None = None,
    ) -> Tensor:
        own = GradientUtility()(model, x, y, loss=loss, forward=forward)
        noisy = (GradientUtility()(model, Gaussian(self.sigma)(x), y, loss=loss) for _ in range(self.copies))
        return (own + torch.stack(list(noisy)).sum(0)) / (self.copies + 1)


@dataclass(frozen=True)
class Confident:
    """The gradient utility of examples with a loss below `below`; NaN, and so no contrast, for the others."""

    below: float = 0.5

    @property
    def uses_forward(self) -> bool:
        return True

    def check(self, x: Input) -> None:
        GradientUtility().check(x)

    def __call__(
        self,
        model: Classifier,
        x: Input,
        y: Tensor,
        *,
        loss: ExampleLoss = CrossEntropy(),
        forward: Forward | None = None,
    ) -> Tensor:
        u = GradientUtility()(model, x, y, loss=loss, forward=forward)
        if forward is None:
            raise ValueError("Confident needs the forward pass of an objective: use it inside an objective")
        unsure = forward.losses.detach() >= self.below
        return u.masked_fill(unsure.view(-1, *[1] * (u.ndim - 1)), torch.nan)


def _places(u: Tensor) -> Tensor:
    """[B, *D] the rank of every feature within its example, starting at 0; ties in any order."""
    return u.flatten(1).argsort(dim=1).argsort(dim=1).view_as(u)
