"""Many runs in one process: its memory stays what it was."""

from __future__ import annotations

import gc
import os
import shutil
from pathlib import Path

from torture.forks import forked
from torture.row import Row
from torture.subjects import RECIPES

_RUNS, _BEFORE = 200, 40  # of which so many before the first look
_MOST = 10 * 2**20  # bytes


def judge(case: str, work: Path, home: Path) -> str:
    """Not more than a few pages for each."""
    end = forked(lambda: _grown(home), limit=500)
    if end.code != 0:
        return end.wrong or end.said
    return f"{end.value / 2**20:.0f} MB more after {_RUNS} runs" if end.value > _MOST else ""


def _grown(home: Path) -> int:
    import torch

    from poise.recipes import index
    from poise.running.runner import Runner

    experiment, before = index.experiment_from_file(RECIPES / "plain.py"), 0
    for number in range(_RUNS):
        Runner(experiment, home / "runs", torch.device("cpu")).run(["FCL"], [number])
        shutil.rmtree(home / "runs")
        if number == _BEFORE:
            before = _resident()
    return _resident() - before


def _resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


ROWS = (
    Row("soak", f"soak, {_RUNS} runs in a process", lambda work, subjects: ["runs"], judge, ("plain",), 600, _RUNS),
)
