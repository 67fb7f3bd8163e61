"""Fuzz: no wrong call gives a number, and no refusal is obscure; a longer run is `make fuzz`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from fuzz import oracles, pieces
from fuzz.calls import EXEMPT, RECIPES
from fuzz.generator import ABSURD, MISTAKE, RIGHT, make, plot_of, plots
from fuzz.judge import judge
from fuzz.recipes import Recipe, Slot
from torch import Tensor

import poise

CALLS, CASES = 3_600, 8  # enough calls for every mistake of the table
NAMES = {name: getattr(pieces, name) for name in pieces.__all__}


@pytest.mark.parametrize("case", range(CASES))
def test_every_call_is_right_or_refused_by_name(case: int) -> None:
    for seed in range(case, CALLS, CASES):
        call = make(seed, RECIPES)
        verdict = judge(call, NAMES)
        assert not verdict.fault, f"seed {seed}: {verdict.kind}, {verdict.why}\n\n{call}\n"


def test_every_public_name_is_in_the_table() -> None:
    called = {recipe.name for recipe in RECIPES}
    assert called | set(EXEMPT) == set(poise.__all__)
    assert not called & set(EXEMPT)


def test_every_mistake_is_met() -> None:
    """So that what was mended once stays so."""
    met = {plot_of(seed, RECIPES) for seed in range(CALLS) if make(seed, RECIPES).kind == MISTAKE}
    assert met == set(plots(RECIPES, MISTAKE))


def test_a_seed_makes_the_same_call_again() -> None:
    assert all(str(make(seed, RECIPES)) == str(make(seed, RECIPES)) for seed in range(50))
    kinds = Counter(make(seed, RECIPES).kind for seed in range(100))
    assert set(kinds) == {RIGHT, MISTAKE, ABSURD}


def test_a_call_can_be_pasted() -> None:
    call = make(0, RECIPES)
    exec(str(call), {})


def _loose(logits: Tensor, y: Tensor) -> Tensor:
    return -logits.log_softmax(1)[:, y.flatten()].mean(1)


def _raw(logits: Tensor, y: Tensor) -> Tensor:
    if y.ndim != 1:
        raise RuntimeError("y has a wrong shape")
    return logits.sum(1)


def _nameless(logits: Tensor, y: Tensor) -> Tensor:
    if y.ndim != 1:
        raise ValueError("something is wrong")
    return logits.sum(1)


def _greedy(logits: Tensor, y: Tensor) -> Tensor:
    return logits.mul_(2).sum(1)


def _drawing(logits: Tensor, y: Tensor) -> Tensor:
    return logits.sum(1) + torch.rand(1)


def _drawing_first(logits: Tensor, y: Tensor) -> Tensor:
    torch.rand(1)
    raise ValueError("y is wrong")


def _not_a_number(logits: Tensor, y: Tensor) -> Tensor:
    return logits.sum(1) * torch.nan


def _fine(logits: Tensor, y: Tensor) -> Tensor:
    if y.ndim != 1:
        raise ValueError(f"y has shape {list(y.shape)}: give one label per example")
    return logits.sum(1)


@pytest.mark.parametrize(
    ("loss", "kind", "found"),
    [
        (_fine, RIGHT, "right"),
        (_fine, MISTAKE, "refused"),
        (_loose, MISTAKE, "silent"),
        (_raw, MISTAKE, "obscure"),
        (_nameless, MISTAKE, "obscure"),
        (_greedy, RIGHT, "touched"),
        (_drawing, RIGHT, "touched"),
        (_drawing_first, MISTAKE, "touched"),
        (_not_a_number, RIGHT, "silent"),
    ],
)
def test_the_judge_sees_planted_faults(loss: Callable[..., Any], kind: str, found: str) -> None:
    slots = {
        "logits": Slot(("torch.randn($B, $L)",)),
        "y": Slot(("torch.zeros($B).long()",), ("torch.zeros($B, 1).long()",)),
    }
    recipe = Recipe("planted", slots, "loss(logits, y)", oracles.finite)
    seed = next(seed for seed in range(20) if make(seed, RECIPES).kind == kind)
    assert judge(make(seed, (recipe,)), {**NAMES, "loss": loss}).kind == found


def test_the_judge_sees_a_model_that_was_touched() -> None:
    recipe = Recipe("planted", {"model": Slot(("Smooth(4)",))}, "model.train(False)", oracles.anything)
    assert judge(make(0, (recipe,)), NAMES).kind == "touched"
    graded = replace(recipe, call="model(torch.ones(2, 4)).sum().backward() or 1")
    assert judge(make(0, (graded,)), NAMES).kind == "touched"
