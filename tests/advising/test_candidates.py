"""The candidates, and the code that a user pastes for each."""

from pathlib import Path

import pytest
import torch
from advised import recipe

import poise
from poise.advising.candidates import candidates_for
from poise.advising.own_data import read_recipe


@pytest.mark.parametrize("kind", ["table", "pictures", "text"])
@pytest.mark.parametrize("counts", [(40, 8), (20, 20)])
def test_the_code_makes_the_objective_that_was_tried(tmp_path: Path, kind: str, counts: tuple[int, int]) -> None:
    data = read_recipe(recipe(tmp_path, kind, counts))
    tried = candidates_for(data, 100)
    assert len({each.name for each in tried}) == len(tried) and tried[0].name == "XE"
    for each in tried:
        assert eval(each.code, {"poise": poise, "counts": data.counts}) == each.objective
    assert any("adjusted" in each.name for each in tried) == (counts == (40, 8))
    assert ("balanced_contrast 0.1" in [each.name for each in tried]) == (counts == (40, 8))


def test_few_keeps_every_family(tmp_path: Path) -> None:
    data = read_recipe(recipe(tmp_path, "table", (40, 8)))
    every, few = candidates_for(data, 100), candidates_for(data, 100, few=True)
    assert [each.family for each in few] == list(dict.fromkeys(each.family for each in every))


def test_a_contrast_begins_after_a_tenth_of_the_steps(tmp_path: Path) -> None:
    data = read_recipe(recipe(tmp_path, "table", (40, 8)))
    weight = next(each for each in candidates_for(data, 200) if each.family == "FCL").objective.weight
    assert [weight(step) for step in (19, 20, 40, 199)] == pytest.approx([0, 0, weight.peak, weight.peak])
    assert torch.is_tensor(data.train.x)
