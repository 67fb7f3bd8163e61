"""Runs on a local Ray: the records of the local runner, a killed worker, a sweep on a cluster that is there, Ctrl-C."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from cluster.killing import EXPERIMENT
from cluster.nodes import ROOT, environment, free_port

from poise.cli import main as cli
from poise.errors import TrainingError
from poise.recipes import index
from poise.reporting.sweep_page import load_sweep
from poise.running.ray_cluster import Cluster, run_on_cluster, watch
from poise.running.runner import Runner
from poise.running.sweeps import Search

CPU = torch.device("cpu")
needs_ray = pytest.mark.skipif(
    find_spec("ray") is None, reason='ray is not installed: pip install ".[cluster]" in a clone of Poise'
)


def record(out: Path, method: str) -> dict:
    return json.loads((out / "blobs" / method / "seed-00" / "record.json").read_text())


@pytest.fixture
def one_thread() -> Iterator[None]:
    """As the workers have: sums in another order end in other records."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@needs_ray
@pytest.mark.miniature
@pytest.mark.usefixtures("one_thread")
def test_a_killed_worker_is_replaced_and_the_records_are_those_of_one_machine(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("KILLED", str(tmp_path / "killed"))
    words = ["run", "tests/cluster/killing.py", "--seeds", "1", "--out", str(tmp_path / "ray"), "--device", "cpu"]
    call = [sys.executable, "-m", "poise", *words, "--engine", "ray"]
    done = subprocess.run(call, env=environment(), cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 'ray' / 'blobs'}: 2 finished\n"), done.stderr
    assert (tmp_path / "killed").exists()
    Runner(EXPERIMENT, tmp_path / "here", CPU).run(seeds=[0])
    for method in ("fcl", "killed"):
        one, other = record(tmp_path / "ray", method), record(tmp_path / "here", method)
        for name in ("scores", "classes", "validation", "recipe", "trunk", "engine"):
            assert one[name] == other[name], name
        assert [entry["loss"] for entry in one["log"]] == [entry["loss"] for entry in other["log"]]
    assert record(tmp_path / "ray", "killed")["log"][:2] == record(tmp_path / "ray", "fcl")["log"][:2]
    said = re.findall(
        r"\w[\w ]* (?:FCL|killed) \(seed 0\).*", done.stderr
    )  # Ray's own words may begin a line, in another thread
    lost = "restarting killed (seed 0) from its last checkpoint: its worker was lost (WorkerCrashedError)"
    ends = [line for line in said if "killed" in line and not re.match("training|waiting", line)]
    assert ends == [lost, "testing killed (seed 0)", "finished killed (seed 0)"]
    assert {"training FCL (seed 0)", "training killed (seed 0)"} <= set(said)
    runner = Runner(EXPERIMENT, tmp_path / "ray", CPU)
    assert len(run_on_cluster(runner, Cluster(), seeds=[0])) == 2  # nothing is left to send, so no Ray is asked


SLOW = """
import time
from dataclasses import dataclass, replace
from miniature import SWEEP as QUICK

@dataclass(frozen=True)
class Rest:
    def __call__(self, model, task):
        time.sleep(0.3)
        return {}

slow = replace(QUICK.experiment, watch=Rest())
SWEEP = replace(QUICK, experiment=slow, choices={"objective.select.k": (10, 20, 30, 40)})
"""


@pytest.fixture
def head() -> Iterator[str]:
    """The address of a cluster that somebody else has started."""
    address = f"127.0.0.1:{free_port()}"
    call = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--port={address[10:]}"]
    small = ["--num-cpus=2", "--include-dashboard=false", "--object-store-memory=100000000", "--disable-usage-stats"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*call, *small], env=environment(**TOKEN), cwd=ROOT, **quiet) as started:
        try:
            while started.poll() is None and not _answers(address):
                time.sleep(0.1)
            yield address
        finally:
            started.terminate()


def _answers(address: str) -> bool:
    try:
        socket.create_connection(("127.0.0.1", int(address[10:])), timeout=1).close()
    except OSError:
        return False
    return True


TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "of-this-test-alone-" + "0" * 32}


def sweep(out: Path, address: str) -> subprocess.Popen[str]:
    (out / "slow.py").write_text(SLOW)
    words = ["sweep", str(out / "slow.py"), "--name", "own", "--out", str(out / "runs"), "--device", "cpu"]
    call = [sys.executable, "-m", "poise", *words, "--engine", "ray", "--address", address]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(call, env=environment(**TOKEN), cwd=ROOT, text=True, **pipes)


