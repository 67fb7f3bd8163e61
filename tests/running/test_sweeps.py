"""Sweeps: the planted best value is found, on validation alone; kills, several processes, wrong paths, journals."""

import dataclasses
import errno
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn
from xml.etree import ElementTree

import pytest
import torch
from miniature import EXPERIMENT, SWEEP, Blobs, blobs

from poise.cli import main as cli
from poise.data.augment import Chain, PatchGaussian, Standard
from poise.errors import RecordError, TrainingError
from poise.recipes import index
from poise.recipes.synthetic_mnist.table_1 import EXPERIMENT as MNIST
from poise.records.schema import load_results
from poise.reporting.sweep_page import load_sweep, sweep_page, sweep_text
from poise.running import sweeps as sweeps_module
from poise.running.experiment import Examples, Task
from poise.running.sweeps import Journal, Search, Sweep, replaced

CPU = torch.device("cpu")
RATE = "plan.learning_rate.initial"
PEAK = "objective.weight.peak"


def search(out: Path, sweep: Sweep = SWEEP, **options: object) -> Search:
    return Search(sweep, "own", out, CPU, **options)


def began(out: Path, sweep: Sweep = SWEEP, **options: object) -> list[str]:
    """Search, and tell which runs were trained, by trial and seed."""
    heard: list[str] = []

    def listen(event: object) -> None:
        heard.extend([f"{event.method}, {event.seed}"] if event.what == "validating" else [])

    search(out, sweep, listen=listen, **options).run()
    return heard


def records(out: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in out.rglob("record.json")}


@dataclasses.dataclass(frozen=True)
class Secret:
    """Blobs whose test sets nobody may see; with a second validation set."""

    def __call__(self) -> Task:
        def never() -> NoReturn:
            raise AssertionError("a sweep looked at a test set")

        def inverted(_: object) -> Examples:
            clean = blobs(60, 1)
            return Examples(255 - clean.x, clean.y)

        return dataclasses.replace(
            Blobs()(), tests={"clean": never, "mixed": never}, validations={"inverted": inverted}
        )


SECRET = dataclasses.replace(
    SWEEP, experiment=dataclasses.replace(EXPERIMENT, task=Secret()), choices={RATE: (1e-7, 0.005)}
)


@pytest.mark.miniature
@pytest.mark.parametrize("sampler", ["grid", "tpe"])
def test_the_best_value_is_found(tmp_path: Path, sampler: str) -> None:
    assert len(began(tmp_path, sampler=sampler)) == 4
    swept = load_sweep(tmp_path / "blobs/sweeps/own")
    assert [trial.values[RATE] for trial in swept.trials] == ["0.005", "0.005", "1e-07", "1e-07"]
    assert swept.trials[0].summary.mean > 0.9 > 0.7 > swept.trials[-1].summary.mean
    assert began(tmp_path, sampler=sampler) == []


@pytest.mark.miniature
def test_trials_share_the_trunk_and_more_seeds_run_only_what_is_missing(tmp_path: Path) -> None:
    sweep = dataclasses.replace(SWEEP, choices={PEAK: (1e-3, 1e-2)})
    began(tmp_path, sweep)
    before = records(tmp_path)
    assert len(list((tmp_path / "models").glob("*"))) == 1
    assert {json.loads(path.read_text())["trunk"]["epochs"] for path in before} == {2}
    heard = began(tmp_path, sweep, seeds=2)
    assert sorted(heard) == ["FCL with weight.peak=0.001, 1", "FCL with weight.peak=0.01, 1"]
    assert before.items() <= records(tmp_path).items()
    assert [trial.summary.seeds for trial in load_sweep(tmp_path / "blobs/sweeps/own").trials] == [2, 2]


@pytest.mark.miniature
def test_no_test_set_is_looked_at(tmp_path: Path) -> None:
    began(tmp_path, SECRET)
    for path in records(tmp_path):
        assert set(json.loads(path.read_text())["scores"]) == {"inverted"}


def test_the_score_may_be_a_mean_of_validations(tmp_path: Path) -> None:
    sweep = dataclasses.replace(SECRET, score=("validation", "inverted"), choices={RATE: (0.005,)})
    began(tmp_path, sweep)
    (path,) = records(tmp_path)
    record = json.loads(path.read_text())
    (trial,) = load_sweep(tmp_path / "blobs/sweeps/own").trials
    assert trial.scores == {0: (record["validation"] + record["scores"]["inverted"]) / 2}
    with pytest.raises(TrainingError, match=r"score 'clean': the task has validation, inverted"):
        search(tmp_path / "b", dataclasses.replace(sweep, score=("clean",))).run()


