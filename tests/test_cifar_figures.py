"""The figures of docs/cifar.md are drawn from a folder of records, and of epochs that were timed."""

import json
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any

import fake_records
import pytest
from PIL import Image

from benchmarks.epochs import switched_on
from poise.objectives.objective import weight_of
from poise.recipes.cifar.noisy_cifar import table
from poise.recipes.cifar.recipe import COMPRESSED
from poise.schedules import Constant, Ramp

SCRIPT = Path(__file__).parents[1] / "docs" / "cifar_figures.py"
TIMES = {"before": 2.0, "after": 5.0}


@pytest.fixture
def call(tmp_path: Path, monkeypatch):
    """Draws records of XE and FCL with a file of timed epochs."""
    folder = fake_records.cifar(tmp_path / "runs", "cifar10-c", seeds=1)
    for method in ("xe-gaussian", "cl-gaussian", "pg-xe", "pg-fcl"):
        shutil.rmtree(folder / method)

    def draw(measured: Any) -> Path:
        file, out = tmp_path / "epochs.json", tmp_path / "out"
        file.write_text(measured if isinstance(measured, str) else json.dumps(measured))
        words = [str(tmp_path / "runs"), "cifar10", "--out", str(out), "--epochs", str(file)]
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *words])
        runpy.run_path(str(SCRIPT), run_name="__main__")
        return out

    return draw


def test_the_minutes_of_a_run_follow_its_log() -> None:
    minutes_of = runpy.run_path(str(SCRIPT))["minutes_of"]
    quiet, loud = {"loss": {"xe": 1.0}}, {"loss": {"xe": 1.0, "contrast": 2.0, "weight": 0.1}}
    assert minutes_of([quiet] * 20 + [loud] * 4, TIMES) == pytest.approx((20 * 2 + 4 * 5) / 60)
    begins = {"loss": {"xe": 1.0, "contrast": 2.0, "weight": 0.025}}  # on in a quarter of its steps
    assert minutes_of([quiet, begins, loud], TIMES) == pytest.approx((2 + 2.75 + 5) / 60)
    assert minutes_of([quiet] * 3, TIMES) == pytest.approx(6 / 60)


def test_every_method_is_timed_with_its_contrast() -> None:
    weights = {method.name: weight_of(switched_on(method.objective)) for method in table("cifar10", COMPRESSED).methods}
    assert not any(isinstance(weight, Ramp) for weight in weights.values())
    assert weights["FCL"] == weights["AugMix+FCL"] == weights["CL+Gaussian"] == Constant(1e-4)


@pytest.mark.parametrize(
    ("measured", "sentence"),
    [
        ("no", "is not what benchmarks/epochs.py writes"),
        ([], "is not what benchmarks/epochs.py writes"),
        ({"length": "full", "device": "one", "epochs": {"XE": {}}}, "is not what benchmarks/epochs.py writes"),
        ({"length": "quick"}, "has the epochs of a quick look"),
        ({"length": "full", "device": "one", "epochs": {"XE": TIMES}}, "--epochs has no times of FCL"),
    ],
)
def test_other_files_are_refused(call, measured: Any, sentence: str, capsys) -> None:
    with pytest.raises(SystemExit) as end:
        call(measured)
    assert end.value.code == 2 and sentence in capsys.readouterr().err


def test_a_record_that_lacks_a_test_is_told(call, tmp_path: Path) -> None:
    path = tmp_path / "runs/cifar10-c/fcl/seed-00/record.json"
    record = json.loads(path.read_text())
    del record["scores"]["fog/3"]
    path.write_text(json.dumps(record))
    with pytest.raises(SystemExit) as end:
        call({"length": "full", "device": "a GPU", "epochs": {"XE": TIMES, "FCL": TIMES}})
    assert str(end.value.code).startswith("a record in ") and "lacks" in str(end.value.code)


@pytest.mark.miniature
def test_corruptions_and_cost_are_drawn(call) -> None:
    out = call({"length": "full", "device": "a GPU", "epochs": {"XE": TIMES, "FCL": TIMES}})
    names = sorted(path.name for path in out.iterdir())
    assert names == ["cifar10-corruptions.png", "cifar10-cost.png"]
    for name in names:
        with Image.open(out / name) as picture:
            colours = picture.convert("RGB").getcolors(1 << 24)
        assert colours is not None and len(colours) > 50
