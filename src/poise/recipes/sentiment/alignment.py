"""Alignment with people (section 4.1): a model's token values against human sentiment strength.

    strength   h_w = | score_w - 0.5 |; leaves out tokens without a score, or with one in [0.45, 0.55]

    r          Pearson's correlation with h in a sentence, averaged over the sentences that count: those with at least 3
               tokens left, not all of one strength; r = 0 if the model gives all of them the same value
    pooled r   Pearson's correlation over all remaining tokens of all sentences
    rho        Spearman's rank correlation, averaged like r
    top-3      among a sentence's three tokens with the highest values, including neutral ones, the share that are among
               its three strongest, or as strong as the third; averaged like r

Axes: W tokens of a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

NEUTRAL = (0.45, 0.55)
FEWEST = 3
_EPSILON = 1e-9  # scores have few digits: 0.55 counts as neutral, whatever its last bit


def is_marked(scores: np.ndarray) -> np.ndarray:
    """[W] True for tokens that carry sentiment."""
    low, high = NEUTRAL
    marked: np.ndarray = np.isfinite(scores) & ~((scores >= low - _EPSILON) & (scores <= high + _EPSILON))
    return marked


def strength(scores: np.ndarray) -> np.ndarray:
    """[W] the distance of each score from neutral; 0 for a token without a score."""
    return np.nan_to_num(np.abs(scores - 0.5))


def counts(scores: np.ndarray) -> bool:
    """Whether a sentence with these scores has a ranking of tokens to compare with."""
    left = strength(scores)[is_marked(scores)]
    return len(left) >= FEWEST and bool(np.ptp(left) > _EPSILON)


def pearson(values: np.ndarray, others: np.ndarray) -> float:
    """The correlation of two lists; 0 if one of them is constant."""
    a, b = values - values.mean(), others - others.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else 0.0


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks starting at 0; equal values share the mean of their ranks."""
    column = values[:, None]
    below: np.ndarray = (column > values).sum(1) + ((column == values).sum(1) - 1) / 2
    return below


def sentence_r(scores: np.ndarray, values: np.ndarray) -> float:
    """Pearson's correlation in one sentence, over the tokens that carry sentiment."""
    left = is_marked(scores)
    return pearson(strength(scores)[left], values[left])


def sentence_rho(scores: np.ndarray, values: np.ndarray) -> float:
    left = is_marked(scores)
    return pearson(_ranks(strength(scores)[left]), _ranks(values[left]))


def top_three(scores: np.ndarray, values: np.ndarray) -> float:
    marked = np.where(is_marked(scores), strength(scores), -1.0)
    third = np.sort(marked)[-FEWEST]
    highest = np.argsort(-values, kind="stable")[:FEWEST]
    return float((marked[highest] >= third - _EPSILON).mean())


@dataclass(frozen=True)
class Agreement:
    """The agreement over a set of sentences, and the number of sentences and tokens that counted."""

    r: float
    pooled_r: float
    rho: float
    top_three: float
    sentences: int
    tokens: int


def agreement(scores: Sequence[np.ndarray], values: Sequence[np.ndarray]) -> Agreement | None:
    """Compare human scores with a model's values, an array [W] per sentence; None if no sentence counts."""
    pairs = [(one, other) for one, other in zip(scores, values, strict=True) if counts(one)]
    if not pairs:
        return None
    left = [is_marked(one) for one in scores]
    pooled = (
        np.concatenate([strength(one)[kept] for one, kept in zip(scores, left, strict=True)]),
        np.concatenate([other[kept] for other, kept in zip(values, left, strict=True)]),
    )
    return Agreement(
        r=fmean(sentence_r(*pair) for pair in pairs),
        pooled_r=pearson(*pooled),
        rho=fmean(sentence_rho(*pair) for pair in pairs),
        top_three=fmean(top_three(*pair) for pair in pairs),
        sentences=len(pairs),
        tokens=len(pooled[0]),
    )
