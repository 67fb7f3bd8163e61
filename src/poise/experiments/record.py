"""A record: what a run came to, with all that decides it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import torch

from poise.experiments.environment import surroundings
from poise.experiments.experiment import Experiment, Method
from poise.training.loop import Fit


def record_of(
    experiment: Experiment,
    method: Method,
    seed: int,
    done: Fit,
    tested: dict[str, Any],
    device: torch.device,
    started: datetime,
) -> dict[str, Any]:
    """The record of a run that is trained and tested now."""
    return {
        "version": 1,
        "experiment": experiment.name,
        "method": method.name,
        "seed": seed,
        "recipe": repr(experiment.recipe(method)),
        **tested,
        "log": done.log,
        "trunk": {"epochs": done.trunk} if done.trunk else None,
        "seconds": done.seconds,
        "peak_memory": done.peak_memory,
        **surroundings(device),
        "engine": done.engine,
        "started": started.isoformat(timespec="seconds"),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
