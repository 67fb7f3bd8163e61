"""Intervals of differences, judged by SciPy's t intervals and by simulation."""

import numpy as np
import pytest
from scipy import stats

from poise.advising.intervals import Scores, pooled_variance
from poise.records.columns import Column

CLEAN = (Column("clean", ("clean",)),)


def shared(labels: np.ndarray, columns: tuple[Column, ...] = CLEAN, seeds: int = 5) -> Scores:
    return Scores(columns, [np.arange(len(labels))] * seeds, [labels] * seeds)


def right(*rows: np.ndarray) -> dict:
    return {seed: {"clean": np.asarray(row, bool)} for seed, row in enumerate(rows)}


def test_without_spread_between_seeds_it_is_the_paired_t_interval() -> None:
    """Over examples, with one more example on which the methods differ."""
    draw = np.random.default_rng(0)
    a, b = draw.random(40) < 0.9, draw.random(40) < 0.6
    gap = shared(np.zeros(40)).gap(right(a, a), right(b, b), None, (0.0, 0), 1)
    d = a.astype(float) - b
    reach = stats.t.ppf(0.975, 39) * np.sqrt(d.var(ddof=1) / 40 + 1 / 40**2)
    assert (gap.mean, gap.low, gap.high) == pytest.approx((d.mean(), d.mean() - reach, d.mean() + reach))


def test_in_folds_it_is_the_paired_t_interval_over_seeds() -> None:
    labels, numbers = [np.zeros(200)] * 4, [np.arange(200) + 200 * fold for fold in range(4)]
    scores = Scores(CLEAN, numbers, labels)
    a = right(*[np.arange(200) < level for level in (180, 150, 190, 120)])
    b = right(*[np.arange(200) < 100 for _ in range(4)])
    gap = scores.gap(a, b, "clean", (0.0, 0), 1)
    d = np.array([0.4, 0.25, 0.45, 0.1])
    low, high = stats.t.interval(0.95, 3, d.mean(), stats.sem(d))
    assert (gap.mean, gap.low, gap.high) == pytest.approx((d.mean(), low, high))


def test_many_candidates_widen_the_interval() -> None:
    a, b = right(*np.ones((3, 50))), right(*np.zeros((3, 50)))
    gap = shared(np.zeros(50)).gap(a, b, None, (0.0, 0), 10)
    ratio = stats.t.ppf(1 - 0.025 / 10, 49) / stats.t.ppf(0.975, 49)
    assert gap.wide_high - gap.mean == pytest.approx(ratio * (gap.high - gap.mean))


def test_few_examples_decide_nothing() -> None:
    """Three of three rare examples won: still within the interval of three examples."""
    labels = np.array([0] * 50 + [1] * 3)
    rare = (Column("rare", ("clean",), (1,)),)
    gap = shared(labels, rare).gap(right(*[labels == 1] * 3), right(*[labels == 2] * 3), "rare", (0.0, 0), 1)
    assert gap.mean == 1 and gap.low < 0


def test_a_column_of_classes_counts_each_class_once_and_the_score_each_column() -> None:
    labels = np.array([0] * 8 + [1] * 2)
    columns = (*CLEAN, Column("rare", ("clean",), (0, 1)))
    scores = shared(labels, columns)
    given = right(labels == 1)
    assert scores.mean(given, "clean") == pytest.approx(0.2) and scores.mean(given, "rare") == pytest.approx(0.5)
    assert scores.mean(given) == pytest.approx(0.35)


def test_one_seed_has_no_interval() -> None:
    gap = shared(np.zeros(20)).gap(right(np.ones(20)), right(np.zeros(20)), None, (0.1, 5), 1)
    assert gap.mean == 1 and gap.low is None and gap.wide_high is None


def test_pooled_variance_weighs_by_degrees_of_freedom() -> None:
    assert pooled_variance([[0.0, 2.0], [1.0, 1.0, 1.0], [5.0]]) == (pytest.approx(2 / 3), 3)
    assert pooled_variance([[1.0]]) == (0.0, 0)


@pytest.mark.parametrize("spread", [0.0, 0.1])
def test_the_interval_holds_the_truth_as_often_as_it_says(spread: float) -> None:
    """Two methods with one true accuracy, examples of different difficulty, and seeds that move both."""
    draw, scores, inside = np.random.default_rng(1), shared(np.zeros(80), seeds=3), 0
    for _ in range(400):
        difficulty = draw.uniform(0.4, 1, 80)
        moves = draw.normal(0, spread, (2, 3, 1))
        a, b = (draw.random((3, 80)) < (difficulty + move).clip(0, 1) for move in moves)
        gap = scores.gap(right(*a), right(*b), None, (0.0, 0), 1)
        inside += gap.low <= 0 <= gap.high
    assert inside / 400 > 0.93
