"""The runner: methods x seeds, to a table; finished runs left, nothing mixed, trunks shared."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from miniature import EXPERIMENT

from poise import XE
from poise.errors import RecordError, TrainingError
from poise.records.columns import Column
from poise.records.schema import load_results
from poise.running.beginnings import quiet_steps
from poise.running.experiment import Method
from poise.running.record import Event
from poise.running.runner import Runner

pytestmark = pytest.mark.miniature

CPU = torch.device("cpu")
FILE = Path(__file__).parents[1] / "miniature.py"


def run(out: Path, experiment: object = EXPERIMENT, methods=None, seeds=None, **options: object) -> list[Event]:
    heard: list[Event] = []
    Runner(experiment, out, CPU, listen=heard.append, **options).run(methods, seeds)
    return heard


def record(out: Path, method: str, seed: int) -> dict:
    return json.loads((out / "blobs" / method / f"seed-{seed:02d}" / "record.json").read_text())


def test_a_grid_leaves_records_that_make_a_table(tmp_path: Path) -> None:
    run(tmp_path)
    (results,) = load_results(tmp_path / "blobs")
    found = {(each.method, each.seed) for each in results.records}
    assert found == {(method.name, seed) for method in EXPERIMENT.methods for seed in range(2)}
    one = record(tmp_path, "fcl", 1)
    assert set(one["scores"]) == {"clean", "mixed"} and one["scores"]["clean"] > 0.9
    right, total = (sum(column) for column in zip(*one["classes"]["clean"], strict=True))
    assert total == 100 and one["scores"]["clean"] == right / total
    assert one["trunk"] == {"epochs": 2} and len(one["log"]) == 4 and one["engine"] == "eager, float32"
    assert "TopBottom(k=40" in one["recipe"] and "seed" not in one["recipe"].split("objective=")[0]


def test_what_a_killed_process_left_beside_a_record_goes(tmp_path: Path) -> None:
    run(tmp_path, methods=["XE"], seeds=[0])
    home = tmp_path / "blobs/xe/seed-00"
    before = sorted(home.iterdir())
    (home / "tested.jsonl").write_text("{}")
    (home / ".poise-0123.part").write_text("half")
    run(tmp_path, methods=["XE"], seeds=[0])
    assert sorted(home.iterdir()) == before


def test_every_epoch_leaves_a_line(tmp_path: Path) -> None:
    run(tmp_path, methods=["FCL"], seeds=[0])
    lines = (tmp_path / "blobs/fcl/seed-00/log.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == record(tmp_path, "fcl", 0)["log"]


def test_what_is_finished_is_left(tmp_path: Path) -> None:
    run(tmp_path, methods=["XE"], seeds=[0])
    before = (tmp_path / "blobs/xe/seed-00/record.json").stat().st_mtime_ns
    heard = run(tmp_path, methods=["XE"], seeds=[0])
    assert [event.what for event in heard] == ["finished"]
    assert (tmp_path / "blobs/xe/seed-00/record.json").stat().st_mtime_ns == before


def test_the_same_seed_gives_the_same_record_and_another_seed_another(tmp_path: Path) -> None:
    run(tmp_path / "a", methods=["FCL"])
    run(tmp_path / "b", methods=["FCL"])
    volatile = {"seconds", "started", "finished", "checksum"}

    def settled(value: object) -> object:
        if isinstance(value, dict):
            return {key: settled(each) for key, each in value.items() if key not in volatile}
        return [settled(each) for each in value] if isinstance(value, list) else value

    assert settled(record(tmp_path / "a", "fcl", 0)) == settled(record(tmp_path / "b", "fcl", 0))
    assert record(tmp_path / "a", "fcl", 0)["log"][0]["loss"] != record(tmp_path / "a", "fcl", 1)["log"][0]["loss"]


def test_a_shared_trunk_changes_nothing_but_the_work(tmp_path: Path) -> None:
    shared = run(tmp_path / "shared", seeds=[0])
    run(tmp_path / "straight", seeds=[0], share_trunks=False)
    for name in ("xe", "cl-gaussian", "fcl"):
        one, other = record(tmp_path / "shared", name, 0), record(tmp_path / "straight", name, 0)
        assert one["scores"] == other["scores"] and one["classes"] == other["classes"]
        assert [entry["loss"] for entry in one["log"]] == [entry["loss"] for entry in other["log"]]
        assert (one["trunk"], other["trunk"]) == ({"epochs": 2}, None)
    trunk = {event.method for event in shared if event.now and "shared" in str(event)}
    assert trunk == {"XE"}  # the first to need it trained it


def test_methods_share_a_trunk_only_if_they_begin_alike() -> None:
    total = 24
    assert [quiet_steps(method.objective, total) for method in EXPERIMENT.methods] == [24, 13, 13]
    always = dataclasses.replace(EXPERIMENT.methods[1].objective, weight=0.1)
    assert quiet_steps(always, total) == 0


def test_another_recipe_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    run(tmp_path, methods=["FCL"], seeds=[0])
    plan = dataclasses.replace(EXPERIMENT.plan, epochs=5)
    with pytest.raises(TrainingError, match=r"another recipe \(there, here\): plan.epochs: 4, 5; use another --out"):
        run(tmp_path, dataclasses.replace(EXPERIMENT, plan=plan), methods=["FCL"], seeds=[0])


def test_a_network_that_cannot_be_built_leaves_no_recipe(tmp_path: Path) -> None:
    def nothing() -> torch.nn.Module:
        raise TrainingError("the table has 3 rows, not 30,522")

    with pytest.raises(TrainingError, match="3 rows"):
        run(tmp_path, dataclasses.replace(EXPERIMENT, network=nothing), methods=["FCL"], seeds=[0])
    run(tmp_path, methods=["FCL"], seeds=[0])
    assert record(tmp_path, "fcl", 0)["recipe"]


@pytest.mark.parametrize(("method", "seed"), [("XE", 0), ("FCL", 1)])
def test_runs_that_no_table_could_hold_are_refused_before_they_are_made(method: str, seed: int, tmp_path: Path) -> None:
    """Of another method, or of another seed; and what is there keeps its table."""
    run(tmp_path, methods=["FCL"], seeds=[0])
    held = (tmp_path / "blobs" / "experiment.json").read_bytes()
    plan = dataclasses.replace(EXPERIMENT.plan, epochs=5)
    other = dataclasses.replace(EXPERIMENT, title="Others", plan=plan)
    with pytest.raises(TrainingError, match=r"fcl/seed-00 holds a run with another recipe .*: plan.epochs: 4, 5; use"):
        run(tmp_path, other, methods=[method], seeds=[seed])
    assert (tmp_path / "blobs" / "experiment.json").read_bytes() == held


def test_another_objective_of_another_method_is_none_of_its_business(tmp_path: Path) -> None:
    run(tmp_path, methods=["FCL"], seeds=[0])
    contrast = dataclasses.replace(EXPERIMENT.methods[2].objective, weight=0.5)
    methods = (*EXPERIMENT.methods[:2], Method("FCL", contrast))
    run(tmp_path, dataclasses.replace(EXPERIMENT, methods=methods), methods=["XE"], seeds=[0])
    assert record(tmp_path, "xe", 0)["method"] == "XE"


@pytest.mark.parametrize(("one", "other"), [("FCL, 1", "fcl 1"), ("+", "XE"), ("..", "XE")])
def test_every_method_has_a_folder_of_its_own(one: str, other: str) -> None:
    methods = [dataclasses.replace(EXPERIMENT.methods[0], name=name) for name in (one, other)]
    with pytest.raises(ValueError, match="needs a name that differs"):
        dataclasses.replace(EXPERIMENT, methods=tuple(methods), groups=((one, other),))


@pytest.mark.parametrize("name", ["sweeps", "Models", "fleets"])
def test_no_method_or_experiment_takes_a_folder_of_ours(name: str) -> None:
    method = dataclasses.replace(EXPERIMENT.methods[0], name=name)
    with pytest.raises(ValueError, match=f"a method is called '{name.lower()}', a folder name that Poise uses"):
        dataclasses.replace(EXPERIMENT, methods=(method,), groups=())
    with pytest.raises(ValueError, match=f"an experiment is called '{name}', a folder name that Poise uses"):
        dataclasses.replace(EXPERIMENT, name=name)


def test_folders_are_called_after_methods_in_any_script() -> None:
    names = {"PG+FCL": "pg-fcl", "FCL, margin": "fcl-margin", "a_b 0.1": "a-b-0.1", "方法 Ä": "方法-ä"}
    assert {name: Method(name, XE()).folder for name in names} == names


def test_an_experiment_has_a_method() -> None:
    with pytest.raises(ValueError, match="'blobs' has no methods"):
        dataclasses.replace(EXPERIMENT, methods=(), groups=())


@pytest.mark.parametrize("name", ["", "..", "a/b", "../a", "a\\b"])
def test_an_experiment_stays_in_its_folder(name: str) -> None:
    with pytest.raises(ValueError, match="choose a valid folder name"):
        dataclasses.replace(EXPERIMENT, name=name)


def flip(path: Path) -> None:
    """Another digit in the middle of a number: JSON still, of the same shape."""
    text = path.read_text()
    place = next(found.start() for found in re.finditer(r"\d", text) if found.start() > len(text) // 2)
    path.write_text(f"{text[:place]}{(int(text[place]) + 1) % 10}{text[place + 1 :]}")


@pytest.mark.parametrize("damage", [flip, lambda path: path.write_text(path.read_text()[:100])])
def test_a_damaged_record_is_named_and_made_again_without_training(damage, tmp_path: Path) -> None:
    """What a table refuses is not finished."""
    run(tmp_path, methods=["XE"], seeds=[0])
    path = tmp_path / "blobs/xe/seed-00/record.json"
    whole = json.loads(path.read_text())
    damage(path)
    with pytest.raises(RecordError, match=r"record.json is damaged.*`poise run` or `poise reproduce`"):
        load_results(tmp_path)
    heard = run(tmp_path, methods=["XE"], seeds=[0])
    assert [str(event) for event in heard if event.what == "warning for" and "record.json is damaged" in event.detail]
    assert not any(event.now for event in heard)
    again = json.loads(path.read_text())
    assert again["scores"] == whole["scores"] and again["log"] == whole["log"]  # with the seconds of then


def test_a_recipe_that_is_damaged_is_written_again_beside_a_record(tmp_path: Path) -> None:
    run(tmp_path, methods=["XE"], seeds=[0])
    path = tmp_path / "blobs/xe/seed-00/recipe.json"
    flip(path)
    run(tmp_path, methods=["XE"], seeds=[0])
    path.with_name("record.json").unlink()
    with pytest.raises(TrainingError, match=r"recipe.json is damaged: remove it to continue"):
        run(tmp_path, methods=["XE"], seeds=[0])


def command(out: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "poise", "run", str(FILE), "--out", str(out), "--device", "cpu", *words]


def test_killed_and_run_again_it_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": "src:tests"}
    killed = subprocess.Popen(command(tmp_path / "killed"), env=environment, stderr=subprocess.DEVNULL)
    for _ in range(900):
        if list((tmp_path / "killed").rglob("checkpoint-*.json")):
            break
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    done = subprocess.run(command(tmp_path / "killed"), env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path / 'killed' / 'blobs'}: 6 finished\n"
    run(tmp_path / "straight")
    for method in ("xe", "cl-gaussian", "fcl"):
        for seed in range(2):
            one, other = record(tmp_path / "killed", method, seed), record(tmp_path / "straight", method, seed)
            assert one["scores"] == other["scores"]
            assert [entry["loss"] for entry in one["log"]] == [entry["loss"] for entry in other["log"]]


def test_of_two_runners_in_one_folder_each_run_is_trained_by_one(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": "src:tests"}
    both = [
        subprocess.Popen(command(tmp_path), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    ends = [runner.communicate() for runner in both]
    assert [runner.returncode for runner in both] == [0, 0], ends
    tested = [line for _, heard in ends for line in heard.splitlines() if line.startswith("testing")]
    assert len(tested) == len(set(tested)) == 6
    (results,) = load_results(tmp_path / "blobs")
    assert len(results.records) == 6


ENDLESS = """
from dataclasses import replace
from miniature import EXPERIMENT
EXPERIMENT = replace(EXPERIMENT, plan=replace(EXPERIMENT.plan, epochs=100_000))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no such signals here")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_whoever_helps_ends_with_whom_it_helps(name: str, tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    words = [str(tmp_path / "endless.py") if word == str(FILE) else word for word in command(tmp_path, "--jobs", "2")]
    environment = {**os.environ, "PYTHONPATH": "src:tests"}
    first = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)
    for _ in range(900):
        if len(list((tmp_path / "blobs").glob("*/seed-*"))) == 2:
            break
        time.sleep(0.05)
    first.send_signal(signal.Signals[name])
    try:
        _, said = first.communicate(timeout=30)
        assert (first.returncode, said.count("interrupted")) == (130, 1)
        with pytest.raises(ProcessLookupError):
            os.killpg(first.pid, 0)  # nobody of its group is left
    finally:
        with suppress(ProcessLookupError):
            os.killpg(first.pid, signal.SIGKILL)


