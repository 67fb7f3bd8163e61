"""Several experiments in one process: their order, what they share, and what one that fails does to the others."""

import dataclasses
import itertools
import json
import queue
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import tiny_cifar
import torch

from poise.experiments import cifar_c, noisy_cifar
from poise.experiments.experiment import Experiment, Method
from poise.experiments.folders import alone, busy
from poise.experiments.runner import Event, Runner
from poise.experiments.together import run_together
from poise.experiments.trunks import beginning, shared_folder
from poise.schedules import Ramp
from poise.training.checkpoint import has_checkpoint
from poise.training.errors import NotFinite, OutOfTime, TrainingError

pytestmark = pytest.mark.miniature
CPU = torch.device("cpu")
METHODS = ["PG+XE", "PG+FCL"]


tiny = partial(tiny_cifar.tiny, epochs=6)


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return tiny_cifar.drawn_cifar(tmp_path, monkeypatch)


def epochs_trained(heard: list[Event]) -> int:
    """How many epochs were trained in all."""
    return sum(event.now is not None and event.now.batch == event.now.batches for event in heard)


def losses(path: Path) -> list[object]:
    return [entry["loss"] for entry in json.loads(path.read_text())["log"]]


def test_a_method_is_in_all_tables_before_the_next_one_begins(out: Path) -> None:
    heard: list[Event] = []
    runners = [Runner(tiny(table), out, CPU, listen=heard.append) for table in (cifar_c.table, noisy_cifar.table)]
    done = run_together(runners, METHODS, [0])
    assert [path.parts[-4:-2] for path in done[runners[1]]] == [
        ("noisy-cifar10-quick", "pg-xe"),
        ("noisy-cifar10-quick", "pg-fcl"),
    ]
    ends = [event.method for event in heard if event.what == "is finished"]
    assert ends == ["PG+XE", "PG+XE", "PG+FCL", "PG+FCL"]


def test_a_longer_trunk_goes_on_from_a_shorter_one(out: Path) -> None:
    """PG+FCL begins after 3 epochs of 6 in one table and after 4 in the other: 3 + 3 + 3, then 1 + 2."""
    heard: list[Event] = []
    runners = [Runner(tiny(table), out, CPU, listen=heard.append) for table in (cifar_c.table, noisy_cifar.table)]
    done = run_together(runners, METHODS, [0])
    assert epochs_trained(heard) == 12
    alone = Runner(tiny(noisy_cifar.table), out / "alone", CPU, share_trunks=False)
    assert [losses(path) for path in done[runners[1]]] == [losses(path) for path in alone.run(METHODS, [0])]


def parting(*starts: tuple[str, int]) -> Experiment:
    """XE, and contrasts that switch on after so many of its 6 epochs."""
    noisy = tiny(noisy_cifar.table)
    steps, known = len(noisy.task().train) // noisy.plan.batch_size, {each.name: each for each in noisy.methods}
    late = {
        name: dataclasses.replace(known[name].objective, weight=Ramp(1e-4, start=epochs * steps))
        for name, epochs in starts
    }
    methods = (known["XE"], *(dataclasses.replace(known[name], objective=each) for name, each in late.items()))
    return dataclasses.replace(noisy, methods=methods, groups=())


@pytest.mark.parametrize("order", list(itertools.permutations(["XE", "FCL", "CL+Gaussian"])))
def test_methods_share_what_they_have_in_common_whoever_is_first(order: tuple[str, ...], out: Path) -> None:
    """2 + 2 epochs of the trunk, then 4, 2 and 2."""
    heard: list[Event] = []
    paths = Runner(parting(("FCL", 2), ("CL+Gaussian", 4)), out, CPU, listen=heard.append).run(order, [0])
    assert epochs_trained(heard) == 2 + 2 + 4 + 2 + 2
    trunks = {record["method"]: record["trunk"] for record in (json.loads(path.read_text()) for path in paths)}
    assert trunks == {"XE": {"epochs": 4}, "FCL": {"epochs": 2}, "CL+Gaussian": {"epochs": 4}}


def test_a_trunk_goes_on_from_its_own_parts_not_from_those_of_another_experiment(out: Path) -> None:
    """Else CL+Gaussian's would begin with another's 3 epochs, and not with the 2 of FCL's."""
    Runner(parting(("FCL", 3)), out, CPU).run(["XE"], [0])
    heard: list[Event] = []
    again = dataclasses.replace(parting(("FCL", 2), ("CL+Gaussian", 4)), name="again")
    Runner(again, out, CPU, listen=heard.append).run(["CL+Gaussian", "FCL"], [0])
    assert epochs_trained(heard) == 2 + 2 + 2 + 4


def test_a_part_that_another_process_is_at_is_waited_for(out: Path) -> None:
    experiment, heard = parting(("FCL", 2), ("CL+Gaussian", 4)), queue.SimpleQueue[Event]()
    runner = Runner(experiment, out, CPU, listen=heard.put)
    part, whole = (shared_folder(out / "models", experiment, (beginning(experiment.methods[0]), n), 0) for n in (2, 4))
    with ThreadPoolExecutor() as pool:
        with busy(part):
            waiting = pool.submit(runner.run, ["XE"], [0])
            assert "waits for another process" in heard.get(timeout=60).what
            assert not has_checkpoint(part) and not has_checkpoint(whole)
        (path,) = waiting.result()
    assert has_checkpoint(part) and has_checkpoint(whole) and json.loads(path.read_text())["trunk"] == {"epochs": 4}
    with busy(part), pytest.raises(OutOfTime, match="while another process"), alone(part, deadline=time.monotonic()):
        pass


def test_a_method_that_fails_does_not_keep_the_others_from_being_run(out: Path) -> None:
    noisy = tiny(noisy_cifar.table)
    known = {method.name: method for method in noisy.methods}
    mad = Method("mad", dataclasses.replace(known["XE+Gaussian"].objective, weight=float("inf")), known["XE"].augment)
    runner = Runner(dataclasses.replace(noisy, methods=(mad, known["PG+XE"]), groups=()), out, CPU)
    with pytest.raises(NotFinite, match=r"^mad, seed 0: weight is not finite"):
        run_together([runner], None, [0])
    assert not runner.record_path(mad, 0).exists() and runner.record_path(known["PG+XE"], 0).exists()


def test_a_folder_with_another_recipe_is_refused_before_anything_is_trained(out: Path) -> None:
    noisy, corrupted = tiny(noisy_cifar.table), tiny(cifar_c.table)
    changed = dataclasses.replace(corrupted, plan=dataclasses.replace(corrupted.plan, epochs=1))
    Runner(changed, out, CPU).run(["XE"], [0])
    heard: list[Event] = []
    runners = [Runner(each, out, CPU, listen=heard.append) for each in (noisy, corrupted)]
    with pytest.raises(TrainingError, match="holds a run with another recipe"):
        run_together(runners, ["XE"], [0])
    assert heard == []
