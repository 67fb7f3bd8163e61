"""Paired tests over seeds, and numbers as text: four digits, no zero before the point.

    paired t     d_i = a_i - b_i over the seeds i that both have,  t = mean(d) / (std(d) / sqrt(n)),  n - 1 degrees
    interval     mean(d) ± t_{0.975, n-1} · std(d) / sqrt(n)
    Welch t      for other groups of seeds:  t = (m1 - m2) / sqrt(v),  v = v1 + v2,  v_i = s_i^2 / n_i,
                 v^2 / (v1^2 / (n1 - 1) + v2^2 / (n2 - 1)) degrees
    Holm         the k-th smallest of m p values, times m - k + 1, never below the one before, at most 1

Tests are paired where they can be, because runs of one seed share initial weights, data order and often their first
epochs. Welch's is for what has no common seeds: published means, and differences on two data sets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtr, stdtrit  # type: ignore[import-untyped]

from poise.records.schema import Published

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
    holm       Holm-corrected p over the columns of the row, from `holm_corrected`.
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


def summarize(values: Sequence[float]) -> Summary:
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


def welch(one: Summary, other: Summary) -> Difference:
    """One minus the other, each with its own deviation over its own seeds; `seeds` is the smaller number."""
    mean, seeds = one.mean - other.mean, min(one.seeds, other.seeds)
    if one.std is None or other.std is None or not one.std + other.std:
        return Difference(mean, seeds)
    v1, v2 = one.std**2 / one.seeds, other.std**2 / other.seeds
    freedom = (v1 + v2) ** 2 / (v1**2 / (one.seeds - 1) + v2**2 / (other.seeds - 1))
    error = math.sqrt(v1 + v2)
    reach = float(stdtrit(freedom, 1 - LEVEL / 2)) * error
    return Difference(mean, seeds, mean - reach, mean + reach, p=2 * float(stdtr(freedom, -abs(mean) / error)))


def holm_corrected(row: Sequence[Difference | None]) -> list[Difference | None]:
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


DASH = "–"  # noqa: RUF001, the en dash of a missing cell


def number(value: float, digits: int = 4, sign: bool = False) -> str:
    """`.9250`, `-.0030`, `1.0200`; with `sign` also `+.0030`."""
    text = f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("+-")
    return text.replace("0.", ".", 1) if text.lstrip("+-").startswith("0.") else text


def spread(cell: Summary | Published | None) -> str:
    """`.9250 ±.0088`, or `.9250` without a deviation."""
    if cell is None:
        return DASH
    return number(cell.mean) if cell.std is None else f"{number(cell.mean)} ±{number(cell.std)}"


def arrow(difference: Difference | None) -> str:
    """The direction of a significant difference."""
    if difference is None or not difference.significant:
        return ""
    return "↑" if difference.mean > 0 else "↓"


def interval_text(difference: Difference | None) -> str:
    """`+.2261 [+.1523, +.2999] p=.0004`, or less if there are too few seeds."""
    if difference is None:
        return DASH
    mean = number(difference.mean, sign=True)
    if difference.seeds == 1:
        return f"{mean} (one seed)"
    if difference.low is None or difference.high is None:
        return f"{mean} (the same for all {difference.seeds} seeds)"
    low, high = (number(end, sign=True) for end in (difference.low, difference.high))
    return f"{mean} [{low}, {high}] {probability(difference.holm)}"


def probability(value: float | None) -> str:
    """`p=.0321`, `p<.0001`."""
    if value is None:
        return ""
    return "p<.0001" if value < 0.0001 else f"p={number(value)}"


def signed_interval(difference: Difference, digits: int = 3) -> str:
    """`+.226 [+.152, +.300]`: for sentences and figures that show p elsewhere or not at all."""
    mean = number(difference.mean, digits, sign=True)
    if difference.low is None or difference.high is None:
        return mean
    low, high = (number(end, digits, sign=True) for end in (difference.low, difference.high))
    return f"{mean} [{low}, {high}]"
