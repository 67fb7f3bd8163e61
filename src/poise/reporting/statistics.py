"""Paired tests over seeds.

    paired t     d_i = a_i - b_i over the seeds i that both have,  t = mean(d) / (std(d) / sqrt(n)),  n - 1 degrees
    interval     mean(d) ± t_{0.975, n-1} · std(d) / sqrt(n)
    Holm         the k-th smallest of m p values, times m - k + 1, never below the one before, at most 1

Tests are paired because runs of one seed share initial weights, data order and often their first epochs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtr, stdtrit  # type: ignore[import-untyped]

LEVEL = 0.05
_ROUNDING = 1e-12  # smaller spreads, relative to the values, are rounding errors


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation (n - 1) over seeds; one seed has no deviation."""

    mean: float
    std: float | None
    seeds: int


@dataclass(frozen=True)
class Difference:
    """A mean difference over common seeds.

    low, high  its 95 % interval; None with one seed, or if the difference is the same for all seeds.
    p          of the two-sided paired t test; None if it is not defined.
    holm       Holm-corrected p over the columns of the row, from `corrected`.
    """

    mean: float
    seeds: int
    low: float | None = None
    high: float | None = None
    p: float | None = None
    holm: float | None = None

    @property
    def significant(self) -> bool:
        return self.holm is not None and self.holm < LEVEL


def summary(values: Sequence[float]) -> Summary:
    """Summarize one number per seed."""
    array = np.asarray(values, dtype=float)
    return Summary(float(array.mean()), float(array.std(ddof=1)) if len(array) > 1 else None, len(array))


def paired(one: Mapping[int, float], other: Mapping[int, float]) -> Difference | None:
    """One minus the other over common seeds; None without any."""
    seeds = sorted(one.keys() & other.keys())
    if not seeds:
        return None
    left, right = (np.array([values[seed] for seed in seeds]) for values in (one, other))
    mean, n = float((left - right).mean()), len(seeds)
    if n == 1:
        return Difference(mean, n)
    error = float((left - right).std(ddof=1)) / math.sqrt(n)
    if error <= _ROUNDING * max(1e-300, float(np.abs([left, right]).max())):
        return Difference(mean, n, p=1.0) if np.array_equal(left, right) else Difference(mean, n)
    reach = float(stdtrit(n - 1, 1 - LEVEL / 2)) * error
    return Difference(mean, n, mean - reach, mean + reach, p=2 * float(stdtr(n - 1, -abs(mean) / error)))


def corrected(row: Sequence[Difference | None]) -> list[Difference | None]:
    """The differences of a table's row with Holm's correction over its columns."""
    values = holm([cell.p if cell else None for cell in row])
    return [replace(cell, holm=value) if cell else None for cell, value in zip(row, values, strict=True)]


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Holm-corrected p values in the given order; None stays None and is not counted."""
    order = sorted((value, place) for place, value in enumerate(values) if value is not None)
    found: list[float | None] = [None] * len(values)
    highest = 0.0
    for rank, (value, place) in enumerate(order):
        highest = max(highest, min(1.0, value * (len(order) - rank)))
        found[place] = highest
    return found
