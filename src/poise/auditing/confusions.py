"""Classes that the model does not tell apart: most examples of one are taken for one and the same other.

A model that sees what makes the difference errs here and there; one that ignores it takes the whole class for another.
Tested against "at most half of the class", by the binomial distribution, times the number of classes (Bonferroni).
Needs three classes or more: of two, a model that prefers one would look the same.

Classes taken for each other in a ring, A for B and B for A, are another matter: who does not see a difference gives
both the same name. Then the labels are numbered otherwise than the model's classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import comb
from typing import Any

import numpy as np

LEVEL = 0.02
_LEAST = 5  # examples of a class


@dataclass(frozen=True)
class Confusion:
    """`count` of `of` examples of class `label` are taken for `taken_for`; p is corrected for all classes tried."""

    label: int
    taken_for: int
    count: int
    of: int
    p: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def confusions(labels: np.ndarray, predicted: np.ndarray) -> list[Confusion]:
    """Classes of which significantly more than half is taken for one other, the surest first."""
    classes, counts = np.unique(labels, return_counts=True)
    tried = classes[counts >= _LEAST]
    found = []
    for label in tried if len(classes) > 2 else []:
        others = predicted[(labels == label) & (predicted != label)]
        if not len(others):
            continue
        names, hits = np.unique(others, return_counts=True)
        count, of = int(hits.max()), int((labels == label).sum())
        p = min(1.0, len(tried) * sum(comb(of, k) for k in range(count, of + 1)) / 2**of)
        found.append(Confusion(int(label), int(names[hits.argmax()]), count, of, p))
    return sorted((each for each in found if each.p < LEVEL), key=lambda each: each.p)


def in_a_ring(found: Sequence[Confusion]) -> list[Confusion]:
    """Those that lead from their class over others back to it."""
    leads = {each.label: each.taken_for for each in found}

    def returns(label: int) -> bool:
        place = leads[label]
        for _ in leads:
            if place == label:
                return True
            place = leads.get(place, place)
        return False

    return [each for each in found if returns(each.label)]
