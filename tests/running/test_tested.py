"""Tests that are kept one by one: a run that is killed between two sets goes on with the next one."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import streaming
import torch
from deadlines import Soon
from miniature import EXPERIMENT
from torch import nn

from poise.data.loading.pictures import CentreCrop, Pictures, RandomCrop
from poise.data.loading.shards import open_part
from poise.errors import OutOfTime
from poise.recipes.index import experiment_from_file
from poise.running.experiment import Task
from poise.running.fleets import run_fleets
from poise.running.judge import Judge, read_tested
from poise.running.runner import Runner

CPU = torch.device("cpu")

# A process that asks for the set WHEN is killed, or interrupted; WHERE has a line for every set that was asked for.
RECIPE = """
import os, signal
from dataclasses import dataclass, replace
from pathlib import Path
import miniature

@dataclass(frozen=True)
class Deadly:
    def __call__(self):
        task = miniature.Blobs()()
        def watched(name, make):
            def asked(device):
                with Path(os.environ["WHERE"]).open("a") as stream:
                    stream.write(name + "\\n")
                if os.environ.get("WHEN") == name:
                    os.kill(os.getpid(), int(os.environ["HOW"]))
                return make(device)
            return asked
        return replace(task, tests={name: watched(name, make) for name, make in task.tests.items()})