@pytest.mark.miniature
def test_trials_limit_the_search(tmp_path: Path) -> None:
    assert len(began(tmp_path, trials=1)) == 1
    assert "1 of 4 settings tried" in sweep_text(load_sweep(tmp_path / "blobs/sweeps/own"))
    assert len(began(tmp_path, trials=2)) == 1


@pytest.mark.miniature
def test_a_search_that_is_out_of_time_goes_on(tmp_path: Path, monkeypatch) -> None:
    assert began(tmp_path, deadline=time.monotonic()) == [] and not list(tmp_path.rglob("trial.json"))
    with monkeypatch.context() as patched:
        patched.setattr(Search, "_records", lambda self, labels: [])  # as a runner does whose time is over
        now = iter([0.0])
        patched.setattr(sweeps_module, "time", SimpleNamespace(monotonic=lambda: next(now, math.inf)))
        assert began(tmp_path) == []
    (begun,) = tmp_path.rglob("trial.json")
    assert "0 of 4 settings tried" in sweep_text(load_sweep(tmp_path / "blobs/sweeps/own"))
    assert len(began(tmp_path)) == 4
    assert len(list(begun.parent.rglob("record.json"))) == 1


@pytest.mark.miniature
def test_a_sampler_that_repeats_itself_ends_the_search(tmp_path: Path, monkeypatch) -> None:
    import optuna

    same = {path: labels[:1] for path, labels in SWEEP.labels().items()}
    monkeypatch.setattr(optuna.samplers, "TPESampler", lambda **_: optuna.samplers.GridSampler(same))
    assert len(began(tmp_path, sampler="tpe")) == 1


@pytest.mark.miniature
@pytest.mark.parametrize("sampler", ["grid", "tpe"])
def test_an_interrupted_trial_goes_on_and_finished_ones_are_left(tmp_path: Path, sampler: str) -> None:
    done: list[str] = []

    def stop_in_the_second(event: object) -> None:
        done.extend([event.method] if event.what == "finished" else [])
        if done and event.what == "validating":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(tmp_path, listen=stop_in_the_second, sampler=sampler, trials=2).run()
    (first,) = records(tmp_path).items()
    begun = {path.parent for path in tmp_path.rglob("trial.json")}
    assert len(begun) == 2
    heard = began(tmp_path, sampler=sampler, trials=2)
    assert len(heard) == 1 and done[0] not in heard[0]
    assert first in records(tmp_path).items()
    assert {path.parent for path in tmp_path.rglob("trial.json")} == begun


