"""The experiments and sweeps that come with Poise, by name, and those of a file."""

from __future__ import annotations

import runpy
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path

from poise.experiments.experiment import Experiment
from poise.experiments.sweep import Sweep

_FILES = {
    "sentiment": "poise.experiments.sentiment",
    "synthetic-mnist": "poise.experiments.synthetic_mnist",
}


def names() -> Iterator[str]:
    yield from _FILES


def find(name: str, quick: bool = False) -> Experiment:
    """The experiment of this name, or its quick version."""
    module = import_module(_FILES[_known("experiment", name, _FILES)])
    experiment: Experiment = module.QUICK if quick else module.EXPERIMENT
    return experiment


def find_sweep(name: str, which: str | None = None, quick: bool = False) -> tuple[str, Sweep]:
    """A sweep of the experiment of this name and what it is called; the first one if none is asked for."""
    module = import_module(_FILES[_known("experiment", name, _FILES)])
    sweeps: dict[str, Sweep] = module.QUICK_SWEEPS if quick else module.SWEEPS
    chosen = next(iter(sweeps)) if which is None else _known("sweep", which, sweeps)
    return chosen, sweeps[chosen]


def about(name: str) -> str:
    """The first line of the experiment's file."""
    return (import_module(_FILES[name]).__doc__ or "").splitlines()[0]


def from_file(path: Path) -> Experiment:
    """EXPERIMENT of a user's own Python file, which is run for it."""
    found = runpy.run_path(str(path)).get("EXPERIMENT")
    if not isinstance(found, Experiment):
        raise ValueError(f"{path} has no EXPERIMENT, a poise.experiments.experiment.Experiment")
    return found


def sweep_from_file(path: Path) -> Sweep:
    """SWEEP of a user's own Python file, which is run for it."""
    found = runpy.run_path(str(path)).get("SWEEP")
    if not isinstance(found, Sweep):
        raise ValueError(f"{path} has no SWEEP, a poise.experiments.sweep.Sweep")
    return found


def _known(kind: str, name: str, names: Iterable[str]) -> str:
    if name not in (known := list(names)):
        near = get_close_matches(name, known, n=1, cutoff=0)
        raise ValueError(f"no {kind} is called {name!r}: did you mean {near[0]!r}?")
    return name
