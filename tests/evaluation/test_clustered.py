"""Intervals against closed forms, SciPy's tests and simulations of examples that are tested many times."""

import numpy as np
import pytest
from scipy.stats import binomtest, ttest_rel

from poise.evaluation.clustered import (
    calibration_error,
    calibration_of,
    mcnemar,
    of_calibration,
    of_lowest,
    of_mean,
    of_share,
    paired_difference,
    resamples,
)


def test_a_share_of_right_answers_has_wilsons_interval() -> None:
    right = np.arange(4000) < 3100
    number, wilson = of_share(right), binomtest(3100, 4000).proportion_ci(method="wilson")
    assert number.value == 0.775
    assert (number.low, number.high) == pytest.approx((wilson.low, wilson.high), abs=2e-5)


def test_a_share_without_spread_still_has_an_interval() -> None:
    number = of_share(np.ones(50))
    assert number.value == number.high == 1 and number.low is not None and 0.9 < number.low < 0.95
    assert of_share(np.ones(1)).low is None


def right_answers(draw: np.random.Generator, n: int = 60, tests: int = 30) -> np.ndarray:
    """Right answers [n, tests]: some examples are easy under every corruption, others hard."""
    ease = draw.beta(1.5, 0.8, size=(n, 1))
    return draw.uniform(size=(n, tests)) < ease


def covered(interval_of, truth: float, times: int = 2000) -> float:
    draw, hits = np.random.default_rng(0), 0
    for _ in range(times):
        number = interval_of(right_answers(draw))
        hits += number.low <= truth <= number.high
    return hits / times


def test_intervals_cover_the_truth_if_examples_are_clusters() -> None:
    truth = 1.5 / 2.3
    assert 0.935 < covered(lambda right: of_share(right.mean(1)), truth) < 0.965
    assert 0.935 < covered(lambda right: of_mean(right.mean(1)), truth) < 0.965
    as_if_independent = covered(lambda right: of_share(right.reshape(-1)), truth)
    assert as_if_independent < 0.5, "the simulation would not tell clusters from independent examples"


def test_intervals_of_the_lowest_class_cover_the_lowest_accuracy() -> None:
    draw, truth, hits = np.random.default_rng(1), np.array([0.6, 0.62, 0.65, 0.9, 0.95]), 0
    classes = np.repeat(np.arange(5), 40)
    for _ in range(1000):
        label, number = of_lowest(draw.uniform(size=200) < truth[classes], classes)
        assert label in range(5) and number.low is not None and number.high is not None
        hits += number.low <= 0.6 <= number.high
    assert hits / 1000 >= 0.95


@pytest.mark.parametrize(("bend", "n"), [(1.0, 300), (0.1, 300), (0.0, 300), (0.1, 2000), (1.0, 2000)])
def test_intervals_of_the_calibration_error_cover_it(bend: float, n: int) -> None:
    """Accuracy c - bend (c - c^2) at uniform confidence c; 0 is calibrated, where a bootstrap covers nearly never."""
    draw, hits, times = np.random.default_rng(2), 0, 200
    drawn = resamples(n)
    grid = (np.arange(100_000) + 0.5) / 100_000
    truth = calibration_error(grid, grid - bend * (grid - grid**2))
    assert truth == pytest.approx(bend / 6, abs=1e-3)
    for _ in range(times):
        confidence = draw.uniform(size=n)
        right = (draw.uniform(size=n) < confidence - bend * (confidence - confidence**2)).astype(float)
        found = calibration_of(confidence, right, drawn)
        assert found.error == pytest.approx(calibration_error(confidence, right), abs=1e-6)
        number = of_calibration([found], [1.0])
        hits += number.low - 1e-3 <= truth <= number.high  # type: ignore[operator]
    assert hits / times >= 0.94


def test_the_calibration_error_is_that_of_a_loop() -> None:
    draw = np.random.default_rng(3)
    confidence, right = draw.uniform(size=500), draw.integers(0, 2, 500).astype(float)
    confidence[:3] = 0, 1, 1 / 15
    total = 0.0
    for b in range(15):
        held = [i for i in range(500) if (b / 15 < confidence[i] <= (b + 1) / 15) or (b == 0 and confidence[i] == 0)]
        if held:
            total += len(held) / 500 * abs(np.mean([right[i] for i in held]) - np.mean([confidence[i] for i in held]))
    assert calibration_error(confidence, right) == pytest.approx(total)


def test_paired_tests_are_those_of_scipy() -> None:
    draw = np.random.default_rng(4)
    one, other = draw.uniform(size=80) < 0.7, draw.uniform(size=80) < 0.5
    both = binomtest(int((one & ~other).sum()), int((one != other).sum())).pvalue
    assert mcnemar(one, other) == pytest.approx(both)
    assert mcnemar(one, one) == 1
    means = draw.uniform(size=(2, 80))
    gap, found = paired_difference(*means), ttest_rel(*means)
    assert gap.p == pytest.approx(found.pvalue)
    ends = found.confidence_interval(0.95)
    assert (gap.low, gap.high) == pytest.approx((ends.low, ends.high))
    assert paired_difference(one, one).p == 1
