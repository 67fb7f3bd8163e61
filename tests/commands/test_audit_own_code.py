"""`poise audit` on the models that people have: of one channel, of one logit, compiled, ending in softmax."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from poise import cli

CODE = """
import torch
from torch import nn
def grey():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3))
def colour():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3))
"""
FEW = ("--examples", "30", "--corruptions", "none", "--probes", "4")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    draw = np.random.default_rng(0)
    np.savez(tmp_path / "test.npz", x=draw.integers(0, 256, (30, 20, 20, 3), dtype=np.uint8), y=np.arange(30) % 3)
    (tmp_path / "own.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def poise(monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    monkeypatch.setattr(sys, "argv", ["poise", "audit", *words])
    with pytest.raises(SystemExit) as end:
        cli.run()
    return end.value.code


def facts(home: Path) -> dict:
    return json.loads((home / "audit" / "audit.json").read_text())


def test_a_folder_of_greys_for_a_model_of_one_channel(home: Path, monkeypatch) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (12, 20, 20), dtype=np.uint8)
    for number, picture in enumerate(pixels):
        (home / "photos" / f"c{number % 3}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(home / "photos" / f"c{number % 3}" / f"{number:02}.png")
    assert poise(monkeypatch, "own.py:grey", "--data", "photos", *FEW) == 0
    found = facts(home)
    assert found["data"]["shape"] == [1, 20, 20]
    with np.load(home / "audit" / "telling.npz") as arrays:
        shown = pixels[int(Path(found["telling"][0]["source"]).stem)]
        assert np.array_equal((arrays["x_0"][0] * 255).round(), shown)
    assert poise(monkeypatch, "own.py:colour", "--data", "photos", *FEW) == 0
    assert facts(home)["data"]["shape"] == [3, 20, 20]
    assert "cannot take pictures [3, 20, 20]" in str(
        poise(monkeypatch, "own.py:colour", "own.py:grey", "--data", "photos", "--out", "new")
    )
