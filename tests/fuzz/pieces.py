"""The names that fuzzed calls are written in: libraries, small networks, and pictures."""

from __future__ import annotations

from functools import cache
from tempfile import TemporaryDirectory

import numpy as np
import torch
from PIL import Image
from torch import nn
from toys import BagOfWords, ConvNet, Smooth, sentences

import poise
from poise.models.split import call_model

__all__ = [
    "BagOfWords",
    "ConvNet",
    "Image",
    "Plain",
    "Smooth",
    "audited",
    "call_model",
    "nn",
    "np",
    "plain",
    "poise",
    "saved",
    "sentences",
    "torch",
]


class Plain(nn.Module):
    """A classifier without embed and head."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.body, self.fc = nn.Linear(features, 6), nn.Linear(6, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.body(x.flatten(1)).tanh())


def plain(features: int, classes: int) -> nn.Module:
    """The same as a Sequential."""
    return nn.Sequential(nn.Flatten(), nn.Linear(features, 6), nn.Tanh(), nn.Linear(6, classes))


@cache
def audited() -> poise.Audit:
    """One small audit, made once; torch's random state stays."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        x, y = torch.rand(8, 6), torch.arange(8) % 3
        return poise.audit(Smooth(6), [(x, y)], corruptions="none")


@cache
def _folder() -> TemporaryDirectory[str]:
    """Gone when Python ends."""
    return TemporaryDirectory()


@cache
def saved() -> str:
    """A file with a small network, made once; torch's random state stays."""
    path = f"{_folder().name}/network.safetensors"
    with torch.random.fork_rng():
        poise.save_model(poise.LeNet(3, size=16), path, "LeNet", num_classes=3, size=16)
    return path
