"""Intervals and the correction for attenuation, against scipy, slow loops and simulated truth."""

import numpy as np
import pytest
import torch
from scipy import stats

import poise
from poise.auditing.estimates.misuse import FeatureRemoval, misused_features, temperature
from poise.auditing.estimates.numbers import calibration, corrected, mean, proportion, resampled
from poise.features.sensitivity import overlap, spearman


def test_spearman_is_scipys_with_ties() -> None:
    one, other = torch.randint(6, (5, 40)).float(), torch.randint(6, (5, 40)).float()
    expected = [stats.spearmanr(a, b).statistic for a, b in zip(one.numpy(), other.numpy(), strict=True)]
    assert spearman(one, other).tolist() == pytest.approx(expected)
    keep = torch.rand(5, 40) < 0.5
    expected = [stats.spearmanr(a[k], b[k]).statistic for a, b, k in zip(one.numpy(), other.numpy(), keep, strict=True)]
    assert spearman(one, other, keep).tolist() == pytest.approx(expected)


def test_spearman_is_scipys_without_ties() -> None:
    one, other = torch.rand(3, 50), torch.rand(3, 50)
    expected = [stats.spearmanr(a, b).statistic for a, b in zip(one.numpy(), other.numpy(), strict=True)]
    assert spearman(one, other).tolist() == pytest.approx(expected)


def test_spearman_of_a_constant_or_of_two_features_is_unknown() -> None:
    assert spearman(torch.ones(1, 5), torch.rand(1, 5)).isnan().all()
    assert spearman(torch.rand(1, 3), torch.rand(1, 3), torch.tensor([[True, True, False]])).isnan().all()


def test_overlap() -> None:
    one, other = torch.tensor([[1, 1, 0, 0]]).bool(), torch.tensor([[0, 1, 1, 0]]).bool()
    assert overlap(one, other).tolist() == [0.5]


@pytest.mark.parametrize(("right", "n"), [(0, 20), (20, 20), (13, 20), (70, 100)])
def test_shares_have_wilsons_interval(right: int, n: int) -> None:
    found = proportion(np.arange(n) < right)
    low, high = stats.binomtest(right, n).proportion_ci(method="wilson")
    assert [found.value, found.low, found.high] == pytest.approx([right / n, low, high], abs=1e-6)


def test_the_bootstrap_covers_a_mean_as_often_as_it_says() -> None:
    draw = np.random.default_rng(0)
    hits = [found.low < 1.0 < found.high for found in (mean(draw.exponential(1, 80)) for _ in range(80))]
    assert 0.88 < np.mean(hits) < 0.99


def test_missing_values_do_not_count() -> None:
    values = np.array([1.0, np.nan, 3.0, np.nan, 5.0])
    assert mean(values).value == 3.0 and mean(values).examples == 3
    assert np.nanmean(resampled(values[:, None])) == pytest.approx(3.0, abs=0.2)


def test_calibration_is_the_slow_one() -> None:
    draw = np.random.default_rng(0)
    confidence = draw.uniform(0.1, 1, 300)
    right = (draw.uniform(size=300) < confidence**2).astype(float)
    slow = 0.0
    for bin_ in range(15):
        inside = [i for i, c in enumerate(confidence) if bin_ <= c * 15 < bin_ + 1]
        if inside:
            slow += len(inside) / 300 * abs(np.mean(right[inside]) - np.mean(confidence[inside]))
    found = calibration(right, confidence)
    assert found.value == pytest.approx(slow) and found.low < slow * 1.3 and found.high > slow


def confidences(power: float, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """right, and how sure the model was: right in confidence^power of the cases."""
    confidence = draw.beta(3, 1, 100)
    return (draw.uniform(size=100) < confidence**power).astype(float), confidence


def test_the_interval_of_calibration_holds_its_value_and_mostly_the_truth() -> None:
    """Percentiles of resamples left out the value in one sample of eight, and the truth in one of seven."""
    draw = np.random.default_rng(0)
    truth = 3 / 4 - 3 / 5  # the integral of (c - c^2) 3 c^2
    found = [calibration(*confidences(2, draw)) for _ in range(80)]
    assert np.mean([each.low <= truth <= each.high for each in found]) > 0.88
    found += [calibration(*confidences(1, draw)) for _ in range(80)]
    assert all(0 <= each.low <= each.value <= each.high <= 1 for each in found)


class Wavy(torch.nn.Module):
    """phi(x) = sin(W x): 60 values, a Jacobian that differs from example to example."""

    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Linear(200, 60)
        self.body.weight.data *= torch.linspace(0.5, 3, 200)
        self.head = torch.nn.Linear(60, 4)

    def embed(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x).sin()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.embed(x))


def test_the_attenuation_of_probes_is_corrected() -> None:
    """The exact Jacobian has the truth; few probes pull it towards 0, and the correction brings it back."""
    probes = 4
    torch.manual_seed(3)
    model, x = Wavy(), torch.randn(150, 200)
    data = [(x, torch.randint(4, (150,)))]
    settings = {"examples": 150, "corruptions": "none", "strengths": (0.1,)}
    truth = poise.audit(model, data, probes=None, **settings)
    rough = poise.audit(model, data, probes=probes, **settings)
    assert truth["reliability"] == 1.0 and truth["rank_correlation"] == pytest.approx(
        truth["observed_rank_correlation"]
    )
    observed, exact = rough["observed_rank_correlation"], truth["rank_correlation"]
    assert observed < 0.9 * exact
    number = rough.facts["numbers"]["rank_correlation"]
    assert abs(number["value"] - exact) < 0.25 * (exact - observed)
    assert number["low"] < exact < number["high"]
    plain = rough.facts["numbers"]["observed_rank_correlation"]
    assert number["high"] - number["low"] > plain["high"] - plain["low"]
    assert rough.facts["estimator"]["relative_error"] == pytest.approx(1 / np.sqrt(2 * probes))


def test_hopeless_probes_give_no_number() -> None:
    rho, reliability = corrected(np.full(50, 0.1), np.random.default_rng(0).normal(0, 0.01, 50))
    assert np.isnan(rho.value) and reliability.value < 0.05


def test_temperature_undoes_overconfidence() -> None:
    draw = np.random.default_rng(0)
    logits = draw.normal(0, 2, (4000, 3))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = np.array([draw.choice(3, p=row) for row in p])
    assert temperature(3 * logits, labels) == pytest.approx(3, rel=0.1)


def test_nothing_is_left_over_where_the_model_is_right() -> None:
    """False alarms stay at the level: labels drawn from the model's own probabilities."""
    draw = np.random.default_rng(0)
    untouched = FeatureRemoval(lambda _: np.zeros((0, 2)), np.zeros(10), np.ones(10))
    alarms = 0
    for seed in range(10):
        values = draw.normal(size=(120, 10))
        logits = np.stack([values[:, 0], -values[:, 0]], 1)
        labels = (draw.uniform(size=120) > 1 / (1 + np.exp(-2 * values[:, 0]))).astype(int)
        found = misused_features(logits, labels, values, untouched, [str(n) for n in range(10)], seed)
        alarms += any(each.p < 0.02 for each in found)
    assert alarms <= 1
