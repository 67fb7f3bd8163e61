"""Killed just before every file operation, or in the middle of a write; then the same command once more."""

from __future__ import annotations

from pathlib import Path

from torture.forks import forked
from torture.operations import die_at
from torture.row import Row, Subjects
from torture.subjects import undisturbed

_ALONE = ("plain", "sweep", "kept", "sentiment")


def cases(work: Path, subjects: Subjects) -> list[str]:
    return [f"{name} {number}" for name in subjects for number in range(len(undisturbed(name, work).operations))]


def judge(case: str, work: Path, home: Path) -> str:
    """Records and weights must be those of the run that nobody killed, to the bit."""
    name, number = case.split()
    alone = undisturbed(name, work)
    killed = forked(alone.command(home, lambda: die_at(home / "runs", int(number))))
    if killed.code != -9:
        return f"it was not killed: {killed.wrong or 'it ended'}"
    wrong = alone.differs(home)
    return f"killed at {' '.join(alone.operations[int(number)])}: {wrong}" if wrong else ""


ROWS = (
    Row("killed", "killed at every file operation: plain, sweep, kept models, sentiment", cases, judge, _ALONE),
    Row("killed-fleet", "the same, `--fleet`", cases, judge, ("fleet",)),
)
