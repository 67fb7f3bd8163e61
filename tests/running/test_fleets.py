"""Fleets in the runner: the same records as run by run, what is finished left, what was begun gone on with."""

import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from miniature import EXPERIMENT
from torch import nn

from poise import XE, AugMix, CLGaussian, Gaussian, InfoNCE, JensenShannon, LeNet, Ramp, ResNet
from poise.errors import NotFinite, TrainingError
from poise.records.schema import load_results
from poise.running import fleets
from poise.running.experiment import Build, Experiment, Method, Task
from poise.running.fleets import run_fleets
from poise.running.record import Event
from poise.running.runner import Runner
from poise.training.checkpoint import newest

pytestmark = pytest.mark.miniature
CPU = torch.device("cpu")
STRONGER = Method("CL+Gaussian, stronger", CLGaussian(Gaussian(0.5), InfoNCE(0.1), Ramp(0.1, start=12, length=6)))
RESIDUAL = Build(ResNet, num_classes=3, blocks=((1, 4, 1), (1, 8, 2)), mean=(0.5,), std=(0.5,))
WIDE = dataclasses.replace(EXPERIMENT, methods=(*EXPERIMENT.methods, STRONGER))


def run(out: Path, experiment: Experiment = EXPERIMENT, methods=None, **options: object) -> list[Event]:
    heard: list[Event] = []
    run_fleets(Runner(experiment, out, CPU, listen=heard.append, **options), methods)
    return heard


def record(out: Path, method: str, seed: int) -> dict:
    return json.loads((out / "blobs" / method / f"seed-{seed:02d}" / "record.json").read_text())


def test_fleets_leave_the_records_of_their_runs(tmp_path: Path) -> None:
    heard = run(tmp_path, WIDE)
    training = {str(event) for event in heard if event.now}
    sizes = [("XE", 2), ("CL+Gaussian", 4), ("FCL", 2)]
    assert training == {f"training {name} (seed 0) in a fleet of {n}" for name, n in sizes}
    (results,) = load_results(tmp_path / "blobs")
    assert len(results.records) == 8
    one = record(tmp_path, "cl-gaussian-stronger", 1)
    assert one["engine"] == "eager, float32, a fleet of 4" and one["trunk"] is None
    weights = [entry["loss"].get("weight", 0.0) for entry in one["log"]]
    assert weights == pytest.approx([0.0, 0.0, 0.1 * 2.5 / 6, 0.1])
    assert one["scores"]["clean"] > 0.9 and isinstance(one["log"][-1]["validation"], float)


def test_what_wraps_another_objective_is_trained_alone(tmp_path: Path) -> None:
    mixed = Method("AugMix", JensenShannon(XE(), AugMix(width=1, depth=1)))
    experiment = dataclasses.replace(EXPERIMENT, methods=(mixed, EXPERIMENT.methods[0]), groups=())
    heard = run(tmp_path / "fleet", experiment)
    training = {str(event) for event in heard if event.now}
    assert training == {"training AugMix (seed 0)", "training AugMix (seed 1)", "training XE (seed 0) in a fleet of 2"}
    Runner(experiment, tmp_path / "alone", CPU).run(["AugMix"])
    for seed in (0, 1):
        one, other = record(tmp_path / "fleet", "augmix", seed), record(tmp_path / "alone", "augmix", seed)
        assert one["scores"] == other["scores"]


def test_of_a_fleet_the_run_whose_loss_is_not_finite_is_named(tmp_path: Path) -> None:
    weight = dataclasses.replace(STRONGER.objective.weight, peak=1e40)
    wild = dataclasses.replace(STRONGER, objective=dataclasses.replace(STRONGER.objective, weight=weight))
    wide = dataclasses.replace(WIDE, methods=(*EXPERIMENT.methods, wild))
    with pytest.raises(
        NotFinite, match=r"^CL\+Gaussian, stronger \(seed 0\): \w+ is not finite at step 1\d \(epoch 3\)"
    ):
        run(tmp_path, wide, ["CL+Gaussian", wild.name])
    heard = run(tmp_path, wide, ["CL+Gaussian"])  # without it the others are well
    assert {str(event).partition(" in a ")[2] for event in heard if event.now} == {"fleet of 2"}


