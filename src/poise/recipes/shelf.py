"""The experiments and sweeps that come with Poise, by name, and those of a file.

A file of the shelf has EXPERIMENTS, {length: experiments}: one for each part of its table, a data set say. The whole
table has a name, and so has each part.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias

from poise.checks import require_known
from poise.recipes.names import FILES, WHOLE
from poise.running.experiment import Experiment
from poise.running.sweep import Sweep
from poise.running.user_files import value_of

Length: TypeAlias = Literal["full", "compressed", "quick"]


def find(name: str, length: Length = "full") -> tuple[Experiment, ...]:
    """The experiments of a table, or the one of this name."""
    require_known("experiment", name, [*FILES, *WHOLE])
    whole = WHOLE.get(name, name)
    lengths: dict[str, tuple[Experiment, ...]] = _module(whole).EXPERIMENTS
    if length not in lengths:
        raise ValueError(f"{whole} has no {length} version: there is {', '.join(lengths)}")
    found = lengths[length]
    return found if name in FILES else (found[FILES[whole][1].index(name)],)


def find_sweep(name: str, which: str | None = None, length: Length = "full") -> tuple[str, Sweep]:
    """A sweep of the experiment of this name and what it is called; the first one if none is asked for."""
    found = find(name, length)
    make = getattr(_module(WHOLE.get(name, name)), "sweeps", None)
    if make is None:
        others = [other for other in FILES if hasattr(_module(other), "sweeps")]
        raise ValueError(f"{name} has no sweep of its own: there are those of {', '.join(others)}")
    if len(found) > 1:
        raise ValueError(f"{name} is a table of several: sweep {' or '.join(FILES[name][1])}")
    sweeps: dict[str, Sweep] = make(found[0])
    chosen = next(iter(sweeps)) if which is None else which
    require_known("sweep", chosen, sweeps)
    return chosen, sweeps[chosen].ends() if length == "quick" else sweeps[chosen]


def from_file(path: Path) -> Experiment:
    """EXPERIMENT of a user's own Python file, which is run for it."""
    found = value_of(path, "EXPERIMENT")
    if not isinstance(found, Experiment):
        raise ValueError(f"{path} has no EXPERIMENT, a poise.running.experiment.Experiment")
    return found


def sweep_from_file(path: Path) -> Sweep:
    """SWEEP of a user's own Python file, which is run for it."""
    found = value_of(path, "SWEEP")
    if not isinstance(found, Sweep):
        raise ValueError(f"{path} has no SWEEP, a poise.running.sweep.Sweep")
    return found


def _module(name: str) -> Any:
    return import_module(f"poise.recipes.{FILES[name][0]}")
