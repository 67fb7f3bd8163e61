"""Recipes for `poise advise`, and the command in this process."""

import sys
from pathlib import Path

import pytest

from poise.cli import main as cli

HEAD = """
import torch
from torch import nn
import poise
counts = {counts}
generator = torch.Generator().manual_seed(0)
y = torch.cat([torch.full((n,), label) for label, n in enumerate(counts)])
"""
KINDS = {
    "table": """
x = torch.randn(len(y), 4, generator=generator)
x[:, 0] += 3.0 * y
def network():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, len(counts)))
""",
    "pictures": """
x = torch.rand(len(y), 1, 6, 6, generator=generator)
x[y == 1, :, :2, :2] = 1.0
def network():
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.ReLU(), nn.Linear(8, len(counts)))
""",
    "text": """
x = torch.randint(1, 20, (len(y), 8), generator=generator)
x[y == 1, 3] = 20
x[::2, 6:] = 0
class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.last = nn.EmbeddingBag(21, 8, padding_idx=0), nn.Linear(8, len(counts))
    def forward(self, ids):
        return self.last(self.words(ids))
network = Bag
""",
}
FAST = "epochs, batch_size, learning_rate = 2, 16, 0.05\n"


def recipe(folder: Path, kind: str, counts: tuple[int, ...], more: str = FAST) -> Path:
    """A recipe file, whose training examples are all of its data."""
    path = folder / f"{kind}.py"
    path.write_text(f"{HEAD.format(counts=counts)}{KINDS[kind]}train = x, y\n{more}")
    return path


def poise(monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    """Run a command; returns its exit code, or the sentence it ends with."""
    monkeypatch.setattr(sys, "argv", ["poise", "advise", *words])
    with pytest.raises(SystemExit) as end:
        cli.run()
    return end.value.code
