"""Processes of torchrun and a run that others began; what they train is tested in tests/cluster."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from miniature import EXPERIMENT

from poise.distributed import start
from poise.experiments.runner import Runner

pytestmark = pytest.mark.miniature

FILE = Path(__file__).parents[1] / "miniature.py"


def torchrun(out: Path, *words: str, processes: int = 2) -> subprocess.CompletedProcess[str]:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command = [*launch, "-m", "poise", "run", str(FILE), "--out", str(out), "--device", "cpu", "--seeds", "1", *words]
    environment = {**os.environ, "PYTHONPATH": "src:tests", "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)


def test_going_on_with_another_number_of_processes_is_refused(tmp_path: Path) -> None:
    Runner(EXPERIMENT, tmp_path, torch.device("cpu")).run(["XE"], [0])
    (tmp_path / "blobs/xe/seed-00/record.json").unlink()
    done = torchrun(tmp_path, "--method", "XE")
    assert done.returncode != 0
    assert "begun by 1 processes, not 2: go on with as many" in done.stderr


def test_restarts_with_one_store_for_all_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_MAX_RESTARTS": "3"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="--max-restarts needs TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"):
        start("cpu")
