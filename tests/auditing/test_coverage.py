"""95 % intervals hold the truth in 95 of 100 samples; benchmarks/audit_coverage.py counts for all numbers."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from poise.auditing.estimates.numbers import Number, linear, mean, mean_share, proportion, ratio, student

SAMPLES, SIZE = 1000, 100


def coverage(draw_sample: Callable[[np.random.Generator], Number], truth: float) -> float:
    draw = np.random.default_rng(0)
    found = [draw_sample(draw) for _ in range(SAMPLES)]
    return float(np.mean([each.low <= truth <= each.high for each in found]))


def answers(draw: np.random.Generator) -> np.ndarray:
    """Twelve answers to each example that go together: 6 % of the examples are hard, and wrong three times in four."""
    hard = draw.random(SIZE) < 0.06
    return (draw.random((SIZE, 12)) >= np.where(hard, 0.75, 0.005)[:, None]).astype(float)


def test_corrupted_accuracy_near_one() -> None:
    """Where percentiles of resamples hold the truth in 77 % of the samples of an ordinary model."""
    truth = 1 - (0.06 * 0.75 + 0.94 * 0.005)
    assert 0.93 <= coverage(lambda draw: mean_share(answers(draw)), truth) <= 0.985


def test_a_sample_without_errors_is_not_certain() -> None:
    for found in (mean_share(np.ones((50, 12))), proportion(np.ones(50))):
        assert found.value == 1 and 0.9 < found.low < 0.95


def test_skewed_means_and_ratios() -> None:
    """Log-normal shifts, and their ratio to others of the same examples; the unit is estimated, too."""
    assert 0.92 <= coverage(lambda draw: mean(draw.lognormal(0, 0.8, SIZE)), np.exp(0.32)) <= 0.97

    def pair(draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        size = draw.lognormal(0, 0.5, SIZE)
        return 2 * size * draw.lognormal(0, 0.4, SIZE), size * draw.lognormal(0, 0.4, SIZE)

    assert 0.92 <= coverage(lambda draw: ratio(*pair(draw)), 2.0) <= 0.97
    one, other = pair(np.random.default_rng(1))
    values = linear(one, other)
    assert values.mean() == pytest.approx(one.mean() / other.mean())
    jackknife = [np.delete(one, i).mean() / np.delete(other, i).mean() for i in range(SIZE)]
    error = np.sqrt((SIZE - 1) * np.var(jackknife))
    assert values.std(ddof=1) / 10 == pytest.approx(error, rel=0.03)


def test_students_t_is_scipys() -> None:
    for freedom in (5, 9, 29, 99, 1000):
        assert student(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), abs=0.01)
