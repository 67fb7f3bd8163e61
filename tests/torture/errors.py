"""An OSError instead of a file operation; then the same command once more."""

from __future__ import annotations

import errno
from pathlib import Path

from torture.forks import forked
from torture.operations import fail_at
from torture.row import Row, Subjects
from torture.subjects import undisturbed

_NAMES = ("ENOSPC", "EACCES", "EIO")
_SUBJECTS = ("plain", "sweep", "kept", "fleet")


def cases(work: Path, subjects: Subjects) -> list[str]:
    """The three errors in turn."""
    counts = {name: len(undisturbed(name, work).operations) for name in subjects}
    return [f"{name} {_NAMES[at % 3]} {at}" for name, count in counts.items() for at in range(count)]


def judge(case: str, work: Path, home: Path) -> str:
    """A sentence, or nothing where the operation is not needed."""
    name, error, number = case.split()
    alone = undisturbed(name, work)
    failed = forked(alone.command(home, lambda: fail_at(home / "runs", int(number), getattr(errno, error))))
    wrong = failed.wrong or alone.differs(home)
    return f"{' '.join(alone.operations[int(number)])}: {wrong}" if wrong else ""


ROWS = (Row("errors", "OSError injected at every operation", cases, judge, _SUBJECTS),)
