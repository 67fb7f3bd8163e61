"""Trackers get the numbers of every epoch, also of a run that continues. Those that are not installed are asked for."""

import csv
import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from miniature import EXPERIMENT

from poise.running import trackers
from poise.running.runner import Runner

LOG = [
    {"epoch": 1, "loss": {"xe": 0.5, "contrast": 2.0}, "learning_rate": 0.01, "validation": 0.8, "measures": None},
    {"epoch": 2, "loss": {"xe": 0.25, "contrast": 1.0}, "learning_rate": 0.005, "validation": 0.9},
]
NUMBERS = [
    {"loss/xe": 0.5, "loss/contrast": 2.0, "learning_rate": 0.01, "validation": 0.8},
    {"loss/xe": 0.25, "loss/contrast": 1.0, "learning_rate": 0.005, "validation": 0.9},
]


def needed(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is not installed")


def tell(name: str, folder: Path) -> None:
    """Two epochs, the second by another process that continues the run."""
    folder.mkdir(parents=True, exist_ok=True)
    for count in (1, 2):
        with trackers.tracker(name, folder, "blobs") as write:
            write(LOG[:count])


def test_the_numbers_of_an_entry() -> None:
    assert [trackers.numbers_of(entry) for entry in LOG] == NUMBERS
    assert trackers.numbers_of({"loss": {"xe": [1.0, 2.0]}, "measures": {"gap": 3}}) == {"measures/gap": 3.0}


def test_a_table_of_the_epochs_of_a_run(tmp_path: Path) -> None:
    Runner(EXPERIMENT, tmp_path, torch.device("cpu"), trackers=("csv",)).run(["XE"], [0])
    home = tmp_path / "blobs/xe/seed-00"
    with (home / "log.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    log = json.loads((home / "record.json").read_text())["log"]
    assert [float(row["loss/xe"]) for row in rows] == [entry["loss"]["xe"] for entry in log]
    assert [int(row["epoch"]) for row in rows] == [entry["epoch"] for entry in log] == [1, 2, 3, 4]


@needed("mlflow")
@pytest.mark.filterwarnings("ignore")  # of the database that it uses
def test_mlflow_has_one_run_with_all_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    tell("mlflow", tmp_path / "xe" / "seed-00")
    client = mlflow.MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("blobs").experiment_id])
    assert (run.info.run_name, run.info.status) == ("xe/seed-00", "FINISHED")
    assert run.data.metrics == NUMBERS[1]
    assert [held.value for held in client.get_metric_history(run.info.run_id, "loss/xe")] == [0.5, 0.25]


@needed("wandb")
def test_wandb_keeps_its_runs_here_when_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    tell("wandb", tmp_path / "xe" / "seed-00")
    assert len(list((tmp_path / "xe" / "seed-00" / "wandb").glob("offline-run-*/*.wandb"))) == 2


@needed("trackio")
def test_trackio_keeps_its_runs_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    tell("trackio", tmp_path / "xe" / "seed-00")
    assert list((tmp_path / "trackio").glob("blobs*"))


@needed("tensorboard")
def test_tensorboard_has_events(tmp_path: Path) -> None:
    tell("tensorboard", tmp_path / "xe" / "seed-00")
    assert len(list((tmp_path / "xe" / "seed-00" / "tensorboard").glob("events.*"))) == 2


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "trackio", "mlflow"])
def test_what_is_missing_is_asked_for(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard" if name == "tensorboard" else name, None)
    asked = pytest.raises(ModuleNotFoundError, match=rf'{name} is not installed: pip install "\.\[{name}\]"')
    with asked, trackers.tracker(name, tmp_path, "blobs"):
        pass


def test_an_unknown_tracker_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no tracker is called 'wanddb': did you mean 'wandb'"):
        trackers.tracker("wanddb", tmp_path, "blobs")
