"""`poise audit` in this process, for its tests, and a small model with its data."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from poise.cli import main as cli

NETS = """
import torch
def net(noise=0.0):
    linear = torch.nn.Linear(768, 4)
    with torch.no_grad():
        linear.bias.zero_()
        weight = linear.weight.zero_().view(4, 3, 16, 16)
        for c, (row, column) in enumerate([(0, 0), (0, 8), (8, 0), (8, 8)]):
            weight[c, :, row : row + 8, column : column + 8] = 0.1
        weight += noise * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1))
    return torch.nn.Sequential(torch.nn.Flatten(), linear)
def worse():
    return net(0.07)
"""


def quarters(path: Path) -> None:
    """100 pictures of which one quarter is a little brighter: the class."""
    draw, y = np.random.default_rng(0), np.arange(100) % 4
    x = draw.random((100, 16, 16, 3)) * 0.5
    for picture, place in zip(x, y, strict=True):
        row, column = 8 * (place // 2), 8 * (place % 2)
        picture[row : row + 8, column : column + 8] += 0.06
    np.savez(path, x=(x * 255).astype(np.uint8), y=y)


def poise(monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    """Run a command; returns its exit code, or the sentence it ends with."""
    monkeypatch.setattr(sys, "argv", ["poise", "audit", *words])
    with pytest.raises(SystemExit) as end:
        cli.run()
    return end.value.code


def facts(home: Path) -> dict:
    """What it wrote."""
    return json.loads((home / "audit" / "audit.json").read_text())
