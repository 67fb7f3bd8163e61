"""Runs on a local Ray: the records of the local runner, a killed worker, a sweep on a cluster that is there, Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from cluster.killing import EXPERIMENT
from cluster.nodes import ROOT, environment, free_port
from miniature import SWEEP

from poise.experiments.cluster import Cluster, run_on_cluster, search_on_cluster
from poise.experiments.logs import Event
from poise.experiments.runner import Runner
from poise.experiments.search import Search
from poise.reporting.sweeps import load_sweep
from poise.training.errors import TrainingError

CPU = torch.device("cpu")
needs_ray = pytest.mark.skipif(
    find_spec("ray") is None, reason='ray is not installed: pip install "poise[cluster]"'
)


def record(out: Path, method: str) -> dict:
    return json.loads((out / "blobs" / method / "seed-00" / "record.json").read_text())


@needs_ray
@pytest.mark.miniature
@pytest.mark.filterwarnings("default")  # Ray's own
def test_a_killed_worker_is_replaced_and_the_records_are_those_of_one_machine(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("KILLED", str(tmp_path / "killed"))
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    heard: list[Event] = []
    runner = Runner(EXPERIMENT, tmp_path / "ray", CPU, listen=heard.append)
    records = run_on_cluster(runner, Cluster(), seeds=[0])
    assert len(records) == 2 and (tmp_path / "killed").exists()
    Runner(EXPERIMENT, tmp_path / "here", CPU).run(seeds=[0])
    for method in ("fcl", "killed"):
        one, other = record(tmp_path / "ray", method), record(tmp_path / "here", method)
        for name in ("scores", "classes", "validation", "recipe", "trunk", "engine", "device"):
            assert one[name] == other[name], name
        assert [entry["loss"] for entry in one["log"]] == [entry["loss"] for entry in other["log"]]
    assert record(tmp_path / "ray", "killed")["log"][:2] == record(tmp_path / "ray", "fcl")["log"][:2]
    said = [event.what for event in heard if event.method == "killed" and event.now is None]
    lost = "lost its worker (WorkerCrashedError) and goes on from its last checkpoint"
    assert said == [lost, "is tested", "is finished"]
    assert {event.method for event in heard if event.now is not None} == {"FCL", "killed"}
    heard.clear()
    assert run_on_cluster(runner, Cluster(), seeds=[0]) == records and heard == []
