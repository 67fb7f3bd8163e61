"""`poise audit` on hostile data, weights and model folders: nothing of theirs runs, and a sentence says why."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from torture.forks import MEMORY, End, command, forked
from torture.row import Row, Subjects

_CODE = """
import torch
def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(1200, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
"""
_FEW = ("--examples", "20", "--corruptions", "none", "--probes", "2", "--quiet")


def _inputs(work: Path, subjects: Subjects) -> list[str]:
    from torture.hostile_audits import AUDITS

    return list(AUDITS)


def judge_input(case: str, work: Path, home: Path) -> str:
    """Made in another process, so that its memory is not that of the judge."""
    from torture.hostile_audits import AUDITS

    (home / "nets.py").write_text(_CODE)
    (home / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\nfilm\n")
    made = forked(lambda: tuple(map(str, AUDITS[case](home))))
    return (
        f"it cannot be made: {made.said}"
        if made.code
        else _judged(forked(_audit(home, *made.value), 60, 4 * MEMORY), home)
    )


def _hubs(work: Path, subjects: Subjects) -> list[str]:
    """The good folder is made once; it is audited, too, lest all are refused for another reason."""
    from torture.hostile_hubs import HUBS, good

    good(work / "hub")
    return ["none", *HUBS]


def judge_hub(case: str, work: Path, home: Path) -> str:
    from torture.hostile_hubs import HUBS

    shutil.copytree(work / "hub", home / "hub")
    HUBS.get(case, lambda folder: None)(home / "hub")
    (home / "a.tsv").write_text("text\tlabel\n" + "good\t1\nbad\t0\n" * 20)
    end = forked(_audit(home, "hub", "--data", "a.tsv"), 60, 4 * MEMORY)
    return end.said or "it failed" if case == "none" and end.code else _judged(end, home)


def _audit(home: Path, *words: object) -> Callable[[], None]:
    """Asked anything, it hears yes."""

    def run() -> None:
        os.chdir(home)
        sys.stdin = io.StringIO("y\n" * 1000)
        os.environ.update(HF_HUB_OFFLINE="1", HF_HOME=str(home / "hugging-face"), POISE_DATA=str(home / "cache"))
        command("audit", *words, *_FEW)()

    return run


def _judged(end: End, home: Path) -> str:
    """A call that is wrong ends with 2."""
    if (home / "ran").exists():
        return "code ran"
    if end.peak > MEMORY:
        return f"it took {end.peak / 2**20:,.0f} MB of memory"
    return "" if end.code == 2 and "Traceback" not in end.said else end.wrong


ROWS = (
    Row("audits", "hostile audit input", _inputs, judge_input),
    Row("hubs", "hostile Hugging Face folders", _hubs, judge_hub),
)
