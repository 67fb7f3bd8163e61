"""Models whose answer is known are called by their names."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from auditing.planted import (
    COLUMNS,
    NUISANCE,
    PLANTED,
    SWITCH,
    Planted,
    Switching,
    batches,
    linear,
    over_sensitive,
    plain_rows,
    rows,
)

import poise
from poise.auditing.verdict import MISSES, RELIES, SOUND

pytestmark = pytest.mark.miniature


def audited(model: torch.nn.Module, data: tuple[torch.Tensor, torch.Tensor], **settings: object) -> poise.Audit:
    return poise.audit(model, batches(*data), examples=300, **settings)


def told(make: Callable[[int], tuple], name: str) -> list[poise.Audit]:
    """The audits of three samples."""
    found = [audited(*make(seed)) for seed in (10, 11, 12)]
    assert [each.names for each in found] == [(name,)] * 3
    return found


def test_models_are_told_apart() -> None:
    """Three samples; benchmarks/audit_planted.py counts over many."""
    told(lambda seed: (linear(), plain_rows(300, seed)), SOUND)
    told(lambda seed: (Switching(), rows(300, seed)), SOUND)
    ignored = (f"feature {PLANTED}", f"feature {SWITCH}")  # it never saw either
    for blind in told(lambda seed: (Switching(sees_planted=False), rows(300, seed)), MISSES):
        assert any(name in blind.verdict for name in ignored)
    told(lambda seed: (over_sensitive(), plain_rows(300, seed)), SOUND)  # only its embedding jumps
    for misled in told(lambda seed: (over_sensitive(read_by_head=1.0), plain_rows(300, seed)), RELIES):
        assert f"feature {NUISANCE}" in misled.verdict


def test_a_hundred_examples_tell_most_samples_apart() -> None:
    """Of five samples each, of which the plain correlation of errors and features told two and one."""
    blind = [poise.audit(Switching(False), batches(*rows(100, seed)), examples=100).names for seed in range(10, 15)]
    misled = [poise.audit(over_sensitive(1.0), batches(*plain_rows(100, s)), examples=100).names for s in range(10, 15)]
    assert blind.count((MISSES,)) >= 4 and misled.count((RELIES,)) >= 4


def test_a_reference_shows_what_a_blind_model_ignores_without_its_errors() -> None:
    """Utility from a model that sees the planted column, on the rows that it decides."""
    x, y = rows(1500, 4)
    on = x[:, 9] > 0.6
    teacher = poise.TeacherUtility(Switching(), "switching")
    found = audited(Switching(False), (x[on], y[on]), utility=teacher, fraction=0.02)
    assert MISSES in found.names and found["far_output_gain"] < 0.01
    seeing = audited(Switching(), (x[on], y[on]), utility=teacher, fraction=0.02)
    assert seeing.names == (RELIES,) and f"feature {PLANTED}" in seeing.verdict  # on these rows it decides alone


def test_utility_that_comes_with_the_batch() -> None:
    x, y = plain_rows(200, 5)
    mask = torch.zeros_like(x)
    mask[:, NUISANCE] = 1.0
    loader = [(a, b, {"utility": c}) for a, b, c in zip(x.split(50), y.split(50), mask.split(50), strict=True)]
    assert poise.audit(linear(), loader, examples=200, fraction=0.02).names == (MISSES,)


def require_near(number: dict, expected: torch.Tensor) -> None:
    """Within four standard errors."""
    assert abs(number["value"] - float(expected)) < number["high"] - number["low"]


def test_the_gains_of_a_linear_model_are_those_of_the_formula() -> None:
    """The root of the sum of w^2 over the chosen features, relative to its mean over random ones, at any sigma."""
    model, (x, y) = linear(), plain_rows(400, 6)
    found = poise.audit(model, batches(x, y), examples=400, strengths=(0.01, 3.0))
    weights = model.body.weight[0].detach().double()
    order = weights.abs().sort().values
    random = torch.stack([weights[torch.randperm(COLUMNS)[:5]].norm() for _ in range(20_000)]).mean()
    distance = (2 * (x.double() @ weights).var()).sqrt()
    for side, chosen in (("near", order[:5]), ("far", order[-5:])):
        shift = chosen.norm() * np.sqrt(2 / np.pi) / distance  # the embedding has one value: E|N(0, 1)|
        for step in found.facts["perturbation"]:
            require_near(step[f"{side}_gain"], chosen.norm() / random)
            require_near(step[f"{side}_shift"], shift * step["strength"])
    assert found["rank_correlation"] == pytest.approx(1.0) and found["top_overlap"] == 1.0


def test_even_weights_are_neutral() -> None:
    """A linear model that weighs all features alike, into as many values, has gain 1 everywhere."""
    x, y = plain_rows(300, 7)
    model = Planted(torch.linalg.qr(torch.randn(COLUMNS, COLUMNS)).Q, torch.randn(2, COLUMNS))
    found = poise.audit(model, batches(x, y), examples=300)
    assert found["near_gain"] == pytest.approx(1, abs=0.06) and found["far_gain"] == pytest.approx(1, abs=0.06)


def test_a_model_at_chance_does_not_fit() -> None:
    x, _ = plain_rows(120, 8)
    found = poise.audit(linear(), batches(x, torch.randint(2, (120,))), examples=120)
    assert found.names == ("mismatch",) and "guessing" in found.verdict


def test_few_examples_and_those_of_one_class_say_nothing() -> None:
    x, y = plain_rows(60, 3)
    few = poise.audit(linear(), batches(x[:9], y[:9]), examples=9)
    assert few.names == ("undecided",) and "9 examples are too few" in few.verdict
    alike = poise.audit(linear(), batches(x[y == 1], y[y == 1]), examples=60)
    assert alike.names == ("undecided",) and "all examples belong to one class" in alike.verdict
