"""Differences between two methods, with intervals over seeds and over validation examples.

    d_ki        a - b of example i in term k: the mean over seeds and sets of right_a - right_b;  d_k: its mean over i
    difference  sum_k W_k d_k; a column is one term, or one per rare class, and the score is the mean of the columns
    V_examples  sum_i phi_i^2 + sum_k (W_k / n_k)^2,   phi_i = sum_k W_k / n_k (d_ki - d_k)
    V_seeds     variance between the S seeds' differences, at least that pooled over all candidates, divided by S
    interval    difference ± t_f sqrt(V),   V = V_examples + V_seeds,   f by Welch and Satterthwaite

Methods are paired: they see the same seeds and the same examples with the same noise. An example counts once, also if
several columns, noises and seeds use it. The second term of V_examples is that of one more example on which the methods
differ: without it, few examples that agree would look certain. If seeds validate on different folds, V_seeds contains
the chance of examples, too, and V is the larger of the two.

Axes: S seeds, N examples of a seed, K terms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TypeAlias

import numpy as np
from scipy.special import stdtrit  # type: ignore[import-untyped]

from poise.records.columns import Column
from poise.reporting.statistics import LEVEL

Right: TypeAlias = "Mapping[int, Mapping[str, np.ndarray]]"  # seed → set → which examples are right [N]


@dataclass(frozen=True)
class Term:
    """A weighted part of a difference: the examples of a class, or all of them, in some sets."""

    weight: float
    sets: tuple[str, ...]
    label: int | None


@dataclass(frozen=True)
class Gap:
    """A difference and its interval; without one if there is a single seed. `wide` holds for all candidates at once."""

    mean: float
    low: float | None = None
    high: float | None = None
    wide_low: float | None = None
    wide_high: float | None = None


@dataclass(frozen=True, eq=False)
class Scores:
    """What is measured, on which examples: their numbers and labels for each seed [N]."""

    columns: Sequence[Column]
    numbers: Sequence[np.ndarray]
    labels: Sequence[np.ndarray]

    def terms(self, column: str | None = None) -> tuple[Term, ...]:
        """The terms of a column, or of the score, which is the mean of the columns."""
        if column is None:
            share = 1 / len(self.columns)
            each = [term for found in self.columns for term in self.terms(found.name)]
            return tuple(Term(share * term.weight, term.sets, term.label) for term in each)
        found = next(each for each in self.columns if each.name == column)
        labels = found.classes or (None,)
        return tuple(Term(1 / len(labels), found.of, label) for label in labels)

    def mean(self, right: Right, column: str | None = None) -> float:
        """The mean over seeds of a column, or of the score; 0 without seeds."""
        terms = self.terms(column)
        return float(np.mean([self._value(terms, seed, one) for seed, one in right.items()])) if right else 0.0

    def seed_differences(self, a: Right, b: Right, column: str | None = None) -> list[float]:
        """a - b for each common seed."""
        terms, seeds = self.terms(column), sorted(a.keys() & b.keys())
        return [self._value(terms, seed, a[seed]) - self._value(terms, seed, b[seed]) for seed in seeds]

    def gap(self, a: Right, b: Right, column: str | None, pooled: tuple[float, int], many: int) -> Gap:
        """a - b over their common seeds.

        pooled  a variance between seeds, and its degrees of freedom.
        many    the number of candidates for which the wide interval holds at once.
        """
        differences = self.seed_differences(a, b, column)
        mean, by_examples, freedom = self._over_examples(self.terms(column), a, b)
        own = float(np.var(differences, ddof=1)) if len(differences) > 1 else 0.0
        variance, degrees = max(pooled[0], own), max(pooled[1], len(differences) - 1)
        if len(differences) < 2:
            return Gap(mean)
        by_seeds = variance / len(differences)
        if self._in_folds:
            total, f = max((by_examples, freedom), (by_seeds, degrees))
        else:
            total = by_examples + by_seeds
            f = total**2 / (by_examples**2 / freedom + by_seeds**2 / degrees)
        reach, wide = (float(stdtrit(f, 1 - LEVEL / 2 / tests)) * sqrt(total) for tests in (1, many))
        return Gap(mean, mean - reach, mean + reach, mean - wide, mean + wide)

    @property
    def _in_folds(self) -> bool:
        """Whether seeds validate on different examples."""
        return len(self.numbers) > 1 and not np.array_equal(self.numbers[0], self.numbers[1])

    def _value(self, terms: tuple[Term, ...], seed: int, right: Mapping[str, np.ndarray]) -> float:
        return sum(
            term.weight * float(np.mean([right[name][self._rows(term, seed)] for name in term.sets])) for term in terms
        )

    def _rows(self, term: Term, seed: int) -> np.ndarray:
        labels = self.labels[seed]
        return np.arange(len(labels)) if term.label is None else np.flatnonzero(labels == term.label)

    def _over_examples(self, terms: tuple[Term, ...], a: Right, b: Right) -> tuple[float, float, float]:
        """The difference, V_examples, and its degrees of freedom."""
        phi = np.zeros(1 + max(int(numbers.max()) for numbers in self.numbers))
        mean, extras, variances = 0.0, 0.0, []
        for term in terms:
            numbers, d = self._by_example(term, a, b)
            n = len(d)
            part = term.weight / n * (d - d.mean()) * sqrt(n / max(n - 1, 1))
            phi[numbers] += part
            mean += term.weight * float(d.mean())
            extras += (term.weight / n) ** 2
            variances.append((float(part @ part) + (term.weight / n) ** 2, max(n - 1, 1)))
        freedom = sum(v for v, _ in variances) ** 2 / sum(v**2 / f for v, f in variances)
        return mean, float(phi @ phi) + extras, freedom

    def _by_example(self, term: Term, a: Right, b: Right) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of a term's examples, and the difference of each: the mean over sets and seeds that use it."""
        seeds = sorted(a.keys() & b.keys())
        numbers = np.concatenate([self.numbers[seed][self._rows(term, seed)] for seed in seeds])
        differences = [
            np.mean([a[seed][name][rows].astype(float) - b[seed][name][rows] for name in term.sets], axis=0)
            for seed in seeds
            for rows in [self._rows(term, seed)]
        ]
        found, place = np.unique(numbers, return_inverse=True)
        return found, np.bincount(place, np.concatenate(differences)) / np.bincount(place)


def pooled_variance(differences: Sequence[Sequence[float]]) -> tuple[float, int]:
    """The variance between seeds over several candidates, and its degrees of freedom."""
    several = [each for each in differences if len(each) > 1]
    degrees = sum(len(each) - 1 for each in several)
    squares = sum(float(np.var(each, ddof=1)) * (len(each) - 1) for each in several)
    return (squares / degrees if degrees else 0.0), degrees