@pytest.mark.parametrize("network", [EXPERIMENT.network, RESIDUAL], ids=["LeNet", "ResNet"])
def test_a_run_in_a_fleet_is_the_run_alone(network: Build, tmp_path: Path) -> None:
    """Without noise nothing but rounding tells them apart."""
    experiment = dataclasses.replace(EXPERIMENT, network=network)
    run(tmp_path / "fleet", experiment, methods=["XE"])
    Runner(experiment, tmp_path / "alone", CPU, share_trunks=False).run(["XE"])
    for seed in range(2):
        one, other = record(tmp_path / "fleet", "xe", seed), record(tmp_path / "alone", "xe", seed)
        assert one["recipe"] == other["recipe"]
        for entry, expected in zip(one["log"], other["log"], strict=True):
            assert entry["loss"]["xe"] == pytest.approx(expected["loss"]["xe"], rel=1e-3)
            assert entry["validation"] == pytest.approx(expected["validation"], abs=0.02)


def test_the_weights_of_every_run_are_kept(tmp_path: Path) -> None:
    run(tmp_path, methods=["XE"])
    held = newest(tmp_path / "blobs/xe/seed-01", lambda sentence: None)
    assert held is not None
    model = LeNet(3, size=16)
    model.load_state_dict({name.removeprefix("model/"): tensor for name, tensor in held.tensors.items()})
    assert held.facts["log"] == record(tmp_path, "xe", 1)["log"]


def test_what_is_finished_is_left_and_what_was_begun_goes_on(tmp_path: Path) -> None:
    Runner(EXPERIMENT, tmp_path, CPU).run(["XE"], [0])
    stop = Interrupt(epochs=2)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, dataclasses.replace(EXPERIMENT, watch=stop), methods=["XE", "FCL"], keep_every=0.0)
    heard = run(tmp_path, dataclasses.replace(EXPERIMENT, watch=Interrupt(epochs=99)), keep_every=0.0)
    assert ("XE", 0, "finished") in {(event.method, event.seed, event.what) for event in heard}
    first = next(event.now for event in heard if event.method == "FCL" and event.now)
    assert first.epoch == 1  # the epoch before the one that was interrupted is not trained again
    run(tmp_path / "straight", dataclasses.replace(EXPERIMENT, watch=Interrupt(epochs=99)), methods=["FCL"])
    one, other = record(tmp_path, "fcl", 1), record(tmp_path / "straight", "fcl", 1)
    assert one["scores"] == other["scores"]
    assert [entry["loss"] for entry in one["log"]] == [entry["loss"] for entry in other["log"]]


class Interrupt:
    """Watches a number, and Ctrl-C comes after some epochs of FCL's fleet: two runs, and one of XE before it."""

    def __init__(self, epochs: int) -> None:
        self.left = 4 + 2 * epochs

    def __call__(self, model: nn.Module, task: Task) -> dict[str, float]:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return {"bias": next(model.parameters()).mean().item()}

    def __repr__(self) -> str:
        return "Interrupt()"


def test_a_fleet_that_is_home_is_only_tested(tmp_path: Path) -> None:
    run(tmp_path, methods=["FCL"])
    path = tmp_path / "blobs/fcl/seed-01/record.json"
    before = json.loads(path.read_text())
    path.unlink()
    heard = run(tmp_path, methods=["FCL"])
    assert not [event for event in heard if event.now] and ("FCL", 0) in {(e.method, e.seed) for e in heard}
    after = json.loads(path.read_text())
    assert {**after, "finished": "", "checksum": ""} == {**before, "finished": "", "checksum": ""}


@pytest.mark.parametrize("processes", ["0", "1", "2"])
def test_killed_at_every_file_operation_a_fleet_ends_as_if_nothing_had_happened(tmp_path: Path, processes: str) -> None:
    """Else the runs that have no last weights yet are trained again as a smaller fleet, to others."""
    environment = {**os.environ, "PYTHONPATH": "src:tests", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "tests/killed_fleets.py", tmp_path, processes]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    said = json.loads(done.stdout or "null")
    assert said and said["operations"] > 50 and said["records"] == 2, done.stderr
    assert said["differing"] == {}


