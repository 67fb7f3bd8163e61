"""Utility from outside the model (section 3, discussion), instead of the model's own or in addition to it.

teacher   u = utility of the teacher, at the same x and y
given     u = | what the user passes with the batch |
mixed     u = sum_m weight_m * u_m / sum_j u_mj          every part a distribution over the example's features
equal     u = 1                                          for a selection that ignores utility, at no cost
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from poise.checks import require_number, require_part, require_several
from poise.classifier import Classifier, Forward, check_kind
from poise.features.utility import GradientUtility, Utility
from poise.losses import CrossEntropy, ExampleLoss
from poise.tokens import Input, device_of, shape_of, valid_features


@dataclass(frozen=True)
class TeacherUtility:
    """The utility that `utility` measures on the teacher. The teacher is not trained; it moves to the device of x.

    `name` stands for the teacher in a recipe's repr.
    """

    teacher: Classifier = field(repr=False)
    name: str = "teacher"
    utility: Utility = GradientUtility()

    def __post_init__(self) -> None:
        if isinstance(self.teacher, type) or not hasattr(self.teacher, "embed") or not hasattr(self.teacher, "head"):
            raise TypeError(f"teacher={self.teacher!r} must be a model with embed and head: use poise.split(model)")
        require_part("utility", self.utility, "check")

    @property
    def uses_forward(self) -> bool:
        return False

    def check(self, x: Input) -> None:
        self.utility.check(x)

    def __call__(
        self,
        model: Classifier,
        x: Input,
        y: Tensor,
        *,
        loss: ExampleLoss = CrossEntropy(),
        forward: Forward | None = None,
    ) -> Tensor:
        check_kind(x)
        # The objective's pass is the student's: pass on its scaler only, not its graph.
        alone = None if forward is None else replace(forward, losses=forward.losses.detach(), given=None)
        if isinstance(self.teacher, nn.Module):
            self.teacher.to(device_of(x))
        return self.utility(self.teacher, x, y, loss=loss, forward=alone)


@dataclass(frozen=True)
class GivenUtility:
    """The absolute values of the tensor [B, *D] passed to the objective: objective(model, x, y, step, given=u)."""

    @property
    def uses_forward(self) -> bool:
        return False

    def check(self, x: Input) -> None:
        """Accept any input."""

    def __call__(
        self,
        model: Classifier,
        x: Input,
        y: Tensor,
        *,
        loss: ExampleLoss = CrossEntropy(),
        forward: Forward | None = None,
    ) -> Tensor:
        given = None if forward is None else forward.given
        if given is None:
            raise ValueError("GivenUtility has no utility for this batch: call objective(model, x, y, step, given=u)")
        if not isinstance(given, Tensor) or given.is_complex():
            raise TypeError(f"given must be a tensor of numbers {list(shape_of(x))}, not a {type(given).__name__}")
        if given.shape != shape_of(x):
            raise ValueError(
                f"given has shape {list(given.shape)}, must have that of the features, {list(shape_of(x))}"
            )
        u = given.detach().to(torch.promote_types(given.dtype, torch.float32)).abs()
        valid = valid_features(x)
        return u if valid is None else u.where(valid, 0)


@dataclass(frozen=True)
class EqualUtility:
    """The same utility, 1, for every feature; 0 for padding and special tokens."""

    @property
    def uses_forward(self) -> bool:
        return False

    def check(self, x: Input) -> None:
        """Accept any input."""

    def __call__(
        self,
        model: Classifier,
        x: Input,
        y: Tensor,
        *,
        loss: ExampleLoss = CrossEntropy(),
        forward: Forward | None = None,
    ) -> Tensor:
        check_kind(x)
        valid = valid_features(x)
        return torch.ones(shape_of(x), device=device_of(x)) if valid is None else valid.float()


@dataclass(frozen=True)
class MixedUtility:
    """A weighted sum of utilities, each scaled to sum to 1 over an example's features.

    A part whose largest value in an example is below `drop_below` counts as 0 there.
    """

    parts: tuple[Utility, ...]
    weights: tuple[float, ...]
    drop_below: float = 1e-12

    def __post_init__(self) -> None:
        require_several("parts", self.parts)
        require_several("weights", self.weights)
        for place, part in enumerate(self.parts):
            require_part(f"parts[{place}]", part, "check")
        if len(self.parts) != len(self.weights) or not self.parts:
            raise ValueError(f"weights={self.weights} must have one number for each of the {len(self.parts)} parts")
        for place, weight in enumerate(self.weights):
            require_number(f"weights[{place}]", weight, least=0)
        if not any(self.weights):
            raise ValueError(f"weights={self.weights} must not all be 0")
        require_number("drop_below", self.drop_below, least=0)

    @property
    def uses_forward(self) -> bool:
        return any(part.uses_forward for part in self.parts)

    def check(self, x: Input) -> None:
        for part in self.parts:
            part.check(x)

    def __call__(
        self,
        model: Classifier,
        x: Input,
        y: Tensor,
        *,
        loss: ExampleLoss = CrossEntropy(),
        forward: Forward | None = None,
    ) -> Tensor:
        measured = (part(model, x, y, loss=loss, forward=forward) for part in self.parts)
        shares = [weight * self._share(u) for u, weight in zip(measured, self.weights, strict=True)]
        return torch.stack(shares).sum(0)

    def _share(self, u: Tensor) -> Tensor:
        rows = u.flatten(1)
        share = rows / rows.sum(1, keepdim=True)
        return share.masked_fill(rows.amax(1, keepdim=True) < self.drop_below, 0.0).view_as(u)
