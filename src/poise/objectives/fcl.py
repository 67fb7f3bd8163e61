"""Feature Contrastive Learning (section 3, Algorithm 1).

    u   = | d loss / d x |                      utility, Definition 1
    z+  = phi(x + epsilon(Bottom_k(u)))         the near view: perturbs the least useful features
    z-  = phi(x + epsilon(Top_k(u)))            the far view: perturbs the most useful features
    loss + lambda * l_FCL(z, z+, z-)            Eq. 6 or Eq. 9

Cost: x, near and far go through `embed` once each, and u is one backward pass to the input of the graph of x.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from poise.checks import require_number, require_part, require_taking
from poise.classifier import Classifier, leaf, run
from poise.features.perturbation import Gaussian, Perturbation, Remove
from poise.features.selection import Selection, TopBottomFraction, check_unit
from poise.features.utility import GradientUtility, Utility
from poise.losses import CrossEntropy, ExampleLoss
from poise.objectives.contrast import Contrast, InfoNCE
from poise.objectives.objective import (
    Loss,
    Statistics,
    check_settings,
    embed_pair,
    plain,
    switched_off,
    weight_at,
    weighted,
)
from poise.schedules import Schedule
from poise.tokens import Input, shape_of, valid_features


@dataclass(frozen=True)
class FCL:
    """total = mean loss(x) + weight * contrast(z, near, far).

    While the weight is 0 this is exactly XE. An example whose largest utility is below `drop_below` loses its far view.
    An example whose utility is not finite, or that has too few features to choose from, has no contrast.

    The defaults are the paper's for MNIST, with k as a third of the features and no warm-up; they fit pictures in
    [0, 1] and standardised numbers. For Tokens, pass RemovalUtility(), TopBottomFraction(0.15) and Remove().

    >>> import torch
    >>> from poise import LeNet
    >>> loss = FCL(weight=0.01)(LeNet(num_classes=10), torch.rand(8, 1, 28, 28), torch.arange(8))
    >>> sorted(loss.parts)
    ['contrast', 'weight', 'xe']
    """

    utility: Utility = GradientUtility()
    select: Selection = TopBottomFraction(1 / 3)
    perturb: Perturbation = Gaussian(0.5)
    contrast: Contrast = InfoNCE(0.1)
    weight: Schedule | float = 1e-3
    statistics: Statistics = "running"
    loss: ExampleLoss = CrossEntropy()
    drop_below: float = 1e-12

    def __post_init__(self) -> None:
        for name in ("utility", "select", "perturb"):
            require_part(name, getattr(self, name), "check")
        if isinstance(self.select, Gaussian | Remove):
            raise TypeError(f"select={self.select!r} is a perturbation, not a selection: pass it as perturb")
        require_part("contrast", self.contrast)
        require_taking("contrast", self.contrast, "z", "near")
        check_settings(self.weight, self.statistics, self.loss)
        require_number("drop_below", self.drop_below, least=0)

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
        self._check(x)
        weight = weight_at(self.weight, step)
        if switched_off(weight):
            return plain(run(model, x, y, self.loss))
        forward = run(model, self._read(x), y, self.loss, scaler=scaler, given=given)
        u = self.utility(model, x, y, loss=self.loss, forward=forward)
        low, high = self.select(u, valid_features(x), generator)
        near, far = self.perturb(x, low, generator), self.perturb(x, high, generator)
        z_near, z_far = embed_pair(model, near, far, self.statistics)
        least, most = u.flatten(1).amin(1), u.flatten(1).amax(1)
        keep = most >= self.drop_below
        taking_part = low.flatten(1).any(1) & least.isfinite() & most.isfinite()
        contrast = self.contrast(forward.z, z_near, z_far, keep=keep, taking_part=taking_part)
        return weighted(forward, weight, "contrast", contrast)

    def _read(self, x: Input) -> Input:
        """x as a leaf of the graph if the utility needs its gradient. An x that requires a gradient is returned as it
        is.
        """
        needs_leaf = self.utility.uses_forward and isinstance(x, Tensor) and not x.requires_grad
        return leaf(x) if needs_leaf else x

    def _check(self, x: Input) -> None:
        """Check at every step, so that an invalid recipe fails at the first step and not when the weight rises."""
        self.utility.check(x)
        self.perturb.check(x)
        if isinstance(x, Tensor):
            self.select.check(shape_of(x))
        else:  # short sentences are valid: they drop out of the contrast
            check_unit(self.select, shape_of(x))
