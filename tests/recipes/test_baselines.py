"""The baselines as rows of the CIFAR tables: what each trains with, and that a stop changes nothing."""

import dataclasses
from functools import partial
from pathlib import Path

import pytest
import tiny_cifar
import torch
from torch import nn

from poise import FCL, SAM, XE, AtRandom, EqualUtility, JensenShannon
from poise.data.loading.resident import DeviceLoader, on_device
from poise.data.sets.cache import load
from poise.recipes.cifar import baselines, cifar_c, noisy_cifar
from poise.training.loop import fit

pytestmark = pytest.mark.miniature
tiny = partial(tiny_cifar.tiny, epochs=2)
ROWS = ["AugMix+random", *(name for pair in baselines.GROUPS for name in pair)]


def trained(name: str, folder: Path | None = None, until: int | None = None) -> nn.Module:
    """The row after two epochs, or after the first of them; the contrast begins in the second step."""
    experiment = tiny(cifar_c.table)
    method = next(each for each in experiment.methods if each.name == name)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = experiment.network()
    pictures = DeviceLoader(
        *on_device(load("cifar10", "train_x")[:40], load("cifar10", "train_y")[:40]), 20, method.augment
    )
    objective = begun(method.objective)
    fit(model, objective, pictures, experiment.plan, folder=folder, until=until)
    return model


def begun(objective: object) -> object:
    """With a contrast that is on from the second step."""
    if hasattr(objective, "objective"):
        return dataclasses.replace(objective, objective=begun(objective.objective))
    if isinstance(objective, FCL):
        return dataclasses.replace(objective, weight=dataclasses.replace(objective.weight, start=1))
    return objective


@pytest.mark.parametrize("name", ROWS)
def test_a_row_trains_the_same_again_and_after_a_stop(name: str, tmp_path: Path, monkeypatch) -> None:
    tiny_cifar.drawn_cifar(tmp_path, monkeypatch)
    whole = trained(name).state_dict()
    trained(name, tmp_path / "run", until=1)
    parts = trained(name, tmp_path / "run").state_dict()
    assert all(torch.equal(whole[key], parts[key]) for key in whole)
    assert all(value.isfinite().all() for value in whole.values())
    plain = trained("XE").state_dict()
    assert not any(torch.equal(whole[key], plain[key]) for key in whole if key.endswith("conv.weight"))


@pytest.mark.parametrize("table", [cifar_c.table, noisy_cifar.table])
def test_a_row_and_its_contrast_differ_in_the_objective_alone(table: object) -> None:
    rows = {method.name: method for method in tiny(table).methods}
    for plain, random in baselines.GROUPS:
        assert rows[plain].augment == rows[random].augment
        inner = rows[random].objective
        if isinstance(inner, JensenShannon | SAM):
            assert rows[plain].objective == dataclasses.replace(inner, objective=XE())
            inner = inner.objective
        assert isinstance(inner, FCL) and inner.utility == EqualUtility() and inner.select == AtRandom(k=256)
        fcl = rows["FCL"].objective
        assert dataclasses.replace(inner, utility=fcl.utility, select=fcl.select) == fcl


def test_every_row_stands_in_a_group_and_nothing_else_does() -> None:
    experiment = tiny(cifar_c.table)
    assert [name for group in experiment.groups for name in group] == [method.name for method in experiment.methods]
