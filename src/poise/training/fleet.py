"""Fleets: runs that differ only in seed and peak of lambda, trained as one batched model.

    total = sum_r ( mean loss_r + weight_r * contrast_r ),   so that replica r gets the gradient of its own run

Each run has the initial weights and the data order that it would have alone. Noise and augmentation are drawn for all
runs together, so a run in a fleet equals the run alone in distribution, not bit by bit.

Axes: N examples of each replica, R replicas; rows are laid out as in `poise.models.replicas`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from poise.classifier import Classifier
from poise.data.loading.resident import Batches, DeviceLoader, Resident
from poise.objectives.contrast import Contrast
from poise.objectives.objective import Loss, Objective, switched_off, weight_at
from poise.schedules import Ramp, Schedule
from poise.tokens import Input


@dataclass(frozen=True, eq=False)
class FleetLoader(Resident):
    """Combines loaders that differ only in their seed: the rows of a batch alternate between them."""

    loaders: tuple[DeviceLoader, ...]

    @property
    def labels(self) -> Tensor:
        return self.loaders[0].labels

    @property
    def batch_size(self) -> int:
        return sum(loader.batch_size for loader in self.loaders)

    @property
    def seed(self) -> int:
        """The seed of the noise and the augmentation of all replicas."""
        return self.loaders[0].seed

    @property
    def replicas(self) -> int:
        return len(self.loaders)

    def __len__(self) -> int:
        return len(self.loaders[0])

    def batches(self, number: int) -> Batches:
        each = [loader.batches(number) for loader in self.loaders]
        return Batches(torch.stack([batches.rows for batches in each], dim=2).flatten(1), each[0].widths)

    def batch(self, rows: Tensor, generator: torch.Generator, width: int = 0) -> tuple[Input, Tensor]:
        return self.loaders[0].batch(rows, generator, width)


@dataclass(frozen=True, eq=False)
class FleetObjective:
    """The objective of Replicas.

    of_one  the objective of one replica, with a contrast computed within each replica.
    weight  the schedule of lambda with a peak of 1.
    peaks   the peaks of the replicas [R].
    """

    of_one: Any
    weight: Schedule
    peaks: Tensor

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
        objective, weight = self.of_one, weight_at(self.weight, step)
        if hasattr(objective, "weight"):
            weights = weight if switched_off(weight) else weight * self.peaks
            objective = replace(objective, weight=lambda step: weights)
        loss = objective(model, x, y, 0 if step is None else step, generator=generator, scaler=scaler, given=given)
        own = objective.loss(loss.logits, y).view(-1, len(self.peaks)).mean(0)
        parts = {name: part for name, part in loss.parts.items() if isinstance(part, Tensor) and part.ndim}
        return Loss(loss.total.expand(len(self.peaks)).sum(), {"xe": own, **parts}, loss.logits)


def fleet_objective(objectives: Sequence[Objective], device: torch.device) -> FleetObjective:
    """One objective for all replicas; ValueError if they differ in more than the peak of a Ramp."""
    first: Any = objectives[0]
    if hasattr(first, "objective"):
        raise ValueError(f"{type(first).__name__}, which wraps another objective, is not supported in fleets")
    weights = [getattr(objective, "weight", Ramp(1.0)) for objective in objectives]
    peaks = [weight.peak if isinstance(weight, Ramp) else 1.0 for weight in weights]
    shape = replace(weights[0], peak=1.0) if isinstance(weights[0], Ramp) else weights[0]
    if len({fleet_key(objective) for objective in objectives}) > 1:
        raise ValueError("a fleet needs objectives that differ in the peak of a Ramp only")
    if getattr(first, "statistics", None) == "moving" and not all(peaks) and any(peaks):
        raise ValueError(
            'statistics="moving" with a peak of 0 is not supported in fleets: views would move the running statistics'
        )
    if hasattr(first, "contrast"):
        first = replace(first, contrast=EachReplica(first.contrast, len(objectives)))
    elif len(set(peaks)) > 1:
        raise ValueError(
            f"{type(first).__name__} needs the same weight in a whole fleet, got peaks {sorted(set(peaks))}"
        )
    return FleetObjective(first, shape, torch.tensor(peaks, device=device))


def fleet_key(objective: Any) -> str:
    """A key that is equal for objectives that fit in one fleet: the repr, without the peak of lambda of a contrast."""
    weight = getattr(objective, "weight", None)
    if hasattr(objective, "contrast") and isinstance(weight, Ramp):
        return repr(replace(objective, weight=replace(weight, peak=1.0)))
    return repr(objective)


@dataclass(frozen=True)
class EachReplica:
    """A contrast within each replica: z, near, far [N * R, E] → [R]."""

    contrast: Contrast
    count: int

    def __call__(
        self,
        z: Tensor,
        near: Tensor,
        far: Tensor | None = None,
        *,
        keep: Tensor | None = None,
        taking_part: Tensor | None = None,
    ) -> Tensor:
        given = {"far": far, "keep": keep, "taking_part": taking_part}
        names = [name for name, value in given.items() if value is not None]
        rows = [z.flatten(1), near.flatten(1), *(value for value in given.values() if value is not None)]

        def one(z: Tensor, near: Tensor, *others: Tensor) -> Tensor:
            return self.contrast(z, near, **dict(zip(names, others, strict=True)))

        losses: Tensor = torch.vmap(one, in_dims=1)(*(row.view(-1, self.count, *row.shape[1:]) for row in rows))
        return losses
