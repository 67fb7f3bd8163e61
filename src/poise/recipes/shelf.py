"""Find experiments and sweeps: those in Poise by name, or those of a user's file.

A recipe module has EXPERIMENTS, {length: experiments}, with one experiment for each part of its table, such as a data
set. The whole table and each part have a name.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias

from poise.checks import require_known
from poise.recipes.names import FILES, PAGES, WHOLE
from poise.running.experiment import Experiment, value_of
from poise.running.sweeps import Sweep

FIRST_LOOK = (
    "A miniature: less data and shorter training, so that it runs in minutes. Compare its rows with each other, not "
    "with the paper. The full run, {full.name}, has {full.plan.epochs} epochs and {full.seeds} seeds; "
    "its results: {page}"
)
Length: TypeAlias = Literal["full", "compressed", "quick"]


def find(name: str, length: Length = "full") -> tuple[Experiment, ...]:
    """The experiments of a table, or the one with this name."""
    require_known("experiment", name, [*FILES, *WHOLE])
    whole = WHOLE.get(name, name)
    lengths: dict[str, tuple[Experiment, ...]] = _module(whole).EXPERIMENTS
    if length not in lengths:
        raise ValueError(f"{whole} has no {length} version: choose from {', '.join(lengths)}")
    found = lengths[length]
    if length == "quick":
        found = tuple(_as_first_look(*both, PAGES[whole]) for both in zip(found, lengths["full"], strict=True))
    return found if name in FILES else (found[FILES[whole][1].index(name)],)


def _as_first_look(small: Experiment, full: Experiment, page: str) -> Experiment:
    """The miniature with a notice of what it is, without the paper's numbers: its own cannot be compared with them."""
    return replace(small, paper={}, notice=FIRST_LOOK.format(full=full, page=page))


def find_sweep(name: str, which: str | None = None, length: Length = "full") -> tuple[str, Sweep]:
    """A sweep of the experiment with this name, and the sweep's name; the first one by default."""
    found = find(name, length)
    make = getattr(_module(WHOLE.get(name, name)), "sweeps", None)
    if make is None:
        others = [other for other in FILES if hasattr(_module(other), "sweeps")]
        raise ValueError(f"{name} has no sweep: choose from {', '.join(others)}")
    if len(found) > 1:
        raise ValueError(f"{name} has several parts: sweep {' or '.join(FILES[name][1])}")
    sweeps: dict[str, Sweep] = make(found[0])
    chosen = next(iter(sweeps)) if which is None else which
    require_known("sweep", chosen, sweeps)
    return chosen, sweeps[chosen].ends() if length == "quick" else sweeps[chosen]


def from_file(path: Path) -> Experiment:
    """Run a user's Python file and return its EXPERIMENT."""
    found = value_of(path, "EXPERIMENT")
    if not isinstance(found, Experiment):
        raise ValueError(f"{path} must define EXPERIMENT, a poise.recipes.Experiment")
    return found


def sweep_from_file(path: Path) -> Sweep:
    """Run a user's Python file and return its SWEEP."""
    found = value_of(path, "SWEEP")
    if not isinstance(found, Sweep):
        raise ValueError(f"{path} must define SWEEP, a poise.recipes.Sweep")
    return found


def _module(name: str) -> Any:
    return import_module(f"poise.recipes.{FILES[name][0]}")
