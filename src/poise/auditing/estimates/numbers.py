"""Numbers of an audit with 95 % intervals, from the measurements of its examples; also per slice.

Slices are classes, the rare classes, and each value of a column.

    drop         of paired right answers, n of which are lost and m won: with p = (n + 1) / (N + 2) and
                 q = (m + 1) / (N + 2), p - q +- 1.96 sqrt((p + q - (p - q)^2) / (N + 2)) (Bonett and Price 2012)
    mean         Student's t with Johnson's correction for the third moment k: m + k / (6 n s^2) +- t s / sqrt(n)
    ratio        of two means: percentile bootstrap over examples; also for shifts and drops of the margin, whose unit
                 comes from the same examples
    share        Wilson's interval for right or wrong, which does not collapse if all are right
    mean share   of K answers per example: Wilson's with p (1 - p) N / s^2 examples, between N and K N, where s^2 is the
                 variance of the examples' shares, and with Student's t in place of 1.96
    calibration  ECE = sum over bins of | mean over all examples of (right - confidence) in the bin |. Its value and its
                 resamples are biased upwards, so the interval is from value - (q - value) to value + (q - mean of the
                 resamples), with q their 97.5 % quantile, within [0, 1]
    attenuation  rho = rho_half / sqrt(r),  rho_half that of utility with half of the probes, r that of the two halves

Noise in an estimate of s reduces its rank correlation by the square root of its reliability (Spearman); r is that of
one half. Every resample computes both, so that the interval includes the uncertainty of the correction.

Axes: N examples, K numbers of an example or strengths, C corruptions x severities, R resamples.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from math import comb
from typing import Any, cast

import numpy as np

from poise.corruptions.corrupt import Making
from poise.corruptions.protocols import GROUPS

RESAMPLES = 1000
BINS = 15
LEAST_OF_SLICE = 10  # examples; with fewer, a slice has no intervals
_Z = 1.959964
_BLOCK = 1 << 22  # weights per block
_LEAST_RELIABILITY = 0.05
_VALUES = 50  # most values shown per column
SIDES = ("near", "random", "far")
_DROPS = ("accuracy", "accuracy_drop", "margin_drop", "changed")
_PLAIN = (
    *("accuracy", "calibration_error"),
    *(f"{side}_{what}" for side in SIDES for what in _DROPS),
    *("near_output_gain", "far_output_gain"),
    *("rank_correlation", "observed_rank_correlation", "reliability", "top_overlap"),
    *("near_gain", "far_gain", "near_shift", "far_shift"),
)
Cells = dict[str, dict[str, dict[str, Any]]]


@dataclass(frozen=True)
class Number:
    """A value, its 95 % interval and its number of examples."""

    value: float
    low: float
    high: float
    examples: int

    def as_dict(self) -> dict[str, float | int | None]:
        """The number for JSON; unknown values are null."""
        shown = {"value": self.value, "low": self.low, "high": self.high}
        return {**{name: _finite(value) for name, value in shown.items()}, "examples": self.examples}


@dataclass(frozen=True, eq=False)
class Measurements:
    """The measurements that all numbers, slices and comparisons use, one row per example."""

    label: np.ndarray  # [N]
    predicted: np.ndarray  # [N]
    right: np.ndarray  # [N] of 0 and 1
    margin: np.ndarray  # [N] of the true class, in typical distances of the two largest logits
    gap: np.ndarray  # [N] that distance, relative to its mean
    spread: np.ndarray  # [N] squared distance of the embedding from the mean embedding, relative to its mean
    confidence: np.ndarray  # [N]
    rank_correlation: np.ndarray  # [N] as observed
    half_correlation: np.ndarray  # [N] with half of the probes
    halves: np.ndarray  # [N] of the two halves
    top_overlap: np.ndarray  # [N]
    near_shift: np.ndarray  # [N, K] in typical distances of two embeddings
    far_shift: np.ndarray  # [N, K]
    random_shift: np.ndarray  # [N, K]
    near_answer: np.ndarray  # [N, K] the predicted class
    far_answer: np.ndarray  # [N, K]
    random_answer: np.ndarray  # [N, K]
    near_margin: np.ndarray  # [N, K]
    far_margin: np.ndarray  # [N, K]
    random_margin: np.ndarray  # [N, K]
    corrupted_right: np.ndarray  # [N, C]; C = 0 without corruptions
    corrupted_confidence: np.ndarray  # [N, C]

    def gain(self, side: str, place: int) -> np.ndarray:
        """The shift [N] relative to the mean shift of as many random features."""
        known = self.random_shift[:, place][~np.isnan(self.random_shift[:, place])]
        measure = known.mean() if len(known) and known.any() else np.nan
        return cast(np.ndarray, getattr(self, f"{side}_shift")[:, place] / measure)

    def first(self, count: int) -> Measurements:
        """The first examples."""
        return Measurements(**{field.name: getattr(self, field.name)[:count] for field in fields(self)})

    def right_under(self, side: str, place: int) -> np.ndarray:
        """Whether each answer [N] is right under a perturbation."""
        return cast(np.ndarray, (getattr(self, f"{side}_answer")[:, place] == self.label).astype(float))

    def margin_drop(self, side: str, place: int) -> np.ndarray:
        """How far the margin [N] falls under a perturbation."""
        return cast(np.ndarray, self.margin - getattr(self, f"{side}_margin")[:, place])


def measurements_of(rows: dict[str, np.ndarray], embeddings: np.ndarray) -> Measurements:
    """The table of measurements, with shifts in units of the typical distance of two of the embeddings [N, E]."""
    logits = rows["logits"].astype(float)
    powers = np.exp(logits - logits.max(1, keepdims=True))
    predicted = logits.argmax(1)
    away = ((embeddings - embeddings.mean(0, dtype=float)) ** 2).sum(1, dtype=float)
    unit = math.sqrt(2 * away.sum() / (len(away) - 1)) or np.nan if len(away) > 1 else np.nan
    gaps = top_gap(logits)
    gap = float(gaps.mean()) or np.nan
    nothing = np.empty((len(predicted), 0))
    sides: dict[str, Any] = {}
    for side in SIDES:
        sides[f"{side}_shift"] = rows[f"{side}_shift"] / unit
        sides[f"{side}_answer"] = rows[f"{side}_answer"]
        sides[f"{side}_margin"] = rows[f"{side}_margin"] / gap
    return Measurements(
        label=rows["label"],
        predicted=predicted,
        right=(predicted == rows["label"]).astype(float),
        margin=margins(logits, rows["label"]) / gap,
        gap=gaps / gap,
        spread=away / (away.mean() or np.nan),
        confidence=powers.max(1) / powers.sum(1),
        rank_correlation=rows["rank_correlation"],
        half_correlation=rows["half_correlation"],
        halves=rows["halves"],
        top_overlap=rows["top_overlap"],
        corrupted_right=rows.get("corrupted_right", nothing).astype(float),
        corrupted_confidence=rows.get("corrupted_confidence", nothing),
        **sides,
    )


def numbers(table: Measurements, making: Making | None, middle: int) -> dict[str, Number]:
    """All numbers by name; those of perturbation are for the middle strength."""
    rho, reliability = corrected(table.half_correlation, table.halves)
    found = {
        "accuracy": proportion(table.right),
        "calibration_error": calibration(table.right, table.confidence),
        **answers(table, middle),
        **{f"{side}_output_gain": output_gain(table, side, middle) for side in ("near", "far")},
        "rank_correlation": rho,
        "observed_rank_correlation": mean(table.rank_correlation),
        "reliability": reliability,
        "top_overlap": mean(table.top_overlap),
        "near_gain": gain(table, "near", middle),
        "far_gain": gain(table, "far", middle),
        **{f"{side}_shift": shift(table, side, middle) for side in ("near", "far")},
    }
    return found if making is None else found | _corrupted(table, making)


def answers(table: Measurements, place: int) -> dict[str, Number]:
    """What becomes of the answers under noise on the least useful, on random and on the most useful features."""
    found = {}
    for side in SIDES:
        right = table.right_under(side, place)
        found[f"{side}_accuracy"] = proportion(right)
        found[f"{side}_accuracy_drop"] = paired_drop(table.right, right)
        found[f"{side}_margin_drop"] = ratio(table.margin_drop(side, place), table.gap)
        found[f"{side}_changed"] = proportion(
            (getattr(table, f"{side}_answer")[:, place] != table.predicted).astype(float)
        )
    return found


def shift(table: Measurements, side: str, place: int) -> Number:
    """The mean shift in typical distances of two embeddings, with the uncertainty of both."""
    return ratio(getattr(table, f"{side}_shift")[:, place], table.spread, root=True)


def output_gain(table: Measurements, side: str, place: int) -> Number:
    """How far the margin moves on one side, relative to as many random features."""
    return ratio(np.abs(table.margin_drop(side, place)), np.abs(table.margin_drop("random", place)))


def number_names(corruptions: Sequence[str]) -> list[str]:
    """The names of the numbers that `numbers` will return, known before the audit starts."""
    if not corruptions:
        return list(_PLAIN)
    return [*_PLAIN, *_means(Making(tuple(corruptions), (1,), "cifar", 0)), "corrupted_calibration_error"]


def not_measured(name: str, there: Iterable[str]) -> str:
    """The message for a number that an audit does not have."""
    return f"{name!r} was not measured: choose one of {', '.join(there)}"


def paired_values(table: Measurements, making: Making | None, middle: int) -> dict[str, np.ndarray]:
    """The values per example of each number that is a mean or a ratio of means, to compare pairs of models."""
    shifts = {side: getattr(table, f"{side}_shift")[:, middle] for side in SIDES}
    found = {
        "accuracy": table.right,
        "observed_rank_correlation": table.rank_correlation,
        "top_overlap": table.top_overlap,
        **{f"{side}_gain": linear(shifts[side], shifts["random"]) for side in ("near", "far")},
        **{f"{side}_shift": linear(shifts[side], table.spread, root=True) for side in ("near", "far")},
        **{f"{side}_accuracy": table.right_under(side, middle) for side in SIDES},
        **{f"{side}_margin_drop": linear(table.margin_drop(side, middle), table.gap) for side in SIDES},
    }
    if making is None:
        return found
    means = _means(making, each=False)
    return found | {name: table.corrupted_right[:, places].mean(1) for name, places in means.items()}


def gain(table: Measurements, side: str, place: int) -> Number:
    """The mean shift of a side divided by that of random features, with the uncertainty of both."""
    return ratio(getattr(table, f"{side}_shift")[:, place], table.random_shift[:, place])


def ratio(above: np.ndarray, below: np.ndarray, root: bool = False) -> Number:
    """The mean of one number per example [N] divided by that of another, or its root, with the uncertainty of both."""
    pair = np.stack([above, below], 1)
    pair = pair[~np.isnan(pair).any(1)]
    if len(pair) < 2 or not pair[:, 1].any():
        return Number(math.nan, math.nan, math.nan, len(pair))
    power, draws = 0.5 if root else 1.0, resampled(pair)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(pair[:, 0].mean() / pair[:, 1].mean() ** power)
        return interval(value, draws[:, 0] / draws[:, 1] ** power, len(pair))


def linear(above: np.ndarray, below: np.ndarray, root: bool = False) -> np.ndarray:
    """One value per example, with the mean and variance of the ratio (delta method), to compare two models in pairs."""
    power, known = 0.5 if root else 1.0, ~np.isnan(above + below)
    if not below[known].any():
        return np.full(len(above), np.nan)
    unit = below[known].mean()
    return cast(np.ndarray, (above - power * above[known].mean() * (below / unit - 1)) / unit**power)


def perturbation(table: Measurements, strengths: tuple[float, ...]) -> list[dict[str, Any]]:
    """What becomes of answers and embeddings on each side at each strength."""
    rows = []
    for number, strength in enumerate(strengths):
        row: dict[str, Any] = {"strength": strength, "random_shift": shift(table, "random", number).as_dict()}
        for side in ("near", "far"):
            row[f"{side}_shift"] = shift(table, side, number).as_dict()
            row[f"{side}_gain"] = gain(table, side, number).as_dict()
            row[f"{side}_output_gain"] = output_gain(table, side, number).as_dict()
        rows.append(row | {name: held.as_dict() for name, held in answers(table, number).items()})
    return rows


def corruption_cells(table: Measurements, making: Making | None) -> Cells:
    """{corruption: {severity: accuracy and calibration error}}."""
    cells: Cells = {}
    for place, (name, severity) in enumerate(_settings(making) if making else []):
        right, confidence = table.corrupted_right[:, place], table.corrupted_confidence[:, place]
        cells.setdefault(name, {})[str(severity)] = {
            "accuracy": proportion(right).as_dict(),
            "calibration_error": calibration(right, confidence).as_dict(),
        }
    return cells


def top_gap(logits: np.ndarray) -> np.ndarray:
    """The largest logit minus the second largest [N]."""
    both = np.partition(logits, -2, axis=1)[:, -2:]
    return both[:, 1] - both[:, 0]


def margins(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """f_y - max over the other classes of f_c [N]."""
    own = np.arange(logits.shape[1]) == labels[:, None]
    return cast(np.ndarray, logits[own] - np.where(own, -np.inf, logits).max(1))


def _corrupted(table: Measurements, making: Making) -> dict[str, Number]:
    found = {name: mean_share(table.corrupted_right[:, places]) for name, places in _means(making).items()}
    gaps = [
        (right - confidence)[:, None] * (np.minimum((confidence * 15).astype(int), 14)[:, None] == np.arange(15))
        for right, confidence in zip(table.corrupted_right.T, table.corrupted_confidence.T, strict=True)
    ]
    draws = np.mean([np.abs(resampled(gap)).sum(1) for gap in gaps], 0)
    value = float(np.mean([np.abs(gap.mean(0)).sum() for gap in gaps]))
    return {**found, "corrupted_calibration_error": raised_interval(value, draws, len(table.right))}


def _settings(making: Making) -> list[tuple[str, int]]:
    return [(name, severity) for name in making.corruptions for severity in making.severities]


def _means(making: Making, each: bool = True) -> dict[str, list[int]]:
    """The columns behind each mean accuracy: all, the four groups, and with `each` every corruption."""
    settings = _settings(making)
    members = {"corrupted": making.corruptions}
    members |= {group: tuple(n for n in names if n in making.corruptions) for group, names in GROUPS.items()}
    members |= {name: (name,) for name in making.corruptions} if each else {}
    return {
        f"{name}_accuracy": [place for place, (corruption, _) in enumerate(settings) if corruption in held]
        for name, held in members.items()
        if held
    }


def slices(
    table: Measurements,
    columns: Mapping[str, Sequence[str]],
    class_names: Sequence[str],
    rare: Sequence[int],
    middle: int,
) -> list[dict[str, Any]]:
    """The numbers of each slice, classes first."""
    labels = table.label
    called = [*class_names, *map(str, range(len(class_names), int(labels.max(initial=0)) + 1))]
    found = [_entry("class", called[label], labels == label, table, middle) for label in np.unique(labels)]
    if rare and (inside := np.isin(labels, rare)).any():
        found.append(_entry("classes", "rare", inside, table, middle))
        found.append(_entry("classes", "other", ~inside, table, middle))
    for column, values in columns.items():
        words = np.array(values)
        common = [value for value, _ in Counter(words.tolist()).most_common(_VALUES)]
        found += [_entry(column, value, words == value, table, middle) for value in common]
    return found


def _entry(column: str, value: str, inside: np.ndarray, table: Measurements, middle: int) -> dict[str, Any]:
    rho, _ = corrected(table.half_correlation[inside], table.halves[inside])
    numbers = {
        "accuracy": proportion(table.right[inside]),
        "rank_correlation": rho,
        "top_overlap": mean(table.top_overlap[inside]),
        "near_gain": mean(table.gain("near", middle)[inside]),
        "far_gain": mean(table.gain("far", middle)[inside]),
    }
    if table.corrupted_right.shape[1]:
        numbers["corrupted_accuracy"] = mean_share(table.corrupted_right[inside])
    few = int(inside.sum()) < LEAST_OF_SLICE
    unknown = {"low": None, "high": None} if few else {}
    return {
        "column": column,
        "value": value,
        "examples": int(inside.sum()),
        "too_few": few,
        "numbers": {name: {**number.as_dict(), **unknown} for name, number in numbers.items()},
    }


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def resampled(values: np.ndarray, seed: int = 0, resamples: int = RESAMPLES) -> np.ndarray:
    """Means of resamples [R, K] of values [N, K]; nan marks missing values."""
    known = ~np.isnan(values)
    filled = np.where(known, values, 0.0)
    parts = []
    for weights in _weights(len(values), seed, resamples):
        with np.errstate(invalid="ignore", divide="ignore"):
            parts.append((weights @ filled) / (weights @ known))
    return np.concatenate(parts)


def _weights(count: int, seed: int, resamples: int) -> Iterator[np.ndarray]:
    """How often each resample draws each example [R, N], in blocks of resamples."""
    block = max(1, _BLOCK // max(count, 1))
    for number, start in enumerate(range(0, resamples, block)):
        yield _block(count, seed, number, min(block, resamples - start))


@lru_cache(maxsize=2)
def _block(count: int, seed: int, number: int, size: int) -> np.ndarray:
    """One block of weights. It is cached, because all numbers of an audit use the same resamples."""
    generator = np.random.default_rng([seed, number])
    return generator.multinomial(count, np.full(count, 1 / count), size).astype(float)


def interval(value: float, draws: np.ndarray, examples: int) -> Number:
    """The value with the middle 95 % of the resamples."""
    draws = draws[np.isfinite(draws)]
    if not len(draws) or not math.isfinite(value):
        return Number(math.nan, math.nan, math.nan, examples)
    low, high = np.quantile(draws, [0.025, 0.975])
    return Number(float(value), float(low), float(high), examples)


def raised_interval(value: float, draws: np.ndarray, examples: int) -> Number:
    """The interval of a share that noise can only raise, such as a sum of absolute means.

    The resamples are as far above the value as the value is above the truth. So the lower end uses their distance from
    the value (the basic bootstrap), and the upper end that from their own mean, so that the interval contains the
    value.
    """
    draws = draws[np.isfinite(draws)]
    if not len(draws) or not math.isfinite(value):
        return Number(math.nan, math.nan, math.nan, examples)
    top = float(np.quantile(draws, 0.975))
    high = value + max(0.0, top - float(draws.mean()))
    return Number(value, max(0.0, min(value, 2 * value - top)), min(1.0, high), examples)


def mean(values: np.ndarray) -> Number:
    """The mean of one number per example [N]; nan marks missing values."""
    known = values[~np.isnan(values)]
    n = len(known)
    if n < 2:
        only = float(known[0]) if n else math.nan
        return Number(only, math.nan, math.nan, n)
    value, spread = float(known.mean()), float(known.std(ddof=1))
    skew = float(((known - value) ** 3).mean()) / (6 * n * spread**2) if spread else 0.0
    reach = student(n - 1) * spread / math.sqrt(n)
    return Number(value, min(value, value + skew - reach), max(value, value + skew + reach), n)


def student(freedom: int) -> float:
    """The 97.5 % quantile of Student's t, by its expansion around the normal one (within .01 from 5 degrees on)."""
    z, f = _Z, float(freedom)
    terms = ((z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return z + sum(term / f**power for power, term in enumerate(terms, 1))


def mean_share(right: np.ndarray) -> Number:
    """The mean share of K answers [N, K] that are right, where those to one example go together."""
    n, k = right.shape
    shares = right.mean(1)
    p = float(shares.mean()) if n else math.nan
    if n < 2:
        return Number(p, math.nan, math.nan, n)
    varies = float(shares.var(ddof=1))
    return _wilson(p, min(k * n, max(n, n * p * (1 - p) / varies)) if varies else n, student(n - 1), n)


def proportion(right: np.ndarray) -> Number:
    """The share of correct examples [N], with Wilson's interval."""
    n = len(right)
    return _wilson(float(np.mean(right)), n, _Z, n) if n else Number(math.nan, math.nan, math.nan, 0)


def _wilson(p: float, n: float, z: float, examples: int) -> Number:
    middle, reach = p + z**2 / (2 * n), z * math.sqrt(p * (1 - p) / n + z**2 / (4 * n * n))
    scale = 1 + z**2 / n
    return Number(p, max(0.0, (middle - reach) / scale), min(1.0, (middle + reach) / scale), examples)


def paired_drop(before: np.ndarray, after: np.ndarray) -> Number:
    """The share of 1 before minus that after, of the same examples [N] of 0 and 1 (Bonett and Price)."""
    n = len(before)
    if n == 0:
        return Number(math.nan, math.nan, math.nan, 0)
    lost, won = (float((before > after).sum()), float((before < after).sum()))
    down, up = (lost + 1) / (n + 2), (won + 1) / (n + 2)
    reach = _Z * math.sqrt((down + up - (down - up) ** 2) / (n + 2))
    value = (lost - won) / n
    return Number(value, max(-1.0, min(value, down - up - reach)), min(1.0, max(value, down - up + reach)), n)


def sign_test(hits: int, of: int) -> float:
    """The probability of at least so many hits if each has a chance of one half."""
    return float(sum(comb(of, k) for k in range(hits, of + 1)) / 2**of)


def calibration(right: np.ndarray, confidence: np.ndarray, seed: int = 0) -> Number:
    """The expected calibration error over equal bins of confidence [N]."""
    if len(right) < 2:
        return Number(math.nan, math.nan, math.nan, len(right))
    places = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = (right - confidence)[:, None] * (places[:, None] == np.arange(BINS))
    return raised_interval(float(np.abs(gaps.mean(0)).sum()), np.abs(resampled(gaps, seed)).sum(1), len(right))


def corrected(with_half: np.ndarray, halves: np.ndarray, seed: int = 0) -> tuple[Number, Number]:
    """The rank correlation corrected for the noise of the probes, and the reliability of all probes, 2 r / (1 + r).

    with_half  correlation of utility with sensitivity from half of the probes, per example [N]
    halves     correlation of the two halves, per example [N]; 1 if sensitivity is exact
    """
    known = ~(np.isnan(with_half) | np.isnan(halves))
    pair = np.stack([with_half[known], halves[known]], 1)
    if len(pair) < 2:
        nothing = Number(math.nan, math.nan, math.nan, len(pair))
        return nothing, nothing
    draws, (rho, half) = resampled(pair, seed), pair.mean(0)
    found = interval(float(_disattenuated(rho, half)), _disattenuated(draws[:, 0], draws[:, 1]), len(pair))
    return found, interval(float(2 * half / (1 + half)), 2 * draws[:, 1] / (1 + draws[:, 1]), len(pair))


def _disattenuated(observed: np.ndarray, reliability: np.ndarray) -> np.ndarray:
    """The corrected correlation; nan if the probes are mostly noise."""
    usable = np.where(reliability > _LEAST_RELIABILITY, reliability, np.nan)
    return np.clip(observed / np.sqrt(usable), -1, 1)
