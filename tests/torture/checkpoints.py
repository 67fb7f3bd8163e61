"""A run that was killed, and of whose checkpoints and test counts one is damaged; then the same command once more."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path, PurePath

from torture.damage import change, cut, flip
from torture.forks import forked
from torture.operations import die_at
from torture.row import Row, Subjects
from torture.subjects import Undisturbed, undisturbed

_SUBJECTS = ("plain", "sentiment", "cifar", "fleet")
_FILES = ("checkpoint-*.json", "checkpoint-*.safetensors", "tested.jsonl")


def cases(work: Path, subjects: Subjects) -> list[str]:
    return [f"{name} {seed}" for name in subjects for seed in range(75)]


def judge(case: str, work: Path, home: Path) -> str:
    """What is damaged is not used, so that the records are the same; of a finished run it stays as it is."""
    name, seed = case.split()
    alone, draw = undisturbed(name, work), random.Random(int(seed))
    path = _killed(alone, draw, home)
    kinds = (flip, cut, change, change) if path.suffix == ".json" else (flip, cut)
    what = draw.choice(kinds)(path, draw)
    wrong = alone.differs(home, weights=False)
    return f"{path.parent.relative_to(home)}, {what}: {wrong}" if wrong else ""


def _killed(alone: Undisturbed, draw: random.Random, home: Path) -> Path:
    """A file to damage, in the folder of a run that was killed soon after it came there."""
    while True:
        kind = draw.choice(_FILES)
        placed = [
            at for at, (how, path) in enumerate(alone.operations) if how == "rename" and PurePath(path).match(kind)
        ]
        if not placed:
            continue
        at = draw.choice(placed) + draw.randint(1, 5)
        forked(alone.command(home, partial(die_at, home / "runs", at)))
        if found := sorted((home / "runs").rglob(kind)):
            return draw.choice(found)


ROWS = (Row("checkpoints", "damaged checkpoints", cases, judge, _SUBJECTS),)
