"""The figures of docs/cifar.md are drawn from a folder of records."""

import runpy
import shutil
import sys
from pathlib import Path

import fake_records
import pytest
from PIL import Image


@pytest.mark.miniature
def test_corruptions_and_cost_are_drawn(tmp_path: Path, monkeypatch) -> None:
    folder = fake_records.cifar(tmp_path / "runs", "cifar10-c", seeds=1)
    for method in ("xe-gaussian", "cl-gaussian", "pg-xe", "pg-fcl"):
        shutil.rmtree(folder / method)
    script = Path(__file__).parents[2] / "docs" / "cifar_figures.py"
    monkeypatch.setattr(sys, "argv", [str(script), str(tmp_path / "runs"), "cifar10", "--out", str(tmp_path / "out")])
    runpy.run_path(str(script), run_name="__main__")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["cifar10-corruptions.png", "cifar10-cost.png"]
    for name in names:
        with Image.open(tmp_path / "out" / name) as picture:
            colours = picture.convert("RGB").getcolors(1 << 24)
        assert colours is not None and len(colours) > 50
