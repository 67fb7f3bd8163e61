"""A row of the table: what is tried, and who judges it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

Judge = Callable[[str, Path, Path], str]


@dataclass(frozen=True)
class Row:
    """A way to torture.

    cases     what is tried, a few words each that say all of it, found in the work folder of all rows.
    judge     tries one, in a folder of its own: what is lost or wrong, or nothing.
    subjects  the undisturbed commands that it needs.
    limit     seconds after which a case does not end.
    counts    the tries in a case.
    """

    name: str
    title: str
    cases: Callable[[Path], Sequence[str]]
    judge: Judge
    subjects: tuple[str, ...] = ()
    limit: float = 120.0
    counts: int = 1
