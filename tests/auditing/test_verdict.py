"""The verdict is a function of the answers: layers and temperatures may be rescaled, and nothing changes."""

import numpy as np
import pytest
import torch
from auditing.planted import batches, plain_rows

import poise
from poise.auditing.estimates.numbers import Number, margins, paired_drop, top_gap
from poise.auditing.verdict import BREAKS, MISSES, RELIES, SOUND, from_drop, from_outside, judge, smallest_drop

EMBEDDING = ("rank_correlation", "reliability", "overlap", "near_gain", "far_gain", "near_shift", "far_shift")


def network() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(50, 24), torch.nn.ReLU(), torch.nn.Linear(24, 2))


def fitted() -> torch.nn.Sequential:
    model, (x, y) = network(), plain_rows(2000, 1)
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for _ in range(60):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def answers(found: poise.Audit) -> dict:
    """The verdict, and the numbers that are not about the embedding."""
    numbers = {name: held for name, held in found.facts["numbers"].items() if not name.endswith(EMBEDDING)}
    return {"verdict": found.facts["verdict"], "numbers": numbers, "errors": found.facts["leftover"]}


def test_rescaled_neurons_change_no_answer() -> None:
    """Eight neurons of the embedding times 32, the head divided: all logits stay, and so does all that is said."""
    model, data = fitted(), batches(*plain_rows(200, 3))
    before = poise.audit(model, data, examples=200)
    with torch.no_grad():
        model[0].weight[:8] *= 32
        model[0].bias[:8] *= 32
        model[2].weight[:, :8] /= 32
    after = poise.audit(model, data, examples=200)
    assert answers(after) == answers(before)
    assert after["near_gain"] != before["near_gain"]  # the embedding is another one


@pytest.mark.parametrize("scale", [8.0, 0.125])
def test_temperature_changes_only_the_calibration(scale: float) -> None:
    model, data = fitted(), batches(*plain_rows(200, 3))
    before = poise.audit(model, data, examples=200)
    with torch.no_grad():
        model[2].weight *= scale
        model[2].bias *= scale
    after = poise.audit(model, data, examples=200)
    assert after.names == before.names
    for name, held in answers(before)["numbers"].items():
        if name != "calibration_error":
            assert after[name] == pytest.approx(held["value"], abs=1e-6)


class Fragile(torch.nn.Module):
    """Right on clean rows; noise on 40 columns that are zero otherwise turns its answer, whatever their gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(1, 2, bias=False)
        self.head.weight.data = torch.tensor([[-1.0], [1.0]])

    def embed(self, x: torch.Tensor) -> torch.Tensor:
        noise = (x[:, 8:] ** 2).sum(1, keepdim=True)
        return x[:, :8].sum(1, keepdim=True) * torch.cos(20 * noise)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.embed(x))


def test_a_model_breaks_if_noise_on_what_it_uses_least_costs_answers() -> None:
    x, _ = plain_rows(200, 4)
    x[:, 8:] = 0
    found = poise.audit(Fragile(), batches(x, (x.sum(1) > 0).long()), examples=200)
    assert found.names == (BREAKS,) and "noise of sigma 0.25 on the least useful features takes" in found.verdict
    assert found["near_accuracy_drop"] > 0.3 and found["accuracy"] == 1


def number(value: float, low: float, high: float) -> Number:
    return Number(value, low, high, 100)


def test_findings_follow_the_numbers() -> None:
    drops = {"far_accuracy_drop": number(0.5, 0.4, 0.6)}
    assert not from_drop({**drops, "near_accuracy_drop": number(0.1, 0.04, 0.16)}, "noise on the {} features")
    (found,) = from_drop({**drops, "near_accuracy_drop": number(0.12, 0.06, 0.18)}, "noise on the {} features")
    assert "noise on the least useful features takes 12 [6, 18] points" in found.sentence
    for near, far, names in (
        (number(0.1, 0.1, 0.2), number(2, 1.5, 2.5), []),
        (number(0.1, 0.1, 0.2), number(0.1, 0.0, 0.2), [MISSES]),
        (number(2, 1.8, 2.2), number(1, 0.9, 1.1), [RELIES]),
        (number(2, 1.0, 2.2), number(1, 0.9, 1.1), []),
    ):
        assert [e.name for e in from_outside({"near_output_gain": near, "far_output_gain": far})] == names
    assert judge([], 100).names == (SOUND,) and "13%" in judge([], 100).sentence


def test_the_smallest_drop_is_the_first_that_breaks() -> None:
    least = smallest_drop(200)
    for wrong, breaks in ((round(200 * least), True), (round(200 * least) - 1, False)):
        assert (paired_drop(np.ones(200), (np.arange(200) >= wrong).astype(float)).low >= 0.05) == breaks
    assert smallest_drop(3) is None


def test_margins_and_gaps_by_loops() -> None:
    draw = np.random.default_rng(0)
    logits, labels = draw.normal(size=(30, 4)), draw.integers(4, size=30)
    for row, (values, label) in enumerate(zip(logits, labels, strict=True)):
        others = [value for place, value in enumerate(values) if place != label]
        assert margins(logits, labels)[row] == values[label] - max(others)
        first, second, *_ = sorted(values, reverse=True)
        assert top_gap(logits)[row] == first - second


def test_a_paired_drop_covers_the_truth() -> None:
    """Rare changes of paired answers: the interval holds the truth in 93 % of 2,000 samples or more."""
    draw, n, lost, won = np.random.default_rng(1), 100, 0.03, 0.01
    held = 0
    for _ in range(2000):
        kind = draw.random(n)
        before, after = (kind < 0.9).astype(float), (kind < 0.9).astype(float)
        after[kind < lost] = 0
        after[kind > 1 - won] = 1
        found = paired_drop(before, after)
        held += found.low <= lost - won <= found.high
    assert 0.93 <= held / 2000 <= 0.985
    none = paired_drop(np.ones(100), np.ones(100))
    assert none.value == 0 and none.low < 0 < none.high
