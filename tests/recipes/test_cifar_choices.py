"""The study of which features to perturb on CIFAR."""

from dataclasses import replace

import pytest

from poise.features.selection import AtRandom, TopBottom
from poise.recipes.cifar import choices, noisy_cifar
from poise.recipes.cifar.recipe import COMPRESSED, QUICK
from poise.recipes.variants import NearOnly, Swapped

pytestmark = pytest.mark.torch


def test_curves_differ_in_lambda_alone() -> None:
    study, table = choices.frontier(COMPRESSED), noisy_cifar.table("cifar10", COMPRESSED)
    found = {method.name: method.objective for method in study.methods}
    fcl = next(method.objective for method in table.methods if method.name == "FCL")
    assert found["FCL 0.0001"] == fcl
    assert found["FCL 0.003"] == replace(fcl, weight=replace(fcl.weight, peak=3e-3))
    assert found["random 0.003"] == replace(found["FCL 0.003"], select=AtRandom(256))
    assert found["CL+Gaussian 3e-05"].weight == found["FCL 3e-05"].weight
    assert len(found) == 1 + 3 * len(choices.LAMBDAS)
    assert study.frontier == ("UN", "Clean") and study.plan == table.plan and study.task == table.task


def test_controls_of_cifar100_keep_its_temperature() -> None:
    study = choices.choices(COMPRESSED)
    found = {method.name: method.objective for method in study.methods}
    fcl = found["FCL"]
    assert fcl.contrast.temperature == 0.1 and fcl.select == TopBottom(256)
    assert found["FCL, random k"] == replace(fcl, select=AtRandom(256))
    assert found["FCL, swapped"] == replace(fcl, select=Swapped(256))
    assert found["FCL, no far view"] == replace(fcl, contrast=NearOnly(fcl.contrast))


def test_names_say_the_data_and_the_length() -> None:
    assert choices.frontier(QUICK).name == "cifar10-frontier-quick"
    assert choices.choices(COMPRESSED).name == "cifar100-choices-compressed"
    assert choices.choices(COMPRESSED).title.startswith("Noisy CIFAR-100: which features to perturb, compressed to 45")
