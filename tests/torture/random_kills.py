"""Killed at random moments, up to three times; and several processes on one folder, some of which are killed."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from torture.forks import Child, start
from torture.row import Row, Subjects
from torture.subjects import SUBJECTS, undisturbed

_TOGETHER = ("plain", "sweep", "fleet")


def _alone(work: Path, subjects: Subjects) -> list[str]:
    return [f"{name} {seed}" for name in subjects for seed in range(25)]


def judge_alone(case: str, work: Path, home: Path) -> str:
    """A kill may come anywhere, between two operations too."""
    name, seed = case.split()
    alone, draw = undisturbed(name, work), random.Random(int(seed))
    for _ in range(draw.randint(1, 3)):
        child = start(alone.command(home))
        time.sleep(draw.uniform(0.02, alone.seconds))
        child.kill()
        child.wait()
    return alone.differs(home)


def _together(work: Path, subjects: Subjects) -> list[str]:
    return [f"{name} {count} {seed}" for name in subjects for count in (2, 4) for seed in range(20)]


def judge_together(case: str, work: Path, home: Path) -> str:
    """No record is written twice, nobody waits for ever, and all come to what one alone comes to."""
    name, count, seed = case.split()
    alone, draw, log = undisturbed(name, work), random.Random(int(seed)), home / "written"
    begin = partial(start, alone.command(home, lambda: _note_records(log)))
    children = [begin() for _ in range(int(count))]
    for _ in range(draw.randint(0, 3)):
        time.sleep(draw.uniform(0, alone.seconds))
        children = _replaced(children, draw.randrange(len(children)), begin)
    ends = [child.wait(60) for child in children]
    if wrong := next((end.wrong for end in ends if end.wrong), ""):
        return f"of {count} at once, one: {wrong}"
    return alone.differs(home) or _twice(log)


def _replaced(children: list[Child], place: int, begin: Callable[[], Child]) -> list[Child]:
    children[place].kill()
    children[place].wait()
    return [begin() if at == place else child for at, child in enumerate(children)]


def _note_records(log: Path) -> None:
    """From now on, a line for every record that is in its place."""
    lines, real = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), os.replace

    def replace(source: str, target: str) -> None:
        real(source, target)
        if Path(target).name == "record.json":
            os.write(lines, f"{target}\n".encode())

    os.replace = replace  # type: ignore[assignment]


def _twice(log: Path) -> str:
    written = Counter(log.read_text().splitlines())
    if not written:
        return "no record was seen to be written"
    return next((f"{path} is written {count} times" for path, count in written.items() if count > 1), "")


ROWS = (
    Row("random", "killed at random moments", _alone, judge_alone, tuple(SUBJECTS)),
    Row("together", "2 and 4 processes on one folder, with kills", _together, judge_together, _TOGETHER),
)
