"""Numbers with 95 % intervals over examples.

    mean         percentile bootstrap over examples, the same resamples for every number of an audit
    share        Wilson's interval for right or wrong, which does not collapse where all are right
    calibration  ECE = sum over bins of | mean over all examples of (right - confidence) in the bin |, whose resamples
                 lie too high, as it does itself: from value - (q - value) to value + (q - mean of the resamples), with
                 q their 97.5 % quantile, within [0, 1]
    attenuation  rho = rho_half / sqrt(r),  rho_half that of utility with half of the probes, r that of the two halves

Noise in an estimate of s pulls a rank correlation with it towards 0 by the root of the estimate's reliability
(Spearman), and the correlation r of two independent halves is the reliability of one half. Both are computed anew in
every resample, so that the interval holds the uncertainty of the correction, too.

Axes: N examples, R resamples, K numbers of an example.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

RESAMPLES = 1000
BINS = 15
_Z = 1.959964
_BLOCK = 1 << 22  # weights at once
_LEAST_RELIABILITY = 0.05


@dataclass(frozen=True)
class Number:
    """A value, its 95 % interval and the number of examples it rests on."""

    value: float
    low: float
    high: float
    examples: int

    def as_dict(self) -> dict[str, float | int | None]:
        """For JSON; what is not known is null."""
        shown = {"value": self.value, "low": self.low, "high": self.high}
        return {**{name: _finite(value) for name, value in shown.items()}, "examples": self.examples}


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def resampled(values: np.ndarray, seed: int = 0, resamples: int = RESAMPLES) -> np.ndarray:
    """Means of resamples [R, K] of values [N, K]; nan where an example has no value."""
    known = ~np.isnan(values)
    filled = np.where(known, values, 0.0)
    parts = []
    for weights in _weights(len(values), seed, resamples):
        with np.errstate(invalid="ignore", divide="ignore"):
            parts.append((weights @ filled) / (weights @ known))
    return np.concatenate(parts)


def _weights(count: int, seed: int, resamples: int) -> Iterator[np.ndarray]:
    """How often each example is drawn [R, N], a block of resamples at a time."""
    block = max(1, _BLOCK // max(count, 1))
    for number, start in enumerate(range(0, resamples, block)):
        yield _block(count, seed, number, min(block, resamples - start))


@lru_cache(maxsize=2)
def _block(count: int, seed: int, number: int, size: int) -> np.ndarray:
    """The same resamples serve all numbers of an audit."""
    generator = np.random.default_rng([seed, number])
    return generator.multinomial(count, np.full(count, 1 / count), size).astype(float)


def interval(value: float, draws: np.ndarray, examples: int) -> Number:
    """The middle 95 % of what the resamples gave."""
    draws = draws[np.isfinite(draws)]
    if not len(draws) or not math.isfinite(value):
        return Number(math.nan, math.nan, math.nan, examples)
    low, high = np.quantile(draws, [0.025, 0.975])
    return Number(float(value), float(low), float(high), examples)


def raised_interval(value: float, draws: np.ndarray, examples: int) -> Number:
    """Of a share that noise can only raise, such as a sum of absolute means.

    Resamples lie as much above the value as that lies above the truth, so below, their reach is taken from the value
    (the basic bootstrap); above, from their own mean, so that the value is always inside.
    """
    draws = draws[np.isfinite(draws)]
    if not len(draws) or not math.isfinite(value):
        return Number(math.nan, math.nan, math.nan, examples)
    top = float(np.quantile(draws, 0.975))
    high = value + max(0.0, top - float(draws.mean()))
    return Number(value, max(0.0, min(value, 2 * value - top)), min(1.0, high), examples)


def mean(values: np.ndarray, seed: int = 0) -> Number:
    """Of one number per example [N]; nan counts as missing."""
    known = values[~np.isnan(values)]
    if len(known) < 2:
        only = float(known[0]) if len(known) else math.nan
        return Number(only, math.nan, math.nan, len(known))
    return interval(float(known.mean()), resampled(known[:, None], seed)[:, 0], len(known))


def share(right: np.ndarray) -> Number:
    """Of examples that are right [N], by Wilson."""
    n = len(right)
    if n == 0:
        return Number(math.nan, math.nan, math.nan, 0)
    p = float(np.mean(right))
    middle, reach = p + _Z**2 / (2 * n), _Z * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n * n))
    scale = 1 + _Z**2 / n
    return Number(p, max(0.0, (middle - reach) / scale), min(1.0, (middle + reach) / scale), n)


def calibration(right: np.ndarray, confidence: np.ndarray, seed: int = 0) -> Number:
    """The expected calibration error over equal bins of confidence [N]."""
    if len(right) < 2:
        return Number(math.nan, math.nan, math.nan, len(right))
    places = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = (right - confidence)[:, None] * (places[:, None] == np.arange(BINS))
    return raised_interval(float(np.abs(gaps.mean(0)).sum()), np.abs(resampled(gaps, seed)).sum(1), len(right))


def corrected(with_half: np.ndarray, halves: np.ndarray, seed: int = 0) -> tuple[Number, Number]:
    """The rank correlation without the noise of the probes, and the reliability of all probes, 2 r / (1 + r).

    with_half  of utility with sensitivity from half of the probes, per example [N]
    halves     of the two halves, per example [N]; 1 where sensitivity is exact
    """
    known = ~(np.isnan(with_half) | np.isnan(halves))
    pair = np.stack([with_half[known], halves[known]], 1)
    if len(pair) < 2:
        nothing = Number(math.nan, math.nan, math.nan, len(pair))
        return nothing, nothing
    draws, (rho, half) = resampled(pair, seed), pair.mean(0)
    found = interval(float(_freed(rho, half)), _freed(draws[:, 0], draws[:, 1]), len(pair))
    return found, interval(float(2 * half / (1 + half)), 2 * draws[:, 1] / (1 + draws[:, 1]), len(pair))


def _freed(observed: np.ndarray, reliability: np.ndarray) -> np.ndarray:
    """nan where the probes are mostly noise."""
    usable = np.where(reliability > _LEAST_RELIABILITY, reliability, np.nan)
    return np.clip(observed / np.sqrt(usable), -1, 1)