EXPERIMENT = replace(miniature.EXPERIMENT, task=Deadly())
"""


def settled(path: Path) -> dict:
    """A record without its times, and the checksum that depends on them."""
    volatile = ("seconds", "started", "finished", "checksum")

    def without(value: object) -> object:
        if isinstance(value, dict):
            return {k: without(each) for k, each in value.items() if k not in volatile}
        return [without(each) for each in value] if isinstance(value, list) else value

    return without(json.loads(path.read_text()))


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "deadly.py").write_text(RECIPE)
    monkeypatch.setenv("WHERE", str(tmp_path / "asked"))
    return tmp_path / "asked"


def finished(out: Path, asked: Path, run: Callable[..., list[Path]] = Runner.run) -> tuple[dict, list[str]]:
    """The record of one run that nothing stops, and the sets that it asked for."""
    asked.write_text("")
    (record,) = run(Runner(experiment_from_file(asked.with_name("deadly.py")), out, CPU), ["XE"], [0])
    assert not record.with_name("tested.jsonl").exists()
    return settled(record), asked.read_text().split()


@pytest.mark.miniature
def test_killed_between_two_sets_it_goes_on_with_the_next(tmp_path: Path, asked: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "poise",
        "run",
        tmp_path / "deadly.py",
        "--method",
        "XE",
        "--seeds",
        "1",
        "--quiet",
    ]
    deadly = {**os.environ, "PYTHONPATH": "src:tests", "WHEN": "mixed", "HOW": str(int(signal.SIGKILL))}
    end = subprocess.run([*command, "--device", "cpu", "--out", tmp_path / "killed"], env=deadly, check=False)
    assert (end.returncode, asked.read_text().split()) == (-signal.SIGKILL, ["clean", "mixed"])
    _, kept = (tmp_path / "killed/blobs/xe/seed-00/tested.jsonl").read_text().splitlines()
    assert json.loads(kept)["test"] == "clean"
    again, straight = (finished(tmp_path / name, asked) for name in ("killed", "straight"))
    assert (again[1], straight[1]) == (["mixed"], ["clean", "mixed"])
    assert again[0] == straight[0]


@pytest.mark.miniature
def test_a_fleet_goes_on_with_the_next_set_too(tmp_path: Path, asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let what runs in the background ignore it
    with monkeypatch.context() as deadly:
        deadly.setenv("WHEN", "mixed")
        deadly.setenv("HOW", str(int(signal.SIGINT)))
        with pytest.raises(KeyboardInterrupt):
            finished(tmp_path / "killed", asked, run_fleets)
    again, straight = (finished(tmp_path / name, asked, run_fleets) for name in ("killed", "straight"))
    assert (again[1], straight[1]) == (["mixed"], ["clean", "mixed"])
    assert again[0] == straight[0]


def test_what_is_kept_belongs_to_its_weights_and_tests(tmp_path: Path) -> None:
    torch.manual_seed(0)
    path, model = tmp_path / "tested.jsonl", nn.BatchNorm1d(3)
    read_tested(path, model, "these").add("clean", torch.tensor([[1, 2], [3, 4]]), {"a.jpg": "cut short"})
    again = read_tested(path, model, "these")
    assert {name: each.tolist() for name, each in again.counts.items()} == {"clean": [[1, 2], [3, 4]]}
    assert again.damaged == {"a.jpg": "cut short"}
    assert not read_tested(path, model, "others").counts
    model.num_batches_tracked += 1
    assert not read_tested(path, model, "these").counts
    model.num_batches_tracked -= 1
    assert read_tested(path, model, "these").counts
    head, line = path.read_text().splitlines()
    for broken in (f"{head}\n{line.replace('[1, 2]', '[2, 2]')}", f"{head}\n{line.replace('checksum', 'checksun')}"):
        path.write_text(broken)
        assert not read_tested(path, model, "these").counts
    for broken in ("", "7", line, f"{head}\n{line[:20]}", f"{head}\n7", f"{head}\n{{}}"):
        path.write_text(broken)
        assert not read_tested(path, model, "these").counts


def test_pictures_that_were_damaged_before_are_still_said(tmp_path: Path) -> None:
    """A record names what any test could not decode, those before a stop as well."""

    def judge(stop: bool) -> Judge:
        damaged: dict[Path, str] = {}
        train = Pictures(open_part(home, "train"), RandomCrop(16), damaged=damaged)
        test = Pictures(open_part(home, "val"), CentreCrop(16, 16), damaged=damaged)

        def last(device: torch.device) -> Pictures:
            if stop:
                raise KeyboardInterrupt
            return Pictures(open_part(home, "train"), CentreCrop(16, 16), damaged=damaged)

        return Judge(streaming.EXPERIMENT, Task(train, None, {"clean": lambda device: test, "last": last}, 3), CPU)

    with streaming._drawn() as home:
        torch.manual_seed(0)
        model, kept = streaming.ConvNet(num_classes=3), tmp_path / "tested.jsonl"
        with pytest.raises(KeyboardInterrupt):
            judge(stop=True).at_the_end(model, kept)
        assert json.loads(kept.read_text().splitlines()[1])["damaged"]
        assert judge(stop=False).at_the_end(model, kept) == judge(stop=False).at_the_end(model)


@pytest.mark.miniature
def test_a_file_of_other_weights_is_not_used(tmp_path: Path) -> None:
    """The counts in it would be seen in the record."""
    runner = Runner(EXPERIMENT, tmp_path, CPU)
    (record,) = run_fleets(runner, ["XE"], [0])
    before = settled(record)
    wrong = [{"test": name, "counts": [[0, 1]] * 3, "damaged": {}} for name in ("clean", "mixed")]
    lines = [{"version": 1, "digest": "0" * 64}, *wrong]
    record.with_name("tested.jsonl").write_text("\n".join(map(json.dumps, lines)))
    record.unlink()
    run_fleets(runner, ["XE"], [0])
    assert settled(record) == before and not record.with_name("tested.jsonl").exists()


def test_tests_that_are_out_of_time_go_on(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, task, kept = EXPERIMENT.network(), EXPERIMENT.task(), tmp_path / "tested.jsonl"
    with pytest.raises(OutOfTime, match="after 1 of 2 tests; run the same command to continue"):
        Judge(EXPERIMENT, task, CPU, deadline=Soon(looks=1)).at_the_end(model, kept)
    assert len(kept.read_text().splitlines()) == 2
    judge = Judge(EXPERIMENT, task, CPU)
    assert judge.at_the_end(model, kept) == judge.at_the_end(model)
