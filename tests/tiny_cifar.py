"""The CIFAR experiments in miniature: a network of two blocks on sixty drawn pictures."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from data_sets import pictures

import poise
from poise.data.sets import cache
from poise.recipes.cifar.recipe import QUICK
from poise.recipes.settings import Length
from poise.running.experiment import Build, Experiment

NETWORK = Build(poise.ResNet, num_classes=10, blocks=((1, 4, 1), (1, 4, 2)))


def tiny(table: Callable[[str, Length], Experiment], epochs: int) -> Experiment:
    return replace(table("cifar10", replace(QUICK, epochs=epochs, images=40, batch=20)), network=NETWORK)


def drawn_cifar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts the pictures into a cache of their own; the folder for runs."""
    monkeypatch.setenv("POISE_DATA", str(tmp_path / "cache"))
    cache.store("cifar10", pictures(60, 8).items(), "a test", {})
    return tmp_path / "runs"
