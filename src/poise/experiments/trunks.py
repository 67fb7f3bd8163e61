"""Trunks: the beginning that methods have in common."""

from __future__ import annotations

from typing import Any

from poise.experiments.experiment import Method
from poise.objectives.xe import XE
from poise.schedules import as_schedule


def quiet_steps(objective: Any, total: int) -> int:
    """The steps, from the first on, in which an objective is plain cross-entropy."""
    if isinstance(objective, XE):
        return total
    schedule = as_schedule(getattr(objective, "weight", 1.0))
    return next((step for step in range(total) if schedule(step) != 0), total)


def beginning(method: Method) -> tuple[Any, Any]:
    """What decides how a method begins: its augmentation and its loss."""
    return method.augment, loss_of(method)


def loss_of(method: Method) -> Any:
    return getattr(method.objective, "loss", None)
