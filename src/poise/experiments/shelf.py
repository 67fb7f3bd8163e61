"""The experiments and sweeps that come with Poise, by name, and those of a file."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

from poise.choices import require_known
from poise.experiments.experiment import Experiment
from poise.experiments.sweep import Sweep

_FILES = {"synthetic-mnist": "poise.experiments.synthetic_mnist"}


def names() -> Iterator[str]:
    yield from _FILES


def find(name: str, quick: bool = False) -> Experiment:
    """The experiment of this name, or its quick version."""
    module = _module(name)
    experiment: Experiment = module.QUICK if quick else module.EXPERIMENT
    return experiment


def find_sweep(name: str, which: str | None = None, quick: bool = False) -> tuple[str, Sweep]:
    """A sweep of the experiment of this name and what it is called; the first one if none is asked for."""
    module = _module(name)
    sweeps: dict[str, Sweep] = module.QUICK_SWEEPS if quick else module.SWEEPS
    chosen = next(iter(sweeps)) if which is None else which
    require_known("sweep", chosen, sweeps)
    return chosen, sweeps[chosen]


def about(name: str) -> str:
    """The first line of the experiment's file."""
    return (import_module(_FILES[name]).__doc__ or "").splitlines()[0]


def from_file(path: Path) -> Experiment:
    """EXPERIMENT of a user's own Python file, which is run for it."""
    found = _named(path, "EXPERIMENT")
    if not isinstance(found, Experiment):
        raise ValueError(f"{path} has no EXPERIMENT, a poise.experiments.experiment.Experiment")
    return found


def sweep_from_file(path: Path) -> Sweep:
    """SWEEP of a user's own Python file, which is run for it."""
    found = _named(path, "SWEEP")
    if not isinstance(found, Sweep):
        raise ValueError(f"{path} has no SWEEP, a poise.experiments.sweep.Sweep")
    return found


def _module(name: str) -> ModuleType:
    require_known("experiment", name, _FILES)
    return import_module(_FILES[name])


def _named(path: Path, name: str) -> Any:
    """What a file calls so, when it has run."""
    try:
        return runpy.run_path(str(path)).get(name)
    except Exception as error:  # whatever a file of someone else's may raise
        lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(path)]
        place = f"{path}, line {lines[-1]}" if lines else f"{path}"
        raise ValueError(f"{place}: {type(error).__name__}: {error}") from None
