"""The baselines with Gaussian noise on every feature (section 4.3).

    XE+Gaussian   a second cross-entropy, on the noisy input
    CL+Gaussian   a contrast whose near view is the noisy input, without a far view

Both perturb all features, so they need no utility.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from poise.checks import require_part, require_taking
from poise.classifier import Classifier, run
from poise.features.perturbation import Gaussian
from poise.losses import CrossEntropy, ExampleLoss
from poise.objectives.contrast import Contrast
from poise.objectives.objective import (
    Loss,
    Statistics,
    check_settings,
    embed_view,
    plain,
    require_everywhere,
    switched_off,
    weight_at,
    weighted,
)
from poise.schedules import Schedule
from poise.tokens import Input


@dataclass(frozen=True)
class XEGaussian:
    """total = mean loss(x) + weight * mean loss(x + noise)."""

    perturb: Gaussian
    weight: Schedule | float
    statistics: Statistics = "running"
    loss: ExampleLoss = CrossEntropy()

    def __post_init__(self) -> None:
        check_settings(self.weight, self.statistics, self.loss)
        require_part("perturb", self.perturb, "check")
        require_everywhere(self.perturb)

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
        self.perturb.check(x)
        weight = weight_at(self.weight, step)
        forward = run(model, x, y, self.loss)
        if switched_off(weight):
            return plain(forward)
        noisy = self.perturb(x, None, generator)
        noisy_losses = self.loss(model.head(embed_view(model, noisy, self.statistics)), y)
        return weighted(forward, weight, "noisy_xe", noisy_losses.mean())


@dataclass(frozen=True)
class CLGaussian:
    """total = mean loss(x) + weight * contrast(z, phi(x + noise))."""

    perturb: Gaussian
    contrast: Contrast
    weight: Schedule | float
    statistics: Statistics = "running"
    loss: ExampleLoss = CrossEntropy()

    def __post_init__(self) -> None:
        require_part("perturb", self.perturb, "check")
        require_everywhere(self.perturb)
        require_part("contrast", self.contrast)
        require_taking("contrast", self.contrast, "z", "near")
        check_settings(self.weight, self.statistics, self.loss)

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
        self.perturb.check(x)
        weight = weight_at(self.weight, step)
        forward = run(model, x, y, self.loss)
        if switched_off(weight):
            return plain(forward)
        noisy = self.perturb(x, None, generator)
        near = embed_view(model, noisy, self.statistics)
        return weighted(forward, weight, "contrast", self.contrast(forward.z, near))
