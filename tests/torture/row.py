"""A row of the table: what is tried, and who judges it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

Subjects = tuple[str, ...]
Cases = Callable[[Path, Subjects], Sequence[str]]
Judge = Callable[[str, Path, Path], str]


@dataclass(frozen=True)
class Row:
    """A way to torture.

    cases     what is tried with some subjects, a few words each that say all of it, in the work folder of all rows.
    judge     tries one, in a folder of its own: what is lost or wrong, or nothing.
    subjects  the undisturbed commands that it needs; where there are several, a case begins with one.
    limit     seconds after which a case does not end.
    counts    the tries in a case.
    """

    name: str
    title: str
    cases: Cases
    judge: Judge
    subjects: Subjects = ()
    limit: float = 120.0
    counts: int = 1
