"""Trunks: the beginning that methods have in common."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from poise.objectives.objective import weight_of
from poise.objectives.xe import XE
from poise.running.experiment import Experiment, Method
from poise.schedules import as_schedule


def trunk_lengths(experiment: Experiment, images: int) -> dict[str, list[int]]:
    """Per method the whole epochs after which methods that begin alike leave the trunk, up to where it does itself:
    where it switches on, or the last of its company does. Each part goes on from the one before, so that any two
    methods share all that they have in common, whoever is trained first."""
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
    """The folder of all that is trained alike: what decides the weights, in this task, network and plan."""
    data = getattr(experiment.task, "training", experiment.task)
    digest = sha256(repr((data, experiment.network, experiment.plan, decides)).encode()).hexdigest()[:12]
    return store / digest / f"seed-{seed:02d}"


def quiet_epochs(experiment: Experiment, method: Method, images: int) -> int:
    """The whole epochs before a method switches on."""
    steps = images // experiment.plan.batch_size
    return quiet_steps(method.objective, experiment.plan.epochs * steps) // steps


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
