"""Two processes of torchrun: one set of records, the result of one process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from miniature import EXPERIMENT

from poise.experiments.runner import Runner

pytestmark = pytest.mark.miniature

FILE = Path(__file__).parents[1] / "miniature.py"


def torchrun(out: Path, *words: str, processes: int = 2) -> subprocess.CompletedProcess[str]:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command = [*launch, "-m", "poise", "run", str(FILE), "--out", str(out), "--device", "cpu", "--seeds", "1", *words]
    environment = {**os.environ, "PYTHONPATH": "src:tests", "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)


def record(out: Path, method: str) -> dict:
    return json.loads((out / "blobs" / method / "seed-00" / "record.json").read_text())


def test_two_processes_train_what_one_trains(tmp_path: Path) -> None:
    done = torchrun(tmp_path / "two", "--method", "XE", "--method", "FCL")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == f"{tmp_path / 'two' / 'blobs'}: 2 finished\n"
    Runner(EXPERIMENT, tmp_path / "one", torch.device("cpu")).run(["XE", "FCL"], [0])
    two, one = record(tmp_path / "two", "xe"), record(tmp_path / "one", "xe")
    assert two["engine"] == "eager, float32, 2 processes"
    for a, b in zip(two["log"], one["log"], strict=True):
        assert a["loss"]["xe"] == pytest.approx(b["loss"]["xe"], rel=1e-4)
    assert record(tmp_path / "two", "fcl")["log"][3]["loss"]["contrast"] > 0


def test_going_on_with_another_number_of_processes_is_refused(tmp_path: Path) -> None:
    Runner(EXPERIMENT, tmp_path, torch.device("cpu")).run(["XE"], [0])
    (tmp_path / "blobs/xe/seed-00/record.json").unlink()
    done = torchrun(tmp_path, "--method", "XE")
    assert done.returncode != 0
    assert "begun by 1 processes, not 2: go on with as many" in done.stderr
