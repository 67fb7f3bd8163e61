"""Bits flipped in what `data get` stored; then an experiment on it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from torture.damage import flip
from torture.forks import forked
from torture.row import Row, Subjects
from torture.subjects import difference, outcome_of, undisturbed


def cases(work: Path, subjects: Subjects) -> list[str]:
    return [f"{name} {seed}" for name in subjects for seed in range(60)]


def judge(case: str, work: Path, home: Path) -> str:
    """Refused in a sentence; or the same records, where nobody reads what was flipped."""
    name, seed = case.split()
    alone, draw, cache = undisturbed(name, work), random.Random(int(seed)), home / "cache"
    shutil.copytree(alone.cache, cache)
    path = draw.choice(sorted(path for path in cache.rglob("*.*") if path.is_file() and path.suffix != ".lock"))
    what = flip(path, draw)
    end = forked(alone.command(home, cache=cache))
    wrong = end.wrong or ("" if end.refused else difference(alone.outcome, outcome_of(home / "runs")))
    return f"{path.parent.name}, {what}: {wrong}" if wrong else ""


ROWS = (
    Row("arrays", "flipped cache: arrays", cases, judge, ("cifar",)),
    Row("texts", "flipped cache: texts", cases, judge, ("sentiment",)),
)
