"""What a model makes of a feature: closed forms, and text models whose answer is known."""

import numpy as np
import pytest
import torch
from auditing.planted import batches as table_batches
from auditing.planted import linear, over_sensitive, plain_rows
from auditing.planted_text import COMPANION, NOT, NUISANCE, Reader, batches, sentences

import poise
from poise.auditing.estimates.misuse import FeatureRemoval, LogitChange, loss_of, measured_effect
from poise.auditing.measure import shifted, units
from poise.auditing.verdict import MISSES, RELIES, SOUND


def linear_case(weight: float, wanted: float = 1.0, seen: float = 1.0) -> tuple[str, float | None, float | None]:
    """f = (0, a + weight v), where the labels would reward `wanted` more for each v."""
    draw = np.random.default_rng(0)
    a, v = draw.normal(0, 2, 2000), draw.normal(size=2000)
    rest = np.stack([np.zeros(2000), a], 1)
    logits = rest + np.stack([np.zeros(2000), weight * v], 1)
    right = 1 / (1 + np.exp(-(a + (weight + wanted) * v)))
    labels = (draw.uniform(size=2000) < right).astype(int)
    change = LogitChange(v, np.array([0.0, wanted * v.std()]), np.ones(2000, bool))
    return measured_effect(
        logits, labels, change, FeatureRemoval(lambda _: rest, np.zeros(1), np.array([seen, 1.0, 1.0])), 0, 1.0
    )


def test_use_is_the_models_weight_relative_to_the_one_that_is_missing() -> None:
    for weight, kind in ((0.0, "unused"), (0.2, "unused"), (0.4, "unclear"), (2.0, "unclear")):
        found, use, without = linear_case(weight)
        assert (found, use) == (kind, pytest.approx(weight, abs=1e-6)) and without <= 0
    assert linear_case(0.2, seen=2.0)[0] == "unclear"  # the embedding moves with it more than with others


def test_what_costs_the_model_is_overused() -> None:
    """Removal gives back what the weight adds to the loss, example by example."""
    found, use, without = linear_case(-3.0, wanted=3.0)
    assert found == "overused" and use == pytest.approx(-1) and without > 0.3
    assert linear_case(-0.01, wanted=0.01)[0] == "unclear"  # costs too little to count


def test_too_few_examples_to_measure_again_are_unclear() -> None:
    change = LogitChange(np.ones(40), np.ones(2), np.ones(40, bool))
    few = FeatureRemoval(lambda _: np.zeros((10, 2)), np.zeros(1), np.ones(1))
    assert measured_effect(np.zeros((40, 2)), np.zeros(40, int), change, few, 0, 1.0) == ("unclear", None, None)


def test_the_loss_is_torchs() -> None:
    logits, labels = torch.randn(9, 4, dtype=torch.float64), torch.arange(9) % 4
    theirs = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    np.testing.assert_allclose(loss_of(logits.numpy(), labels.numpy()), theirs.numpy())


@pytest.mark.parametrize("shape", [(3, 32, 48), (1, 10, 7), (20,), (2048,), (4, 5)])
def test_a_shifted_unit_moves_by_the_amount_and_no_other_does(shape: tuple[int, ...]) -> None:
    x, amount = torch.randn(2, *shape), torch.tensor([1.5, -0.5])
    before = units(x)
    for unit in (0, before.shape[1] // 2, before.shape[1] - 1):
        expected = before.clone()
        expected[:, unit] += amount
        torch.testing.assert_close(units(shifted(x, unit, amount)), expected)


def audited(model: torch.nn.Module, count: int = 300, seed: int = 0) -> poise.Audit:
    names = poise.Names(decode=lambda n: {NOT: "not", NUISANCE: "nuisance", COMPANION: "companion"}.get(n, f"w{n}"))
    return poise.audit(model, batches(*sentences(count, seed)), examples=count, names=names)


def test_text_models_are_called_by_their_names() -> None:
    assert audited(Reader()).names == (SOUND,)
    blind = audited(Reader(sees_not=False))
    assert blind.names == (MISSES,) and "it ignores the word 'not'" in blind.verdict
    jumpy = audited(Reader(loud=4.0))
    assert jumpy.names == (RELIES,) and "overuses the word 'nuisance'" in jumpy.verdict
    assert "companion" not in jumpy.verdict  # its errors go with that word too, but not because of it
    restless = audited(Reader(moved=6.0))  # the head reads none of what moves its embedding
    assert restless.names == (SOUND,) and restless["near_gain"] > 1 > restless["near_output_gain"]


def test_only_what_moves_is_shown_as_brittle() -> None:
    """A model whose least useful columns have next to no weight has no brittle examples; one that jumps has four."""
    quiet, jumpy = linear(), over_sensitive()
    quiet.body.weight.data[:, 8:] *= 0.01
    for model, count in ((quiet, 0), (jumpy, 4)):
        entries = poise.audit(model, table_batches(*plain_rows(60, 0)), examples=60).facts["telling"]
        assert sum(entry["why"] == "most brittle" for entry in entries) == count and len(entries) > count
