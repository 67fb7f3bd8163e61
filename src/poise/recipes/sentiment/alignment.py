"""Does a model look at the words that people mark? Token values of a model against human sentiment strength (4.1).

    strength   h_w = | score_w - 0.5 |; tokens whose score lies in [0.45, 0.55], or that have none, are left out

    r          Pearson's correlation with h in a sentence, averaged over the sentences that count: those with at least 3
               tokens left, not all of one strength; a model that gives them all one value has r = 0
    pooled r   Pearson's correlation over all tokens left of all sentences
    rho        Spearman's rank correlation, averaged like r
    top-3      of a sentence's three tokens with the highest values, neutral ones included, the share that are among its
               three strongest, or as strong as the third; averaged like r

Axes: W tokens of a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

NEUTRAL = (0.45, 0.55)
FEWEST = 3
_EPSILON = 1e-9  # scores are written with a few digits: 0.55 is neutral, whatever its last bit


def is_marked(scores: np.ndarray) -> np.ndarray:
    """[W] which tokens carry sentiment."""
    low, high = NEUTRAL
    marked: np.ndarray = np.isfinite(scores) & ~((scores >= low - _EPSILON) & (scores <= high + _EPSILON))
    return marked


def strength(scores: np.ndarray) -> np.ndarray:
    """[W] how far each score is from neutral; 0 for a token without one."""
    return np.nan_to_num(np.abs(scores - 0.5))


def counts(scores: np.ndarray) -> bool:
    """Whether a sentence with these scores has an order of tokens to agree with."""
    left = strength(scores)[is_marked(scores)]
    return len(left) >= FEWEST and bool(np.ptp(left) > _EPSILON)


def pearson(values: np.ndarray, others: np.ndarray) -> float:
    """The correlation of two lists; 0 where one of them does not vary."""
    a, b = values - values.mean(), others - others.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else 0.0


def ranks(values: np.ndarray) -> np.ndarray:
    """From 0 on; equal values share the mean of their ranks."""
    column = values[:, None]
    below: np.ndarray = (column > values).sum(1) + ((column == values).sum(1) - 1) / 2
    return below


def sentence_r(scores: np.ndarray, values: np.ndarray) -> float:
    """Pearson's correlation in one sentence, over the tokens that carry sentiment."""
    left = is_marked(scores)
    return pearson(strength(scores)[left], values[left])


def sentence_rho(scores: np.ndarray, values: np.ndarray) -> float:
    left = is_marked(scores)
    return pearson(ranks(strength(scores)[left]), ranks(values[left]))


def top_three(scores: np.ndarray, values: np.ndarray) -> float:
    marked = np.where(is_marked(scores), strength(scores), -1.0)
    third = np.sort(marked)[-FEWEST]
    highest = np.argsort(-values, kind="stable")[:FEWEST]
    return float((marked[highest] >= third - _EPSILON).mean())


@dataclass(frozen=True)
class Agreement:
    """What a set of sentences says, and how much of it was counted."""

    r: float
    pooled_r: float
    rho: float
    top_three: float
    sentences: int
    tokens: int


def agreement(scores: Sequence[np.ndarray], values: Sequence[np.ndarray]) -> Agreement | None:
    """Human scores and a model's values, an array [W] per sentence; None if no sentence counts."""
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
