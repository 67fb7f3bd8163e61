"""XE+Gaussian: a second cross-entropy on the input with Gaussian noise on every feature (section 4.3, baselines)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from poise.choices import require_choice
from poise.classifier import Classifier, run
from poise.features.perturbation import Gaussian
from poise.losses import CrossEntropy, ExampleLoss
from poise.objectives.objective import STATISTICS, Loss, Statistics, embed_view, plain, switched_off, weighted
from poise.schedules import Schedule, as_schedule
from poise.tokens import Input


@dataclass(frozen=True)
class XEGaussian:
    """total = mean loss(x) + weight * mean loss(x + noise)."""

    perturb: Gaussian
    weight: Schedule | float
    statistics: Statistics = "running"
    loss: ExampleLoss = CrossEntropy()

    def __post_init__(self) -> None:
        require_choice("statistics", self.statistics, *STATISTICS)

    def __call__(
        self,
        model: Classifier,
        x: Input,
        y: Tensor,
        step: int = 0,
        *,
        generator: torch.Generator | None = None,
        scaler: Any = None,
        given: Tensor | None = None,
    ) -> Loss:
        self.perturb.check(x)
        forward = run(model, x, y, self.loss)
        weight = as_schedule(self.weight)(step)
        if switched_off(weight):
            return plain(forward)
        noisy = self.perturb(x, None, generator)
        noisy_losses = self.loss(model.head(embed_view(model, noisy, self.statistics)), y)
        return weighted(forward, weight, "noisy_xe", noisy_losses.mean())
