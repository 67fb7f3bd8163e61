"""Intervals over examples, clustered where one example is tested many times.

    of_share        Wilson's interval with n* = p (1 - p) / (s^2 / n) examples, for means of values in [0, 1]
    of_mean         mean ± t_{0.975, n-1} · s / sqrt(n)
    of_lowest       the least of K means: at a level of 1 - .05 / K all K intervals hold at once, so that the least true
                    mean lies between the least lower and the least upper end
    of_calibration  value - q_{97.5 %}(sum_b |e_b|), value + t_{0.975} sqrt(sum_b var(e_b)), where e_b is the error
                    of the gap between accuracy and confidence in bin b: q from resamples, var from the examples

A calibration error is a sum of absolute gaps, which chance makes larger. A bootstrap around it misses the true error of
a calibrated model nearly always; both ends above follow from | |g + e| - |g| | <= |e| and hold for any gaps g. They are
cautious: the interval is wide, and reaches down to 0 if all gaps may be chance.

The values of an example under all corruptions are averaged first. They are not independent, so an interval that
counts images x corruptions as examples would be far too narrow.

    paired     the same for differences of two models on the same examples; p of the t test
    mcnemar    the exact binomial test on the examples that only one of two models has right

A sample of a set is treated as a sample of all such images. So an interval is not narrower for a part of a finite set.

Axes: N examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr, stdtr, stdtrit  # type: ignore[import-untyped]

LEVEL = 0.95
RESAMPLES = 200


@dataclass(frozen=True)
class Interval:
    """A value with its interval; without one if there are too few examples."""

    value: float
    low: float | None = None
    high: float | None = None

    def as_dict(self) -> dict[str, float | None]:
        return {"value": self.value, "low": self.low, "high": self.high}


def of_share(values: np.ndarray, level: float = LEVEL) -> Interval:
    """The mean of values in [0, 1], one per example [N]."""
    n, p = len(values), float(values.mean())
    if n < 2:
        return Interval(p)
    variance = float(values.var(ddof=1)) / n
    effective = p * (1 - p) / variance if variance > 0 else float(n)
    t = float(stdtrit(n - 1, 0.5 + level / 2))
    middle = (p + t * t / (2 * effective)) / (1 + t * t / effective)
    reach = t / (1 + t * t / effective) * (p * (1 - p) / effective + t * t / (4 * effective**2)) ** 0.5
    return Interval(p, max(0.0, middle - reach), min(1.0, middle + reach))


def of_mean(values: np.ndarray, level: float = LEVEL) -> Interval:
    """The mean of any values, one per example [N]."""
    n, mean = len(values), float(values.mean())
    if n < 2:
        return Interval(mean)
    reach = float(stdtrit(n - 1, 0.5 + level / 2)) * float(values.std(ddof=1)) / n**0.5
    return Interval(mean, mean - reach, mean + reach)


def of_lowest(values: np.ndarray, members: np.ndarray, level: float = LEVEL) -> tuple[int, Interval]:
    """The member with the lowest mean of values in [0, 1], and that mean; members [N] are whole numbers."""
    present = [int(each) for each in np.unique(members)]
    each = {member: of_share(values[members == member], 1 - (1 - level) / len(present)) for member in present}
    worst = min(each, key=lambda member: each[member].value)
    ends = [(number.low, number.high) for number in each.values()]
    low = [0.0 if end is None else end for end, _ in ends]
    high = [1.0 if end is None else end for _, end in ends]
    return worst, Interval(each[worst].value, min(low), min(high))


def resamples(n: int, seed: int = 0) -> np.ndarray:
    """How often each of n examples is drawn in each resample [R, n]; the same for every model."""
    draw = np.random.default_rng(seed)
    return draw.multinomial(n, np.full(n, 1 / n), size=RESAMPLES).astype(np.float32)


@dataclass(frozen=True)
class PairedDifference:
    """A mean difference of two models over the same examples, its interval and p."""

    value: float
    low: float | None
    high: float | None
    p: float | None


def paired_difference(one: np.ndarray, other: np.ndarray) -> PairedDifference:
    """one - other, values of the same examples [N]."""
    difference = one.astype(float) - other
    number = of_mean(difference)
    spread = float(difference.std(ddof=1)) if len(difference) > 1 else 0.0
    if spread == 0:
        return PairedDifference(number.value, number.low, number.high, 1.0 if number.value == 0 else None)
    t = number.value / (spread / len(difference) ** 0.5)
    return PairedDifference(number.value, number.low, number.high, 2 * float(stdtr(len(difference) - 1, -abs(t))))


def mcnemar(one: np.ndarray, other: np.ndarray) -> float:
    """p of McNemar's exact two-sided test, from right answers of the same examples [N]."""
    only_one, only_other = int((one & ~other).sum()), int((other & ~one).sum())
    discordant = only_one + only_other
    return min(1.0, 2 * float(bdtr(min(only_one, only_other), discordant, 0.5))) if discordant else 1.0


def calibration_bins(confidence: np.ndarray, bins: int) -> np.ndarray:
    """The bin of each confidence [N]: ((b) / bins, (b + 1) / bins], the first one with 0."""
    found: np.ndarray = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
    return found


def calibration_error(confidence: np.ndarray, right: np.ndarray, bins: int = 15) -> float:
    """The expected calibration error: sum_b |sum over b of (right - confidence)| / N (Guo et al. 2017)."""
    gaps = np.bincount(calibration_bins(confidence, bins), right - confidence, bins)
    return float(np.abs(gaps).sum() / len(right))


@dataclass(frozen=True, eq=False)
class Calibration:
    """The calibration error of one test set, how far below it the true one may lie in each resample [R], and above."""

    error: float
    below: np.ndarray
    above: float


def calibration_of(confidence: np.ndarray, right: np.ndarray, drawn: np.ndarray, bins: int = 15) -> Calibration:
    """The calibration error with its reach; drawn [R, N] as of `resamples`."""
    n = len(right)
    gaps = np.zeros((n, bins), np.float32)
    gaps[np.arange(n), calibration_bins(confidence, bins)] = right - confidence
    mean = gaps.mean(0)
    below = np.abs(drawn @ gaps / n - mean).sum(1)
    above = float(stdtrit(max(n - 1, 1), 0.5 + LEVEL / 2)) * float(gaps.var(0).sum() / n) ** 0.5
    return Calibration(float(np.abs(mean, dtype=float).sum()), below, above)


def of_calibration(each: Sequence[Calibration], weights: Sequence[float]) -> Interval:
    """The weighted mean of the calibration errors of several test sets on the same examples."""
    value = sum(w * held.error for held, w in zip(each, weights, strict=True))
    below = np.sum([w * held.below for held, w in zip(each, weights, strict=True)], axis=0)
    above = sum(w * held.above for held, w in zip(each, weights, strict=True))
    low = value - float(np.quantile(below, 0.5 + LEVEL / 2))
    return Interval(value, max(0.0, low), min(1.0, value + above))
