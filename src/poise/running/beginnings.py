"""Shared beginnings: the first epochs that methods train alike, the trunk, are trained once per seed.

While its weight is 0, an objective equals its quiet form. So methods with the same augmentation and loss train alike
until the first of them switches on, and each branches from a checkpoint of the trunk.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from poise.objectives.objective import XE, weight_of
from poise.running.experiment import Experiment, Method
from poise.schedules import as_schedule


def trunk_lengths(experiment: Experiment, images: int) -> dict[str, list[int]]:
    """For each method, the epochs at which methods branch off the trunk that they share with it, in ascending order.

    A method branches off where it switches on, or where the last method that shares its beginning does. Each part of a
    trunk continues the previous one, so any two methods share all common epochs, in whatever order they are trained.
    """
    quiet_for = {each.name: quiet_epochs(experiment, each, images) for each in experiment.methods}
    lengths = {}
    for method in experiment.methods:
        alike = [each.name for each in experiment.methods if beginning(each) == beginning(method)]
        leaves = {
            name: min(quiet_for[name], max((quiet_for[other] for other in alike if other != name), default=0))
            for name in alike
        }
        lengths[method.name] = sorted({epochs for epochs in leaves.values() if 0 < epochs <= leaves[method.name]})
    return lengths


def shared_folder(store: Path, experiment: Experiment, decides: Any, seed: int) -> Path:
    """The folder for trainings with the same task, network, plan and seed, and the same `decides`.

    decides  what else determines the weights, such as the objective and the augmentation; hashed by its repr.
    """
    data = getattr(experiment.task, "training", experiment.task)
    digest = sha256(repr((data, experiment.network, experiment.plan, decides)).encode()).hexdigest()[:12]
    return store / digest / f"seed-{seed:02d}"


def quiet_epochs(experiment: Experiment, method: Method, images: int) -> int:
    """The number of complete epochs before a method switches on."""
    steps = images // experiment.plan.batch_size
    return quiet_steps(method.objective, experiment.plan.epochs * steps) // steps


def quiet_steps(objective: Any, total: int) -> int:
    """The number of steps, from the first on, in which an objective equals its quiet form."""
    if objective == quiet(objective):
        return total
    schedule = as_schedule(weight_of(objective))
    return next((step for step in range(total) if schedule(step) != 0), total)


def beginning(method: Method) -> tuple[Any, Any]:
    """What determines the first epochs of a method: its augmentation, and its objective while the weight is 0."""
    return method.augment, quiet(method.objective)


def quiet(objective: Any) -> Any:
    """The form of an objective while its weight is 0: XE, or XE inside its wrapper."""
    inner = getattr(objective, "objective", None)
    if inner is not None:
        return replace(objective, objective=quiet(inner))
    return XE(objective.loss) if hasattr(objective, "loss") else XE()
