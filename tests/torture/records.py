"""Finished runs whose records are damaged, and the tables and pages that are made of them."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from torture.damage import change, flip, oddity
from torture.forks import command, forked
from torture.row import Row, Subjects
from torture.subjects import undisturbed

_FORMATS = ("text", "markdown", "latex", "csv", "json")


def cases(work: Path, subjects: Subjects) -> list[str]:
    return [str(seed) for seed in range(400)]


def judge_flipped(case: str, work: Path, home: Path) -> str:
    """Refused, or the same table with all its digits: never another one in silence."""
    draw, runs = random.Random(int(case)), home / "runs"
    shutil.copytree(undisturbed("plain", work).home / "runs", runs)
    before = forked(command("table", runs, "--json"))
    what = draw.choice((flip, flip, change))(_damaged(runs, draw), draw)
    after = forked(command("table", runs, "--json"))
    if before.code or after.wrong:
        return f"{what}: {before.wrong or after.wrong}"
    return "" if after.refused or after.out == before.out else f"{what}: another table in silence"


def judge_odd(case: str, work: Path, home: Path) -> str:
    """A table and a page, or a sentence."""
    draw, runs = random.Random(int(case)), home / "runs"
    if draw.random() < 0.5:
        shutil.copytree(undisturbed("plain", work).home / "runs", runs)
    else:
        import fake_records

        fake_records.mnist(runs, seeds=2)
    what = "; ".join(oddity(_damaged(runs, draw), draw) for _ in range(draw.choice((1, 1, 2))))
    for words in (("table", runs, "--format", draw.choice(_FORMATS)), ("report", runs)):
        if wrong := forked(command(*words)).wrong:
            return f"{what}: {words[0]}: {wrong}"
    return ""


def _damaged(runs: Path, draw: random.Random) -> Path:
    return draw.choice(sorted(runs.rglob(draw.choice(("record.json", "record.json", "experiment.json")))))


ROWS = (
    Row("flipped", "flipped record.json, experiment.json", cases, judge_flipped, ("plain",)),
    Row("odd", "odd values there, table and report", cases, judge_odd, ("plain",)),
)