def test_jobs_are_as_many_processes_and_all_their_records_are_named(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": "src:tests"}
    words = command(tmp_path, "--jobs=2", "--seeds", "1", "--json", "--quiet")
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    names = [f"{tmp_path}/blobs/{method}/seed-00/record.json" for method in ("xe", "cl-gaussian", "fcl")]
    assert json.loads(done.stdout) == {"folder": f"{tmp_path}/blobs", "records": names, "left": 0}


class Odd:
    """Measures what is no number."""

    def __call__(self, model: object, task: object) -> dict[str, float]:
        return {"odd": True}

    def __repr__(self) -> str:
        return "Odd()"


def test_a_run_that_no_table_could_read_is_not_written_down(tmp_path: Path) -> None:
    """It would be made again by every command."""
    with pytest.raises(TrainingError, match=r"XE \(seed 0\) cannot be recorded: its 'scores': 'odd' is True, not a"):
        run(tmp_path, dataclasses.replace(EXPERIMENT, measures=Odd()), methods=["XE"], seeds=[0])
    assert not list(tmp_path.rglob("record.json"))


def test_an_experiment_that_would_have_no_table_is_not_made() -> None:
    with pytest.raises(ValueError, match=r"no table can be made of the experiment 'blobs': its 'columns': 0: 'name'"):
        dataclasses.replace(EXPERIMENT, columns=(Column("", ("clean",)),))
