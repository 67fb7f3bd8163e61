"""The experiments that come with Poise, by name, and those of a file."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path

from poise.experiments.experiment import Experiment

_FILES = {"synthetic-mnist": "poise.experiments.synthetic_mnist"}


def names() -> Iterator[str]:
    yield from _FILES


def find(name: str, quick: bool = False) -> Experiment:
    """The experiment of this name, or its quick version."""
    if name not in _FILES:
        near = get_close_matches(name, _FILES, n=1, cutoff=0)
        raise ValueError(f"no experiment is called {name!r}: did you mean {near[0]!r}?")
    module = import_module(_FILES[name])
    experiment: Experiment = module.QUICK if quick else module.EXPERIMENT
    return experiment


def about(name: str) -> str:
    """The first line of the experiment's file."""
    return (import_module(_FILES[name]).__doc__ or "").splitlines()[0]


def from_file(path: Path) -> Experiment:
    """EXPERIMENT of a user's own Python file, which is run for it."""
    found = runpy.run_path(str(path)).get("EXPERIMENT")
    if not isinstance(found, Experiment):
        raise ValueError(f"{path} has no EXPERIMENT, a poise.experiments.experiment.Experiment")
    return found
