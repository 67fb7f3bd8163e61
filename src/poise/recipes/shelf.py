"""The experiments and sweeps that come with Poise, by name, and those of a file.

A file of the shelf has EXPERIMENTS, {length: experiments}: one for each part of its table, a data set say. The whole
table has a name, and so has each part.
"""

from __future__ import annotations

import runpy
import sys
from importlib import import_module
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any, Literal, TypeAlias

from poise.checks import require_known
from poise.recipes.names import FILES, WHOLE
from poise.running.experiment import Experiment
from poise.running.sweep import Sweep

_FOLDERS: set[Path] = set()  # of the files that were run
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
    found = _named(path, "EXPERIMENT")
    if not isinstance(found, Experiment):
        raise ValueError(f"{path} has no EXPERIMENT, a poise.running.experiment.Experiment")
    return found


def sweep_from_file(path: Path) -> Sweep:
    """SWEEP of a user's own Python file, which is run for it."""
    found = _named(path, "SWEEP")
    if not isinstance(found, Sweep):
        raise ValueError(f"{path} has no SWEEP, a poise.running.sweep.Sweep")
    return found


def neighbours() -> list[ModuleType]:
    """The modules that files of the user have imported from their own folders."""
    return [module for name, module in sys.modules.items() if any(_lies_in(f, name, module) for f in _FOLDERS)]


def _lies_in(folder: Path, name: str, module: ModuleType) -> bool:
    """As a module of this name would lie there: not deeper, as an environment may."""
    stem = folder.joinpath(*name.split("."))
    file = getattr(module, "__dict__", {}).get("__file__")
    return file is not None and Path(file) in (stem.with_suffix(".py"), stem / "__init__.py")


def _module(name: str) -> Any:
    return import_module(f"poise.recipes.{FILES[name][0]}")


def _named(path: Path, name: str) -> Any:
    """What a file calls so, when it has run. As when Python runs it, its folder is the first place of imports."""
    folder = path.resolve().parent
    _FOLDERS.add(folder)
    sys.path.insert(0, str(folder))
    try:
        return runpy.run_path(str(path)).get(name)
    except (Exception, SystemExit) as error:  # whatever a file of someone else's may raise
        lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(path)]
        place = f"{path}, line {lines[-1]}" if lines else f"{path}"
        raise ValueError(f"{place}: {type(error).__name__}: {error}") from None
