"""Agreement with human scores: against SciPy, and by hand."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from poise.data.sets.sst import read_sentences
from poise.recipes.sentiment.alignment import agreement, counts, is_marked, pearson, sentence_r, sentence_rho, top_three

SCORES = np.array([0.9, 0.5, 0.7, 0.45, 0.2, 0.55, np.nan, 0.1, 0.56])
VALUES = np.array([3.0, 9.0, 1.0, 8.0, 2.0, 7.0, 6.0, 2.5, 0.5])


def test_neutral_tokens_and_tokens_without_a_score_are_left_out() -> None:
    assert is_marked(SCORES).tolist() == [True, False, True, False, True, False, False, True, True]
    assert not is_marked(np.array([0.45, 0.55])).any() and is_marked(np.array([0.4499, 0.5501])).all()


def test_correlations_are_scipys() -> None:
    left = is_marked(SCORES)
    strength, values = np.abs(SCORES - 0.5)[left], VALUES[left]
    assert sentence_r(SCORES, VALUES) == pytest.approx(stats.pearsonr(strength, values).statistic)
    assert sentence_rho(SCORES, VALUES) == pytest.approx(stats.spearmanr(strength, values).statistic)
    state = np.random.RandomState(0)
    for _ in range(20):
        a, b = state.randint(0, 4, 9) / 4, state.rand(9).round(1)
        expected = stats.pearsonr(a, b).statistic
        assert pearson(a, b) == pytest.approx(expected)


def test_ties_share_their_rank() -> None:
    scores, values = np.array([0.9, 0.9, 0.7, 0.1, 0.3]), np.array([1.0, 1.0, 0.5, 0.5, 2.0])
    assert sentence_rho(scores, values) == pytest.approx(stats.spearmanr(np.abs(scores - 0.5), values).statistic)


def test_a_sentence_counts_with_three_tokens_of_unequal_strength() -> None:
    assert counts(np.array([0.9, 0.5, 0.2, 0.7]))
    assert not counts(np.array([0.9, 0.5, 0.2]))  # two
    assert not counts(np.array([0.9, 0.1, 0.9]))  # one strength
    assert not counts(np.array([0.9, np.nan, 0.2, 0.5]))


def test_the_three_highest_values_against_the_three_strongest_tokens() -> None:
    scores = np.array([1.0, 0.0, 0.7, 0.6, 0.5])
    assert top_three(scores, np.array([5.0, 4.0, 3.0, 2.0, 1.0])) == 1
    assert top_three(scores, np.array([5.0, 4.0, 0.0, 0.0, 9.0])) == pytest.approx(2 / 3)  # a neutral one is in the way
    tied = np.array([1.0, 0.0, 0.7, 0.3, 0.5])  # the third place is shared
    assert top_three(tied, np.array([5.0, 4.0, 0.0, 3.0, 1.0])) == 1
    three = np.array([0.9, 0.5, 0.8, 0.7])
    assert top_three(three, np.array([1.0, 9.0, 2.0, 3.0])) == pytest.approx(2 / 3)


def test_averages_are_over_sentences_and_pooling_is_over_tokens() -> None:
    state = np.random.RandomState(1)
    scores = [state.rand(n) for n in (6, 9, 4, 12)] + [np.array([0.9, 0.5])]
    values = [state.rand(len(each)) for each in scores]
    found = agreement(scores, values)
    counted = [n for n in range(4) if counts(scores[n])]
    assert found.sentences == len(counted) >= 3
    assert found.r == pytest.approx(np.mean([sentence_r(scores[n], values[n]) for n in counted]))
    one, other = np.concatenate(scores), np.concatenate(values)  # short sentences too
    left = (one < 0.45) | (one > 0.55)
    assert found.tokens == left.sum()
    assert found.pooled_r == pytest.approx(stats.pearsonr(np.abs(one - 0.5)[left], other[left]).statistic)


def test_a_model_without_an_opinion_agrees_with_nobody() -> None:
    found = agreement([np.array([0.9, 0.2, 0.6])], [np.zeros(3)])
    assert (found.r, found.rho, found.pooled_r) == (0, 0, 0)
    assert agreement([np.array([0.5, 0.5])], [np.zeros(2)]) is None


SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.mark.skipif(not (SHARED / "sst").exists(), reason="the SST files are not beside the checkout")
def test_so_many_sentences_of_the_treebank_count() -> None:
    """The numbers of docs/sentiment.md, for the scores of token_scores.tsv."""
    for split, expected in {"dev": (872, 614, 3377), "test": (1821, 1217, 6822)}.items():
        scores = [np.array(each.raw_scores) for each in read_sentences(SHARED / "sst", split) if each.label is not None]
        marked = sum(int(is_marked(each).sum()) for each in scores)
        assert (len(scores), sum(counts(each) for each in scores), marked) == expected