@needs_ray
@pytest.mark.miniature
def test_a_sweep_on_a_cluster_that_is_there_ends_at_ctrl_c_and_goes_on(head: str, tmp_path: Path) -> None:
    with sweep(tmp_path, head) as driver:
        assert driver.stderr is not None
        before: list[str] = []
        while not before or not before[-1].startswith("finished"):
            before.append(driver.stderr.readline())
            assert before[-1], before
        driver.send_signal(signal.SIGINT)
        _, said = driver.communicate(timeout=60)
    assert driver.returncode == 130 and "Traceback" not in said
    assert said.splitlines()[-1].startswith("poise: interrupted. Finished work is saved")
    done = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("record.json")}
    assert 1 <= len(done) < 4
    found = index.sweep_from_file(tmp_path / "slow.py")
    Search(found, "own", tmp_path / "runs", CPU).run()  # here goes on what began there
    swept = load_sweep(tmp_path / "runs/blobs/sweeps/own")
    assert len(swept.scored) == len(swept.trials) == 4 and swept.trials[0].summary.mean > 0.9
    assert done.items() <= {path: path.stat().st_mtime_ns for path in tmp_path.rglob("record.json")}.items()


ENDLESS = """
from dataclasses import replace
from neighbour import Rest
from miniature import EXPERIMENT
EXPERIMENT = replace(EXPERIMENT, watch=Rest(), plan=replace(EXPERIMENT.plan, epochs={epochs}))
"""
NEIGHBOUR = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Rest:
    def __call__(self, model, task):
        return {}
"""


def start(home: Path, epochs: int) -> subprocess.Popen[str]:
    """A run on a Ray of its own, of a recipe that imports its neighbour."""
    (home / "neighbour.py").write_text(NEIGHBOUR)
    (home / "recipe.py").write_text(ENDLESS.format(epochs=epochs))
    words = ["run", str(home / "recipe.py"), "--out", str(home / "runs"), "--device", "cpu", "--engine", "ray"]
    call = [sys.executable, "-m", "poise", *words, "--seeds", "1", "--method", "XE"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(call, env=environment(), cwd=ROOT, text=True, **pipes)


@needs_ray
@pytest.mark.miniature
def test_a_recipe_may_import_its_neighbour(tmp_path: Path) -> None:
    with start(tmp_path, 1) as driver:
        out, said = driver.communicate(timeout=120)
    assert (driver.returncode, out) == (0, f"{tmp_path / 'runs' / 'blobs'}: 1 finished\n"), said


def of_session(pid: int) -> list[int]:
    """The living processes of the Ray that a process has started, by the files that they hold open."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            files = [os.readlink(file) for file in (process / "fd").iterdir()]
            found += [int(process.name)] * any(re.search(rf"/session_[-_\d]+_{pid}/", file) for file in files)
    return found


@needs_ray
@pytest.mark.miniature
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no /proc")
@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL", "raylet"])
def test_however_a_command_ends_its_ray_ends_with_it(how: str, tmp_path: Path) -> None:
    with start(tmp_path, 100_000) as driver:
        for _ in range(600):
            if list(tmp_path.glob("runs/blobs/xe/seed-00/*")):
                break
            time.sleep(0.1)
        begun = of_session(driver.pid)
        (raylet,) = [pid for pid in begun if Path(f"/proc/{pid}/comm").read_text().startswith("raylet")]
        killed, number = (raylet, signal.SIGKILL) if how == "raylet" else (driver.pid, signal.Signals[how])
        os.kill(killed, number)
        _, said = driver.communicate(timeout=60)
    last = (said.splitlines() or [""])[-1]  # nothing is said by what is killed
    assert "Traceback" not in said
    if how == "SIGTERM":
        assert (driver.returncode, last.partition(".")[0]) == (130, "poise: interrupted")
    elif how == "raylet":
        assert driver.returncode == 1 and "lost the connection to Ray (" in last and "finished work is saved" in last
    for _ in range(100):  # the watchdog needs a moment where the command could not wait for it
        if not of_session(driver.pid):
            break
        time.sleep(0.05)
    assert len(begun) > 4 and of_session(driver.pid) == []


