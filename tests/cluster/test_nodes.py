"""The examples for clusters, word by word, on two nodes that this machine plays; a worker is killed on the way."""

import json
import os
import subprocess
from pathlib import Path
from shlex import join

import pytest
import torch
from cluster.nodes import ROOT, environment, free_port, two_nodes
from miniature import EXPERIMENT

from poise.errors import TrainingError
from poise.running.runner import Runner

pytestmark = pytest.mark.miniature

EXAMPLES = ROOT / "examples/cluster"
RUN = ["run", "--device", "cpu", "--seeds", "1"]


def record(out: Path, method: str) -> dict:
    return json.loads((out / "blobs" / method / "seed-00" / "record.json").read_text())


def tool(folder: Path, name: str, *lines: str) -> None:
    path = folder / name
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)


def test_slurm_a_killed_worker_costs_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    """Slurm's own two commands are played; the script, torchrun and the death are real, and nodes as far as allowed."""
    script = (EXAMPLES / "slurm.sh").read_text().replace(":29500", f":{free_port()}")
    (tmp_path / "slurm.sh").write_text(script)
    facts = {"NODELIST": "poise-[0-1]", "NUM_NODES": "2", "ID": "17"}
    own = environment(**{f"SLURM_JOB_{name}": value for name, value in facts.items()}, SLURM_GPUS_ON_NODE="1")
    own |= {"PATH": f"{tmp_path}{os.pathsep}{own['PATH']}", "KILLED": str(tmp_path / "killed")}
    with two_nodes(tmp_path) as nodes:
        tool(tmp_path, "scontrol", f'[ "$*" = "show hostnames $SLURM_JOB_NODELIST" ] && echo {nodes.first}')
        starts = [f'{join(enter)} "$@" & pids="$pids $!"' for enter in nodes.enter]
        tool(tmp_path, "srun", "shift", *starts, "for pid in $pids; do wait $pid || exit 1; done")
        call = ["bash", str(tmp_path / "slurm.sh"), *RUN, "tests/cluster/killing.py", "--out", str(tmp_path / "runs")]
        done = subprocess.run(call, env=own, capture_output=True, text=True, check=False, timeout=200, cwd=ROOT)
    assert (done.returncode, (tmp_path / "killed").exists()) == (0, True), done.stderr[-3000:]
    assert done.stdout == f"{tmp_path / 'runs' / 'blobs'}: 2 finished\n"
    assert "poise: another process of this run was lost: torchrun restarts all of them" in done.stderr
    assert "Traceback" not in done.stderr
    straight, killed = record(tmp_path / "runs", "fcl"), record(tmp_path / "runs", "killed")
    assert straight["engine"] == "eager, float32, 2 processes, synchronised batch norm"
    assert killed["log"][:2] == straight["log"][:2]  # the seconds too: these epochs were read, not trained again
    assert [entry["loss"] for entry in killed["log"]] == [entry["loss"] for entry in straight["log"]]
    assert (killed["scores"], killed["classes"]) == (straight["scores"], straight["classes"])
    assert sum(total for _, total in straight["classes"]["clean"]) == 100


def test_kubernetes_two_pods_train_what_one_process_trains(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: the example is not read")
    service, job = yaml.safe_load_all((EXAMPLES / "kubernetes.yaml").read_text())
    name, spec = job["metadata"]["name"], job["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    options = dict(word[2:].split("=") for word in container["command"] if "=" in word)
    assert spec["completions"] == spec["parallelism"] == int(options["nnodes"]) == 2
    assert container["resources"]["limits"]["nvidia.com/gpu"] == int(options["nproc-per-node"])
    assert pod["subdomain"] == service["metadata"]["name"] and service["spec"]["selector"] == {"job-name": name}
    assert options["rdzv-endpoint"] == f"{name}-0.{service['metadata']['name']}:29500"
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    known = {each["name"]: each["value"] for each in container["env"]}
    with two_nodes(tmp_path) as nodes:
        there = {"nproc-per-node=8": "nproc-per-node=1", "29500": str(free_port())}
        there |= {"poise-0.poise": "localhost"} if nodes.first == "localhost" else {}
        command = list(container["command"])
        for old, new in there.items():
            command = [word.replace(old, new) for word in command]
        words = [*RUN, "tests/miniature.py", "--out", str(tmp_path / "two"), "--method", "XE", "--method", "FCL"]
        pods = nodes.run([*command, *words], **known)
    assert [pod.returncode for pod in pods] == [0, 0], [pod.stderr[-2000:] for pod in pods]
    assert sorted(pod.stdout for pod in pods) == ["", f"{tmp_path / 'two' / 'blobs'}: 2 finished\n"]
    Runner(EXPERIMENT, tmp_path / "one", torch.device("cpu")).run(["XE", "FCL"], [0])
    two, one = record(tmp_path / "two", "xe"), record(tmp_path / "one", "xe")
    assert two["engine"] == "eager, float32, 2 processes"
    for a, b in zip(two["log"], one["log"], strict=True):
        assert a["loss"]["xe"] == pytest.approx(b["loss"]["xe"], rel=1e-4)
    assert two["classes"] == one["classes"]
    assert record(tmp_path / "two", "fcl")["log"][3]["loss"]["contrast"] > 0
    (tmp_path / "two/blobs/xe/seed-00/record.json").unlink()
    with pytest.raises(TrainingError, match="started with 2 processes, not 1"):
        Runner(EXPERIMENT, tmp_path / "two", torch.device("cpu")).run(["XE"], [0])
