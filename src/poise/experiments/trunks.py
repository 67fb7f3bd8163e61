"""Trunks: the beginning that methods have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from poise.experiments.experiment import Method
from poise.objectives.objective import weight_of
from poise.objectives.xe import XE
from poise.schedules import as_schedule


def quiet_steps(objective: Any, total: int) -> int:
    """The steps, from the first on, in which an objective is its quiet one."""
    if objective == quiet(objective):
        return total
    schedule = as_schedule(weight_of(objective))
    return next((step for step in range(total) if schedule(step) != 0), total)


def beginning(method: Method) -> tuple[Any, Any]:
    """What decides how a method begins: its augmentation, and its objective while the weight is 0."""
    return method.augment, quiet(method.objective)


def quiet(objective: Any) -> Any:
    """What an objective is while its weight is 0: XE, or XE inside what is around it."""
    inner = getattr(objective, "objective", None)
    if inner is not None:
        return replace(objective, objective=quiet(inner))
    return XE(objective.loss) if hasattr(objective, "loss") else XE()
