"""Statistics over seeds, against scipy, a slow Holm and values known by hand."""

import math
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from poise.reporting.statistics import Difference, holm, holm_corrected, paired, summarize, welch


def by_seed(values: np.ndarray) -> dict[int, float]:
    return {seed: float(value) for seed, value in enumerate(values)}


@pytest.mark.parametrize("n", [2, 3, 5, 10, 40])
def test_the_paired_test_is_scipys(n: int) -> None:
    draw = np.random.default_rng(n)
    one, other = draw.normal(0.7, 0.02, n), draw.normal(0.69, 0.02, n)
    found = paired(by_seed(one), by_seed(other))
    theirs = stats.ttest_rel(one, other)
    low, high = theirs.confidence_interval(0.95)
    assert found is not None and found.seeds == n
    assert [found.p, found.low, found.high] == pytest.approx([theirs.pvalue, low, high], rel=1e-9)
    assert found.mean == pytest.approx((one - other).mean())


@pytest.mark.parametrize(("n", "m"), [(2, 2), (3, 10), (5, 5)])
def test_welch_is_scipys(n: int, m: int) -> None:
    draw = np.random.default_rng(n)
    one, other = draw.normal(0.7, 0.02, n), draw.normal(0.68, 0.05, m)
    found = welch(summarize(list(one)), summarize(list(other)))
    theirs = stats.ttest_ind(one, other, equal_var=False)
    low, high = theirs.confidence_interval(0.95)
    assert [found.p, found.low, found.high] == pytest.approx([theirs.pvalue, low, high], rel=1e-9)
    assert found.mean == pytest.approx(one.mean() - other.mean()) and found.seeds == min(n, m)


def test_welch_needs_deviations() -> None:
    alone = summarize([0.5])
    assert welch(alone, summarize([0.4, 0.6])) == Difference(0.0, 1)
    assert welch(summarize([0.5, 0.5]), summarize([0.25, 0.25])) == Difference(0.25, 2)


def test_a_value_known_by_hand() -> None:
    found = paired({0: 1.0, 1: 2.0, 2: 3.0}, {0: 0.0, 1: 0.0, 2: 0.0})
    assert found is not None and found.mean == 2
    t = 2 * math.sqrt(3)  # with 2 degrees of freedom the distribution function is algebraic
    assert found.p == pytest.approx(1 - t / math.sqrt(2 + t**2))


def test_pairs_are_made_by_seed_not_by_place() -> None:
    one = {0: 0.5, 1: 0.6, 2: 0.7, 9: 0.0}
    other = {2: 0.69, 1: 0.58, 0: 0.49, 8: 1.0}
    found = paired(one, other)
    assert found is not None and found.seeds == 3
    assert found.p == pytest.approx(stats.ttest_rel([0.5, 0.6, 0.7], [0.49, 0.58, 0.69]).pvalue)


def test_one_seed_has_a_difference_and_nothing_else() -> None:
    assert paired({3: 0.75}, {3: 0.5, 4: 0.1}) == Difference(0.25, seeds=1)
    assert summarize([0.5]).std is None
    assert paired({1: 0.5}, {2: 0.5}) is None


def test_no_variance_is_not_a_significant_difference() -> None:
    same = paired({0: 0.1, 1: 0.2}, {0: 0.1, 1: 0.2})
    assert same == Difference(0.0, seeds=2, p=1.0)
    shifted = paired({0: 0.3, 1: 0.4, 2: 0.8}, {0: 0.2, 1: 0.3, 2: 0.7})  # the differences differ by rounding only
    assert shifted is not None and (shifted.p, shifted.low, shifted.significant) == (None, None, False)
    zero = paired({0: 0.0, 1: 0.0}, {0: 0.0, 1: 0.0})
    assert zero is not None and zero.p == 1.0


def test_the_summary_divides_by_n_minus_one() -> None:
    found = summarize([0.1, 0.2, 0.3])
    assert (found.mean, found.std, found.seeds) == (pytest.approx(0.2), pytest.approx(0.1), 3)


def slow_holm(values: list[float]) -> list[float]:
    """The closed test: p_i is the largest Bonferroni p of all sets of hypotheses that hold i."""
    places = range(len(values))
    sets = [each for size in places for each in combinations(places, size + 1)]
    return [max(min(1.0, len(s) * min(values[j] for j in s)) for s in sets if i in s) for i in places]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_the_closed_bonferroni_test(values: list[float]) -> None:
    assert holm(values) == pytest.approx(slow_holm(values))


def test_holm_by_hand_and_around_gaps() -> None:
    assert holm([0.01, None, 0.04, 0.03]) == pytest.approx([0.03, None, 0.06, 0.06])
    assert holm([None]) == [None] and holm([]) == []


def test_a_row_is_corrected_over_its_columns() -> None:
    row = [Difference(0.1, 5, 0, 0.2, p=0.03), None, Difference(0.1, 5, 0, 0.2, p=0.04), Difference(0.1, 1)]
    found = holm_corrected(row)
    assert [cell and cell.holm for cell in found] == [0.06, None, 0.06, None]
    assert not any(cell.significant for cell in found if cell)
    assert holm_corrected(row[:1])[0].significant


def test_what_the_seeds_can_decide_is_what_the_docs_say() -> None:
    page = (Path(__file__).parents[2] / "docs" / "results.md").read_text()
    for n in (3, 5, 6, 10, 20):
        needed = [stats.t.ppf(1 - 0.05 / 2 / columns, n - 1) / math.sqrt(n) for columns in (1, 3, 7)]
        assert f"| {n} | {' | '.join(f'{value:.2f}' for value in needed)} |" in page
    assert stats.wilcoxon(np.arange(1, 6)).pvalue == 0.0625 and "| .0625 |" in page
