"""Going on from packed runs: what is packed counts as finished, and what is damaged there is made again."""

import dataclasses
import gzip
import json
from functools import partial
from pathlib import Path

import pytest
import torch
from miniature import EXPERIMENT, SWEEP
from safetensors.torch import load as load_weights
from safetensors.torch import save

from poise.errors import TrainingError
from poise.inputs.model_sources import poise_model
from poise.io.documents import PACK
from poise.records.packing import pack
from poise.records.schema import load_results, read_record
from poise.reporting.sweep_page import load_sweep
from poise.running.fleets import run_fleets
from poise.running.record import Event
from poise.running.runner import Runner
from poise.running.sweeps import Search

pytestmark = pytest.mark.miniature
CPU = torch.device("cpu")
QUICK = dataclasses.replace(EXPERIMENT, plan=dataclasses.replace(EXPERIMENT.plan, epochs=1))


def begun(out: Path, experiment=QUICK, fleet: bool = False, **options: object) -> list[Event]:
    """Run what is left."""
    heard: list[Event] = []
    runner = Runner(experiment, out, CPU, listen=heard.append, **options)
    (partial(run_fleets, runner) if fleet else runner.run)(["XE", "FCL"], [0, 1])
    return heard


def judged(events: list[Event]) -> list[tuple[str, int]]:
    return [(each.method, each.seed) for each in events if each.what == "testing"]


def change(home: Path, name: str, old: str, new: str) -> None:
    """A pack that is whole, with other content in a document."""
    lines = gzip.decompress((home / PACK).read_bytes()).decode().splitlines(keepends=True)
    changed = [line.replace(old, new) if json.loads(line)["file"] == name else line for line in lines]
    assert changed != lines
    (home / PACK).write_bytes(gzip.compress("".join(changed).encode()))


@pytest.mark.parametrize("fleet", [False, True])
def test_packed_runs_are_finished(tmp_path: Path, fleet: bool) -> None:
    home = tmp_path / "blobs"
    assert len(judged(begun(tmp_path, fleet=fleet))) == 4
    before = load_results(home)
    list(pack(tmp_path))
    assert not list(home.rglob("record.json"))
    assert judged(begun(tmp_path, fleet=fleet)) == [] and load_results(home) == before
    change(home, "fcl/seed-01/record.json", '"seed": 1', '"seed": 7')
    heard = begun(tmp_path, fleet=fleet)
    assert judged(heard) == [("FCL", 1)]
    (warning,) = [each.detail for each in heard if each.what == "warning for"]
    assert f"fcl/seed-01/record.json, packed in {PACK}, is damaged" in warning
    assert [path.parent.name for path in home.rglob("record.json")] == ["seed-01"]
    assert load_results(home)[0].runs["FCL"][1].scores == before[0].runs["FCL"][1].scores


def test_packed_recipes_are_not_mixed_with_others(tmp_path: Path) -> None:
    begun(tmp_path)
    list(pack(tmp_path))
    with pytest.raises(TrainingError, match=r"another recipe \(there, here\): plan.epochs: 1, 2; use another --out"):
        begun(tmp_path, dataclasses.replace(QUICK, plan=dataclasses.replace(QUICK.plan, epochs=2)))


def test_a_pack_that_cannot_be_read_stops_a_run(tmp_path: Path) -> None:
    begun(tmp_path)
    list(pack(tmp_path))
    path = tmp_path / "blobs" / PACK
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(
        TrainingError, match=r"runs.jsonl.gz is damaged or cut short: .*: restore it from a copy, or remove"
    ):
        begun(tmp_path)


def test_a_packed_recipe_names_the_network(tmp_path: Path) -> None:
    begun(tmp_path, keep_models=True)
    run = tmp_path / "blobs" / "fcl" / "seed-00"
    path = run / "model.safetensors"
    path.write_bytes(save(load_weights(path.read_bytes())))  # without the network's name
    list(pack(tmp_path))
    assert {path.name for path in run.iterdir()} == {"model.safetensors", ".lock"}
    assert type(poise_model(run, None)).__name__ == "LeNet"


def test_a_packed_sweep_goes_on(tmp_path: Path) -> None:
    heard: list[Event] = []
    sweep = dataclasses.replace(SWEEP, experiment=QUICK)
    Search(sweep, "own", tmp_path, CPU, trials=2).run()
    folder = tmp_path / "blobs" / "sweeps" / "own"
    before = load_sweep(folder)
    list(pack(tmp_path))
    assert load_sweep(folder) == before and not list(folder.rglob("*/record.json"))
    Search(sweep, "own", tmp_path, CPU, listen=heard.append).run()
    assert len([each for each in heard if each.what == "validating"]) == 2  # of the four
    assert len(load_sweep(folder).trials) == 4
    (folder / "journal.log").unlink()  # as in a copy of packed results
    heard.clear()
    Search(sweep, "own", tmp_path, CPU, listen=heard.append).run()
    assert not [each for each in heard if each.what == "validating"]
    swept = load_sweep(folder)
    list(pack(tmp_path))
    assert load_sweep(folder) == swept and read_record(
        next(iter(sorted(folder.glob("trials/*")))) / "fcl/seed-00/record.json"
    )
