"""The folders of runs: whole files only, one process at a time, one recipe each."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from poise.distributed import rank, share
from poise.reporting.recipes import differences
from poise.training.errors import TrainingError

_HELD: set[IO[str]] = set()
_SURROUNDINGS = ("task", "network", "plan")  # what all methods of a table have in common


class Busy(Exception):
    """Another process is at it."""


def _give_up() -> None:
    """A forked process, one that decodes pictures say, holds no folder: it may live on for seconds after its parent."""
    for lock in _HELD:
        lock.close()
    _HELD.clear()


os.register_at_fork(after_in_child=_give_up)


@contextmanager
def busy(folder: Path) -> Iterator[bool]:
    """Whether the folder is ours while we are inside; False if another runner is at it. One process asks for all."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        _HELD.add(lock)
        try:
            yield share(_locked(lock) if rank() == 0 else False)
        finally:
            _HELD.discard(lock)


def held(folder: Path) -> bool:
    """Whether a process is at it; to look does not keep others from it for longer than that."""
    try:
        with (folder / ".lock").open() as lock:
            return not _locked(lock, fcntl.LOCK_SH)
    except FileNotFoundError:
        return False


@contextmanager
def alone(folder: Path, pause: float = 0.5) -> Iterator[None]:
    """The folder for ourselves; another process that is at it is waited for, with a look every `pause` seconds."""
    while True:
        with busy(folder) as mine:
            if mine:
                yield
                return
        time.sleep(pause)


@contextmanager
def ours(folder: Path) -> Iterator[None]:
    """The folder for ourselves; Busy if another process is at it."""
    with busy(folder) as mine:
        if not mine:
            raise Busy
        yield


def in_turns(attempts: Sequence[Callable[[bool], bool]], pause: float = 0.5) -> None:
    """Each attempt until it succeeds; one that does not comes again after the others, and is told so. Where none does,
    there is a pause of at least so many seconds, and as long as they took."""
    again = False
    while attempts:
        begun = time.monotonic()
        later = [attempt for attempt in attempts if not attempt(again)]
        if len(later) == len(attempts):
            time.sleep(max(pause, time.monotonic() - begun))
        attempts, again = later, True


def _locked(lock: IO[str], how: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def mixing(folder: Path, recipes: dict[str, str]) -> None:
    """A TrainingError if a run in the folder of an experiment, finished or begun, cannot stand in one table with these.

    recipes  by the folder of their method. Runs of other methods need the same task, network and plan.
    """
    for run in sorted(folder.glob("*/seed-*")) if recipes else []:
        own = recipes.get(run.parent.name)
        recipe, fields = (next(iter(recipes.values())), _SURROUNDINGS) if own is None else (own, ("",))
        _differing(run / "record.json", recipe, fields)


def _differing(record: Path, recipe: str, fields: tuple[str, ...]) -> None:
    """A TrainingError if the run in this folder has another recipe, as to the fields that begin so."""
    for path in (record, record.with_name("recipe.json")):
        if not path.exists():
            continue
        try:
            held = str(json.loads(path.read_text())["recipe"])
        except (ValueError, KeyError, TypeError):
            raise TrainingError(
                f"{path} is damaged: remove it, and the run continues from its checkpoint, if it has one"
            ) from None
        changed = [line for line in differences(held, recipe) if line.startswith(fields)]
        if changed:
            raise TrainingError(
                f"{path.parent} holds a run with another recipe (there, here): {'; '.join(changed)}; "
                "use another --out, or give the experiment another name"
            )
