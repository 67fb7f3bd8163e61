"""The examples run, and do what they say."""

import importlib
import importlib.util
import os
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import poise
from poise import LeNet
from poise.advising.advice import require_fitting
from poise.advising.own_data import read_recipe
from poise.recipes import Runner
from poise.recipes.sentiment.treebank import EXPERIMENT as SENTIMENT
from poise.records.schema import read_record

pytestmark = pytest.mark.miniature

FOLDER = Path(__file__).parents[1] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_own_loop() -> None:
    assert load("own_loop").main(steps=300) > 0.85


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    accuracies = load("table").main(steps=200)
    assert min(accuracies.values()) > 0.9
    assert capsys.readouterr().out.count("pressure") == 2


def test_teacher_utility() -> None:
    assert min(load("teacher_utility").main(steps=60).values()) > 0.4


def test_taught_digits() -> None:
    """The teacher's utility chooses the features: two students choose alike by it, and not by their own."""
    experiment = load("taught_digits").EXPERIMENT
    x, y = torch.rand(8, 1, 28, 28), torch.arange(8)
    utilities = {method.name: method.objective.utility for method in experiment.methods}
    students = [LeNet(15), LeNet(15)]
    own, taught, _ = ([utilities[name](student, x, y) for student in students] for name in utilities)
    assert torch.equal(*taught) and not torch.equal(*own)
    assert experiment.methods[2].objective(students[0], x, y, step=2000).total.isfinite()


def test_own_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = np.random.default_rng(0)
    x, y = state.integers(0, 256, (60, 28, 28), dtype=np.uint8), np.arange(60) % 10
    np.savez(tmp_path / "mine.npz", train_x=x[:40], train_y=y[:40], test_x=x[40:], test_y=y[40:])
    monkeypatch.setenv("DATA", str(tmp_path / "mine.npz"))
    experiment = load("own_recipe").EXPERIMENT
    quick = replace(experiment, plan=replace(experiment.plan, epochs=1, batch_size=20))
    (record,) = Runner(quick, tmp_path / "runs", torch.device("cpu")).run(["FCL"], [0])
    assert set(read_record(record).scores) == {"clean", "noise"}


def test_own_data() -> None:
    """`poise advise` reads it, and its network fits."""
    data = read_recipe(FOLDER / "own_data.py")
    require_fitting(data, torch.device("cpu"))
    assert data.kind == "table" and data.rare == (1,) and len(data.test) == 1000


def test_sentiment_cpu() -> None:
    """The table's recipe but for the precision."""
    experiment = load("sentiment_cpu").EXPERIMENT
    assert experiment.plan == replace(SENTIMENT.plan, precision="float32") and experiment.seeds == 1
    assert (experiment.methods, experiment.network, experiment.task) == (
        SENTIMENT.methods,
        SENTIMENT.network,
        SENTIMENT.task,
    )


def test_lightning_module() -> None:
    pytest.importorskip("lightning", reason="pip install '.[lightning]'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lightning's own, about workers and checkpoints
        module = load("lightning_module").main(epochs=2, accelerator="cpu", enable_progress_bar=False)
    assert module.trainer.global_step == 16
    assert {"xe", "contrast", "weight"} <= module.trainer.callback_metrics.keys()


def test_huggingface_trainer() -> None:
    pytest.importorskip("transformers", reason="pip install '.[transformers]'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = load("huggingface_trainer").main(steps=20)
    assert trainer.state.global_step == 20
    assert any("loss" in row for row in trainer.state.log_history)


@pytest.mark.parametrize("options", [{"bf16": True}, {"batch_size": 8, "gradient_accumulation_steps": 4}])
def test_the_trainer_with_half_precision_and_accumulation(options: dict) -> None:
    """The loss stays a mean: about log 2 at the start, not four times that."""
    pytest.importorskip("transformers", reason="pip install '.[transformers]'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = load("huggingface_trainer").main(steps=3, use_cpu=True, **options)
    losses = [row["train_loss"] for row in trainer.state.log_history if "train_loss" in row]
    assert 0.5 < losses[0] < 1.2


def test_audit_own_model() -> None:
    found = load("audit_own_model").main(steps=150)
    assert "misses" in found["blind to the dot"].names
    assert "misses" not in found["sees the dot"].names
    assert found["sees the dot"]["accuracy"] > 0.8


def test_audit_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers", reason="pip install '.[transformers]'")
    monkeypatch.setattr("sys.argv", [])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = load("audit_text").main(steps=30, examples=40)
    assert (folder / "index.html").is_file() and "reviewer on reviews.tsv, 40 examples" in capsys.readouterr().out
    assert "typed in" in (folder / "audit.json").read_text()


@pytest.mark.parametrize("library", ["torchvision", "timm"])
def test_audit_vision(library: str) -> None:
    try:
        importlib.import_module(library)
    except Exception:
        pytest.skip(f"{library} cannot be imported here")
    found = load("audit_vision").main(library)
    assert found.facts["model"]["embedding"] == 512 and "noise_accuracy" in found.facts["numbers"]


@pytest.mark.parametrize(
    ("library", "sentence"),
    [
        ("torchvision", "torchvision cannot be imported"),
        ("timm", "timm cannot be imported"),
        ("keras", "'keras' must be torchvision or timm"),
    ],
)
def test_audit_vision_without_its_library(library: str, sentence: str, tmp_path: Path) -> None:
    """In a process of its own, where the library cannot be imported, whether it is installed or not."""
    (tmp_path / f"{library}.py").write_text("raise ImportError('it does not fit\\nand more')")
    where = os.pathsep.join([str(tmp_path), str(Path(poise.__file__).parents[1])])
    command = [sys.executable, str(FOLDER / "audit_vision.py"), library]
    ended = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": where}, capture_output=True, text=True, timeout=100, check=False
    )
    assert ended.returncode == 1 and ended.stdout == ""
    assert ended.stderr.startswith(sentence) and ended.stderr.count("\n") == 1


def test_every_example_is_short_and_tested() -> None:
    tested = Path(__file__).read_text()
    for path in FOLDER.glob("*.py"):
        assert f"def test_{path.stem}(" in tested
        assert len(path.read_text().splitlines()) <= 100