def test_a_head_that_is_gone_is_one_sentence(monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr("poise.running.ray_cluster.time.monotonic", lambda: now[0])
    with socket.create_server(("127.0.0.1", 0)) as place:
        address = f"127.0.0.1:{place.getsockname()[1]}"
        look = watch(address)
        now[0] = 50.0
        look()  # it answers
    now[0] = 80.0
    look()  # not, but it may come back
    now[0] = 100.0
    with pytest.raises(TrainingError, match=f"Ray's head at {address}; finished work is saved"):
        look()


HOLDING = """
import sys, threading
from dataclasses import replace
from miniature import EXPERIMENT
sys.path.insert(0, __file__.rpartition("/")[0] + "/elsewhere")
import far

class Near:
    lock = threading.Lock()
    def __call__(self, model, task):
        return {{}}

EXPERIMENT = replace(EXPERIMENT, watch={rest}())
"""


@needs_ray
@pytest.mark.miniature
@pytest.mark.parametrize(
    ("rest", "sentence"),
    [
        ("Near", "the recipe cannot be sent to Ray's workers: cannot pickle '_thread.lock' object"),
        ("far.Rest", "a worker cannot read the recipe: No module named 'far'; put the modules of the recipe beside it"),
    ],
)
def test_a_recipe_that_does_not_reach_the_workers_is_one_sentence(rest: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "far.py").write_text(NEIGHBOUR)
    (tmp_path / "recipe.py").write_text(HOLDING.format(rest=rest))
    words = ["run", str(tmp_path / "recipe.py"), "--out", str(tmp_path / "runs"), "--device", "cpu", "--engine", "ray"]
    call = [sys.executable, "-m", "poise", *words, "--seeds", "1", "--method", "XE"]
    done = subprocess.run(call, env=environment(), cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"poise: {sentence}" in done.stderr


def command(monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    """Run a command in this process; what it ends with."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "argv", ["poise", *words])
    with pytest.raises(SystemExit) as end:
        cli.run()
    return end.value.code


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--address", "auto"), "--address and --gpus-per-run need --engine ray"),
        (("--engine", "ray", "--fleet"), "--fleet trains all runs in one process: omit it, or --engine ray"),
        (
            ("--engine", "ray", "--jobs", "2"),
            "--jobs starts processes on this machine: omit it, or --engine ray",
        ),
        (("--engine", "ray", "--gpus-per-run", "2"), "--gpus-per-run"),
        (("--engine", "ray", "--gpus-per-run", "1", "--device", "cpu"), "and device='cpu' contradict each other"),
        (("--engine", "ray", "--device", "gpu"), "device 'gpu': choose auto, cpu or cuda"),
        (("--engine", "rey"), "'rey' is not one of 'local', 'ray'"),
    ],
)
def test_wrong_calls_end_with_2(words: tuple[str, ...], sentence: str, monkeypatch, capsys) -> None:
    assert command(monkeypatch, "run", "tests/miniature.py", *words) == 2
    assert sentence in " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize("what", ["run", "sweep"])
def test_a_missing_ray_is_one_sentence(what: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    end = command(monkeypatch, what, "tests/miniature.py", "--engine", "ray", "--out", str(tmp_path))
    assert end == 'poise: ray is missing: pip install ".[cluster]" in a clone of Poise'


@needs_ray
def test_a_place_where_nobody_listens_is_one_sentence(tmp_path: Path, monkeypatch) -> None:
    words = ["--engine", "ray", "--address", "127.0.0.1:1", "--out", str(tmp_path)]
    end = command(monkeypatch, "run", "tests/miniature.py", *words)
    assert end == f"poise: no Ray at 127.0.0.1:1: Connection refused; {ELSE}"


ELSE = "start a cluster (ray start --head), give another --address, or none to start Ray on this machine"


@needs_ray
def test_an_address_that_a_ray_left_behind_is_one_sentence(tmp_path: Path, monkeypatch) -> None:
    """What "auto" finds where the last Ray was not stopped in order: a file with the address of nobody."""
    monkeypatch.setattr("ray._private.services.find_gcs_addresses", set)  # none runs, whatever this machine is at
    monkeypatch.setattr("ray._private.services.find_bootstrap_address", lambda folder: "127.0.0.1:1")
    with pytest.raises(TrainingError, match=r"no Ray at \S+:1: Connection refused; start a cluster"):
        run_on_cluster(Runner(EXPERIMENT, tmp_path, CPU), Cluster(address="auto"))
    monkeypatch.setattr("ray._private.services.find_bootstrap_address", lambda folder: None)
    with pytest.raises(TrainingError, match="no Ray is running on this node: start a cluster"):
        run_on_cluster(Runner(EXPERIMENT, tmp_path, CPU), Cluster(address="auto"))


@needs_ray
@pytest.mark.parametrize(
    ("says", "sentence"), [(b"", "no answer within 0.5 seconds"), (b"220 hi\r\n", "another service answers")]
)
def test_a_place_that_is_not_rays_is_one_sentence(says: bytes, sentence: str, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("poise.running.ray_cluster._PATIENCE", 0.5)
    monkeypatch.setattr("poise.running.ray_cluster._SILENCE", 0.1)

    def answer(place: socket.socket) -> None:
        with place.accept()[0] as line:
            line.sendall(says)
            while line.recv(100):  # until the other one hangs up
                pass

    with socket.create_server(("127.0.0.1", 0)) as place:
        address = f"127.0.0.1:{place.getsockname()[1]}"
        answering = threading.Thread(target=answer, args=(place,))
        answering.start()
        with pytest.raises(TrainingError, match=f"no Ray at {address}: {sentence}; start a cluster"):
            run_on_cluster(Runner(EXPERIMENT, tmp_path, CPU), Cluster(address=address))
        answering.join()
    waited = f"waiting for Ray at {address} to answer\n"
    assert capsys.readouterr().err == ("" if says else waited)


def test_ray_and_torchrun_do_not_mix(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("poise.running.ray_cluster.world_size", lambda: 2)
    with pytest.raises(TrainingError, match="without torchrun"):
        run_on_cluster(Runner(EXPERIMENT, tmp_path, CPU), Cluster())