def test_a_run_whose_weights_are_gone_gets_those_of_its_fleet(tmp_path: Path) -> None:
    run(tmp_path, WIDE, methods=["CL+Gaussian", STRONGER.name])
    home = tmp_path / "blobs/cl-gaussian-stronger/seed-01"
    before = record(tmp_path, "cl-gaussian-stronger", 1)
    for path in [home / "record.json", *home.glob("checkpoint-*")]:
        path.unlink()
    heard = run(tmp_path, WIDE, methods=[STRONGER.name])
    after = record(tmp_path, "cl-gaussian-stronger", 1)
    assert not [event for event in heard if event.now]
    assert after["log"] == before["log"] and after["scores"] == before["scores"]


def test_a_fleet_that_was_begun_is_that_fleet_beside_more_seeds(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, dataclasses.replace(EXPERIMENT, watch=Interrupt(epochs=0)), methods=["FCL"], keep_every=0.0)
    heard = run(tmp_path, dataclasses.replace(EXPERIMENT, seeds=3), methods=["FCL"])
    sizes = {str(event).partition(" in a ")[2] for event in heard if event.now}
    assert sizes == {"fleet of 2", "fleet of 1"}
    run(tmp_path / "straight", methods=["FCL"])
    for seed in range(2):
        one, other = record(tmp_path, "fcl", seed), record(tmp_path / "straight", "fcl", seed)
        assert one["scores"] == other["scores"] and one["engine"] == other["engine"]


def test_a_fleet_that_is_out_of_time_goes_on_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as stopped:  # the fleet begins in time, and its first epoch ends after it
        stopped.setattr(fleets, "time", SimpleNamespace(monotonic=lambda: 0.0))
        over = run(tmp_path, methods=["FCL"], deadline=0.01)
    assert ": the time limit was reached after epoch 1 of 4" in str(over[-1])
    assert run(tmp_path, methods=["FCL"], deadline=time.monotonic() - 1) == []
    run(tmp_path, methods=["FCL"])
    run(tmp_path / "straight", methods=["FCL"])
    assert record(tmp_path, "fcl", 1)["scores"] == record(tmp_path / "straight", "fcl", 1)["scores"]


class InGroups(LeNet):
    """A network with a layer that fleets do not support."""

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes, size=16)
        self.norm = nn.GroupNorm(2, 6)


def test_other_layers_are_not_supported(tmp_path: Path) -> None:
    experiment = dataclasses.replace(EXPERIMENT, network=Build(InGroups, num_classes=3))
    with pytest.raises(TrainingError, match=r"not supported in fleets, .*without --fleet"):
        run(tmp_path, experiment, methods=["XE"])


def test_the_command_trains_in_fleets(tmp_path: Path, monkeypatch, capsys) -> None:
    from poise.cli import main as cli

    words = ["run", "tests/miniature.py", "--out", str(tmp_path), "--method", "XE", "--fleet", "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["poise", *words])
    with pytest.raises(SystemExit) as end:
        cli.run()
    assert end.value.code == 0
    said = capsys.readouterr()
    assert said.out == f"{tmp_path / 'blobs'}: 2 finished\n" and "in a fleet of 2" in said.err


class Share:
    """Measures how many tests it sees."""

    def __call__(self, model: nn.Module, task: Task) -> dict[str, float]:
        return {"tests": float(len(task.tests))}


@pytest.mark.parametrize("testing", [True, False])
def test_what_is_measured_sees_tests_only_where_they_are_meant(tmp_path: Path, testing: bool) -> None:
    experiment = dataclasses.replace(EXPERIMENT, measures=Share(), watch=Share(), testing=testing)
    run(tmp_path, experiment, methods=["XE"])
    one, seen = record(tmp_path, "xe", 0), 2.0 if testing else 0.0
    assert one["scores"]["tests"] == seen and ("clean" in one["scores"]) == testing
    assert [entry["measures"] for entry in one["log"]] == [{"tests": seen}] * 4


def test_a_fleet_whose_list_is_damaged_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, dataclasses.replace(EXPERIMENT, watch=Interrupt(epochs=0)), methods=["FCL"])
    (path,) = tmp_path.rglob("fleet.json")
    path.write_text(path.read_text().replace('"seed": 1', '"seed": 2'))
    heard = run(tmp_path, methods=["FCL"])
    assert [event for event in heard if "fleet.json is damaged" in event.detail and event.what == "warning for"]
    assert record(tmp_path, "fcl", 1)["engine"].endswith("a fleet of 2")
