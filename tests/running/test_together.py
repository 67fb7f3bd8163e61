"""Several experiments in one process: their order, what they share, and what one that fails does to the others."""

import dataclasses
import itertools
import json
import queue
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import tiny_cifar
import torch
from deadlines import Soon

from poise.errors import NotFinite, TrainingError
from poise.io.files import try_lock
from poise.recipes.cifar import cifar_c, noisy_cifar
from poise.running.beginnings import beginning, shared_folder
from poise.running.experiment import Experiment, Method
from poise.running.runner import Event, Runner, in_turns, run_together
from poise.schedules import Ramp
from poise.training.checkpoint import has_checkpoint

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
    ends = [event.method for event in heard if event.what == "finished"]
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


def part_of(experiment: Experiment, out: Path, epochs: int) -> Path:
    """Where so many epochs of the trunk of XE lie."""
    return shared_folder(out / "models", experiment, (beginning(experiment.methods[0]), epochs), 0)


def test_what_another_process_is_at_is_wait_lock_alone_and_the_rest_goes_on(out: Path) -> None:
    experiment, heard = parting(("FCL", 2), ("CL+Gaussian", 4)), queue.SimpleQueue[Event]()
    augmented = next(each for each in tiny(noisy_cifar.table).methods if each.name == "PG+XE")
    experiment = dataclasses.replace(experiment, methods=(*experiment.methods, augmented))
    runner = Runner(experiment, out, CPU, listen=heard.put)
    with ThreadPoolExecutor() as pool:
        with try_lock(part_of(experiment, out, 2)):
            running = pool.submit(run_together, [runner], ["XE", "FCL", "PG+XE"], [0])
            said = [heard.get(timeout=60) for _ in range(2)]
            assert [(e.method, e.what) for e in said] == [("XE", "waiting to train"), ("FCL", "waiting to train")]
            while heard.get(timeout=60).what != "finished":
                pass
            assert runner.record_path(augmented, 0).exists() and not has_checkpoint(part_of(experiment, out, 2))
        assert len(running.result()[runner]) == 3 and has_checkpoint(part_of(experiment, out, 4))
    said = [heard.get() for _ in range(heard.qsize())]
    assert [event.method for event in said if event.what == "finished"] == ["XE", "FCL"]


@pytest.mark.parametrize("what", ["part", "model"])
def test_who_waits_holds_nothing_and_says_so_once(what: str, out: Path) -> None:
    """So that the run is anybody's who can begin."""
    experiment, heard = parting(("FCL", 2), ("CL+Gaussian", 4)), list[Event]()
    runner, xe = Runner(experiment, out, CPU, listen=heard.append), experiment.methods[0]
    model = shared_folder(out / "models", experiment, (xe.objective, xe.augment), 0)
    with try_lock(model if what == "model" else part_of(experiment, out, 2)):
        assert not runner.attempt(xe, 0)
        assert [str(event) for event in heard] == [
            "waiting to train XE (seed 0): another process is training what it needs"
        ]
        assert not runner.attempt(xe, 0, again=True) and len(heard) == 1
        assert not runner.record_path(xe, 0).parent.exists()
    with try_lock(runner.record_path(xe, 0).parent):
        assert runner.attempt(xe, 0) and str(heard[-1]) == "skipping XE (seed 0): another process is running it"


def test_nobody_waits_beyond_the_deadline(out: Path) -> None:
    experiment, heard, soon = parting(("FCL", 2)), list[Event](), Soon(looks=2)
    with try_lock(part_of(experiment, out, 2)):
        assert Runner(experiment, out, CPU, listen=heard.append, deadline=soon).run(["FCL"], [0]) == []
    assert soon.looked == 3 and [event.what for event in heard] == ["waiting to train"]


def test_attempts_come_again_after_the_others_and_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, pauses, left = [], list[float](), {"a": 3, "b": 1, "c": 2}
    monkeypatch.setattr(time, "sleep", pauses.append)

    def attempt(name: str, again: bool) -> bool:
        calls.append((name, again))
        left[name] -= 1
        return left[name] == 0

    in_turns([partial(attempt, name) for name in left], pause=5.0)
    assert calls == [("a", False), ("b", False), ("c", False), ("a", True), ("c", True), ("a", True)]
    assert pauses == []  # something came to its end in every round
    in_turns([lambda again: again], pause=5.0)
    assert pauses == [5.0]


def damage(folder: Path) -> None:
    for path in folder.glob("*.safetensors"):
        path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize(("what", "epochs"), [("trunk", 2 + 2), ("model", 2)])
def test_where_a_checkpoint_is_damaged_the_one_before_it_is_shared_still(what: str, epochs: int, out: Path) -> None:
    """CL+Gaussian goes on from 4 epochs, of which 2 are FCL's as well."""
    experiment, heard = parting(("FCL", 2), ("CL+Gaussian", 4)), list[Event]()
    runner, gaussian = Runner(experiment, out, CPU, listen=heard.append), experiment.methods[-1]
    (path,) = runner.run(["CL+Gaussian"], [0])
    before, trunk = path.read_text(), (beginning(gaussian), 4)
    model = shared_folder(out / "models", experiment, (gaussian.objective, gaussian.augment), 0)
    path.unlink()
    if what == "trunk":
        damage(shared_folder(out / "models", experiment, trunk, 0))
        shutil.rmtree(model)
    else:
        damage(model)
    heard.clear()
    runner.run(["CL+Gaussian"], [0])
    assert epochs_trained(heard) == epochs and any("is damaged" in str(event) for event in heard)
    one, other = json.loads(before), json.loads(path.read_text())
    assert one["trunk"] == other["trunk"] and one["log"][:2] == other["log"][:2]  # to the second


def test_a_method_that_fails_does_not_keep_the_others_from_being_run(out: Path) -> None:
    noisy = tiny(noisy_cifar.table)
    known = {method.name: method for method in noisy.methods}
    mad = Method("mad", dataclasses.replace(known["XE+Gaussian"].objective, weight=1e300), known["XE"].augment)
    runner = Runner(dataclasses.replace(noisy, methods=(mad, known["PG+XE"]), groups=()), out, CPU)
    with pytest.raises(NotFinite, match=r"^mad \(seed 0\): .* is not finite") as failed:
        run_together([runner], None, [0, 1])
    assert "seed 1" not in str(failed.value)  # of a method that fails no more seeds are tried
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