def command(out: Path, *words: str) -> subprocess.Popen[str]:
    file = Path(__file__).parents[1] / "miniature.py"
    call = [sys.executable, "-m", "poise", "sweep", str(file), "--out", str(out), "--device", "cpu", *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["src", "tests", os.environ.get("PYTHONPATH", "")])}
    return subprocess.Popen(call, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.miniature
def test_killed_and_shared_by_two_processes_every_trial_is_run_once(tmp_path: Path) -> None:
    killed = command(tmp_path)
    for _ in range(900):
        if records(tmp_path):
            break
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    before = records(tmp_path)
    both = [command(tmp_path), command(tmp_path)]
    ends = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    swept = load_sweep(tmp_path / "blobs/sweeps/miniature")
    assert len(swept.scored) == len(swept.trials) == 4
    assert before and before.items() <= records(tmp_path).items()
    validated = [line for _, heard in ends for line in heard.splitlines() if line.startswith("validating")]
    assert len(validated) == len(set(validated)) == 4 - len(before)
    assert sweep_text(swept) in {out.rsplit("\n", 2)[0] for out, _ in ends}


@pytest.mark.miniature
def test_a_setting_that_is_not_finite_fails_alone(tmp_path: Path) -> None:
    began(tmp_path, dataclasses.replace(SWEEP, choices={PEAK: (1e300, 1e-2)}))
    swept = load_sweep(tmp_path / "blobs/sweeps/own")
    assert [bool(trial.failed) for trial in swept.trials] == [False, True]
    assert "failed: weight.peak=1e+300: " in sweep_text(swept) and "is not finite at step" in sweep_text(swept)
    assert began(tmp_path, dataclasses.replace(SWEEP, choices={PEAK: (1e300, 1e-2)})) == []


def test_another_sweep_under_the_same_name_is_refused(tmp_path: Path) -> None:
    began(tmp_path, trials=1)
    other = dataclasses.replace(SWEEP, choices={**SWEEP.choices, "objective.select.k": (20, 30)})
    with pytest.raises(
        TrainingError, match=r"another sweep \(there, here\): .*select.k.*: 40, 30; use another --out, or"
    ):
        search(tmp_path, other).run()


def test_trials_are_no_rows_of_the_table(tmp_path: Path) -> None:
    began(tmp_path, trials=1)
    with pytest.raises(RecordError, match="no experiment was run"):
        load_results(tmp_path)


@pytest.mark.miniature
def test_the_page_has_a_figure_for_each_parameter(tmp_path: Path) -> None:
    began(tmp_path)
    page = sweep_page(load_sweep(tmp_path / "blobs/sweeps/own"))
    tree = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))
    labels = [figure.get("aria-label") for figure in tree.iter("svg")]
    assert labels == [f"Score against {path}" for path in SWEEP.choices]
    assert len(list(tree.iter("rect"))) == 2 * 4 and "http:" not in page and "https:" not in page


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"objective.weight.peek": (1,)}, "objective.weight.peek: Ramp has no 'peek': did you mean 'peak'"),
        ({"objective.weight.x": (1,)}, "Ramp has no 'x': it has peak, start, length"),
        ({"objective.select.k.x": (1,)}, "objective.select.k.x: 40 has no fields, so 'x' does not exist"),
        ({"lambda": (1,)}, "lambda: a path starts with objective, augment, plan, network or task"),
        ({"method.objective.weight": (1,)}, "a path starts with objective"),
        ({PEAK: ()}, r"must be a tuple of at least one value"),
        ({PEAK: 0.1}, r"objective.weight.peak: 0.1 must be a tuple"),
        ({PEAK: (0.1, 0.1)}, "contains a value twice"),
        ({"objective.select.k": (0,)}, "k=0 must be a whole number of 1 or more"),
        ({PEAK: ("high",)}, "objective.weight.peak: 'high' does not fit"),
        ({}, "a sweep needs choices"),
    ],
)
def test_wrong_choices_fail_at_once(choices: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Sweep(EXPERIMENT, "FCL", choices)


def test_a_wrong_method_fails_at_once() -> None:
    with pytest.raises(ValueError, match=r"no method is called 'FLC': did you mean 'FCL'"):
        Sweep(EXPERIMENT, "FLC", {PEAK: (0.1,)})


def test_paths_lead_into_networks_and_tuples() -> None:
    recipe = EXPERIMENT.recipe(
        dataclasses.replace(EXPERIMENT.methods[0], augment=Chain((Standard(), PatchGaussian(25, 0.1))))
    )
    assert replaced(recipe, "augment.parts.1.size", 15).method.augment.parts == (Standard(), PatchGaussian(15, 0.1))
    assert repr(replaced(recipe, "network.num_classes", 4).network) == "LeNet(num_classes=4, size=16)"
    assert replaced(recipe, "plan.epochs", 1).plan.epochs == 1 and recipe.plan.epochs == 4


@pytest.mark.parametrize("quick", [False, True])
def test_the_sweeps_of_the_paper(quick: bool) -> None:
    sizes = {}
    for name in ("fcl", "fcl-noise", "cl-gaussian", "xe-gaussian", "gaussian", "patch-gaussian"):
        chosen, sweep = index.find_sweep("synthetic-mnist", name, "quick" if quick else "full")
        sizes[chosen] = len(sweep)
    assert list(sizes.values()) == ([16, 16, 8, 4, 2, 4] if quick else [144, 144, 48, 12, 3, 15])
    assert index.find_sweep("synthetic-mnist")[0] == "fcl"
    chosen = index.find_sweep("synthetic-mnist", "fcl")[1]
    labels = {path: repr(value) for path, value in zip(chosen.choices, (1e-3, 0.1, 256, 0.5), strict=True)}
    trial = chosen.trial("x", labels)  # the paper's own choice is among those that are tried, and is the recipe's
    assert (trial.task, trial.plan, trial.methods) == (MNIST.task, MNIST.plan, MNIST.methods)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("synthetic-mnits",), "did you mean 'synthetic-mnist'"),
        (("synthetic-mnist", "--name", "flc"), "no sweep is called 'flc': did you mean 'fcl'"),
        (("nowhere.py",), "nowhere.py is not a file"),
        (("tests/toys.py",), "must define SWEEP"),
        (("tests/miniature.py", "--sampler", "random"), "'random' is not one of 'grid', 'tpe'"),
    ],
)
def test_wrong_calls_end_with_2(words: tuple[str, ...], sentence: str, monkeypatch, capsys) -> None:
    from poise.cli import main as cli

    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "argv", ["poise", "sweep", *words])
    with pytest.raises(SystemExit) as end:
        cli.run()
    assert end.value.code == 2
    assert sentence in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_a_missing_optuna_is_one_sentence(tmp_path: Path, monkeypatch) -> None:
    from poise.cli import main as cli

    monkeypatch.setitem(sys.modules, "optuna", None)
    words = ["poise", "sweep", "tests/miniature.py", "--out", str(tmp_path), "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as end:
        cli.run()
    assert end.value.code == 'poise: optuna is missing: pip install ".[sweep]" in a clone of Poise'


def test_a_trial_that_ends_while_its_folder_is_waited_for_is_not_taken(tmp_path: Path, monkeypatch) -> None:
    one = search(tmp_path)
    one._describe()
    study = sweeps_module._study(one.folder / "journal.log", one._study_name, one.sampler, one.sweep.labels())
    with ExitStack() as locks:
        number, _ = one._next(study, locks)
    lock = sweeps_module.try_lock

    @contextmanager
    def slow(folder: Path) -> Iterator[bool]:
        sweeps_module._tell(study, number, 0.5)
        with lock(folder) as locked:
            yield locked

    monkeypatch.setattr(sweeps_module, "try_lock", slow)
    with ExitStack() as locks:
        assert one._next(study, locks)[0] != number


ENTRIES = [{"op_code": 4, "trial": number} for number in range(5)]
needs_optuna = pytest.mark.skipif(find_spec("optuna") is None, reason="optuna is not installed")


@needs_optuna
def test_the_file_is_optunas(tmp_path: Path) -> None:
    from optuna.storages.journal import JournalFileBackend

    theirs, ours = JournalFileBackend(str(tmp_path / "log")), Journal(tmp_path / "log")
    theirs.append_logs(ENTRIES[:2])
    ours.append_logs(ENTRIES[2:])
    for start in range(6):
        assert list(ours.read_logs(start)) == list(theirs.read_logs(start)) == ENTRIES[start:]


@pytest.mark.parametrize("cut", [b"", b"{", b'{"op_code":4,"tri', b"7\n", b"\xff\n", b'{"op_code":4,{"op_code":4}\n'])
def test_a_line_that_was_cut_is_no_line(cut: bytes, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "log")
    journal.append_logs(ENTRIES[:2])
    with journal.path.open("ab") as stream:
        stream.write(cut)
    assert list(journal.read_logs(0)) == ENTRIES[:2]
    journal.append_logs(ENTRIES[2:])
    assert list(Journal(tmp_path / "log").read_logs(0)) == ENTRIES


def test_processes_take_turns(tmp_path: Path) -> None:
    code = "import sys; from pathlib import *; from poise.running.sweeps import *\n"
    code += "for n in range(50): Journal(Path(sys.argv[1])).append_logs([{'n': n}, {'n': -n}])"
    begun = [subprocess.Popen([sys.executable, "-c", code, tmp_path / "log"]) for _ in range(2)]
    assert [process.wait() for process in begun] == [0, 0]
    found = [entry["n"] for entry in Journal(tmp_path / "log").read_logs(0)]
    assert sorted(found) == sorted([*range(50), *range(0, -50, -1)] * 2)
    assert all(one == -other for one, other in zip(found[::2], found[1::2], strict=True))


@needs_optuna
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no /proc")
@pytest.mark.parametrize("call", [1, 2, 5])
def test_a_full_disk_is_one_sentence(call: int, tmp_path: Path, monkeypatch) -> None:
    left, sync = call, os.fsync

    def full(number: int) -> None:
        nonlocal left
        if os.readlink(f"/proc/self/fd/{number}").endswith("journal.log"):
            left -= 1
            if left == 0:
                raise OSError(errno.ENOSPC, "No space left on device")
        sync(number)

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(Search, "_records", lambda search, labels: [])
    file = Path(__file__).parents[1] / "miniature.py"
    monkeypatch.setattr(sys, "argv", ["poise", "sweep", str(file), "--out", str(tmp_path), "--device", "cpu"])
    with pytest.raises(SystemExit) as end:
        cli.run()
    journal = next(tmp_path.rglob("journal.log"))
    remedy = "free some space, or choose another --out; finished runs are saved"
    assert end.value.code == f"poise: {journal}: No space left on device; {remedy}"


@needs_optuna
def test_a_damaged_journal_is_one_sentence(tmp_path: Path) -> None:
    import torch

    search = Search(SWEEP, "own", tmp_path, torch.device("cpu"))
    search.folder.mkdir(parents=True)
    (search.folder / "journal.log").write_text('{"op_code": 4}\n')
    with pytest.raises(TrainingError, match=r"journal\.log is damaged: remove it; finished runs are saved"):
        search.run()
