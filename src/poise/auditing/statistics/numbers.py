"""The numbers of slices: every class, the rare classes, and each value of a column.

Axes: N examples, K strengths.

The numbers of an audit, from what was measured example by example.

Axes: N examples, K strengths, C corruptions x severities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from poise.auditing.statistics.intervals import (
    Number,
    calibration,
    corrected,
    interval,
    mean,
    raised_interval,
    resampled,
    share,
)
from poise.corruptions.protocols import GROUPS
from poise.corruptions.write import Making

_PLAIN = (
    *("accuracy", "calibration_error", "rank_correlation", "observed_rank_correlation", "reliability", "top_overlap"),
    *("near_gain", "far_gain", "near_shift", "far_shift", "near_accuracy", "far_accuracy"),
)
Cells = dict[str, dict[str, dict[str, Any]]]


@dataclass(frozen=True, eq=False)
class Table:
    """One row per example: what all numbers, slices and comparisons are made of."""

    label: np.ndarray  # [N]
    predicted: np.ndarray  # [N]
    right: np.ndarray  # [N] of 0 and 1
    confidence: np.ndarray  # [N]
    rank_correlation: np.ndarray  # [N] as observed
    half_correlation: np.ndarray  # [N] with half of the probes
    halves: np.ndarray  # [N] of the two halves
    top_overlap: np.ndarray  # [N]
    near_shift: np.ndarray  # [N, K] in typical distances of two embeddings
    far_shift: np.ndarray  # [N, K]
    random_shift: np.ndarray  # [N, K]
    near_right: np.ndarray  # [N, K]
    far_right: np.ndarray  # [N, K]
    corrupted_right: np.ndarray  # [N, C]; C = 0 without corruptions
    corrupted_confidence: np.ndarray  # [N, C]

    def gain(self, side: str, place: int) -> np.ndarray:
        """[N] the shift relative to the mean one of as many random features."""
        known = self.random_shift[:, place][~np.isnan(self.random_shift[:, place])]
        measure = known.mean() if len(known) and known.any() else np.nan
        found: np.ndarray = getattr(self, f"{side}_shift")[:, place] / measure
        return found


def table_of(rows: dict[str, np.ndarray], embedding_distance: float) -> Table:
    """Shifts in units of the typical distance of two embeddings."""
    logits = rows["logits"].astype(float)
    powers = np.exp(logits - logits.max(1, keepdims=True))
    predicted = logits.argmax(1)
    unit = embedding_distance if embedding_distance > 0 else np.nan
    nothing = np.empty((len(predicted), 0))
    return Table(
        rows["label"],
        predicted,
        (predicted == rows["label"]).astype(float),
        powers.max(1) / powers.sum(1),
        rows["rank_correlation"],
        rows["half_correlation"],
        rows["halves"],
        rows["top_overlap"],
        rows["near_shift"] / unit,
        rows["far_shift"] / unit,
        rows["random_shift"] / unit,
        rows["near_right"].astype(float),
        rows["far_right"].astype(float),
        rows.get("corrupted_right", nothing).astype(float),
        rows.get("corrupted_confidence", nothing),
    )


def number_names(corruptions: Sequence[str]) -> list[str]:
    """What `numbers` gives, known before anything is measured."""
    if not corruptions:
        return list(_PLAIN)
    return [*_PLAIN, *_means(Making(tuple(corruptions), (1,), "cifar", 0)), "corrupted_calibration_error"]


def not_measured(name: str, there: Iterable[str]) -> str:
    """What is said of a number that an audit has not."""
    return f"{name!r} was not measured: there are {', '.join(there)}"


def numbers(table: Table, making: Making | None, middle: int) -> dict[str, Number]:
    """Every number by name; those of perturbation at the strength in the middle."""
    rho, reliability = corrected(table.half_correlation, table.halves)
    found = {
        "accuracy": share(table.right),
        "calibration_error": calibration(table.right, table.confidence),
        "rank_correlation": rho,
        "observed_rank_correlation": mean(table.rank_correlation),
        "reliability": reliability,
        "top_overlap": mean(table.top_overlap),
        "near_gain": gain(table, "near", middle),
        "far_gain": gain(table, "far", middle),
        "near_shift": mean(table.near_shift[:, middle]),
        "far_shift": mean(table.far_shift[:, middle]),
        "near_accuracy": share(table.near_right[:, middle]),
        "far_accuracy": share(table.far_right[:, middle]),
    }
    return found if making is None else found | _corrupted(table, making)


def values_of(table: Table, making: Making | None, middle: int) -> dict[str, np.ndarray]:
    """One value per example behind each number that is a mean: what pairs of models are compared by."""
    found = {
        "accuracy": table.right,
        "observed_rank_correlation": table.rank_correlation,
        "top_overlap": table.top_overlap,
        "near_gain": table.gain("near", middle),
        "far_gain": table.gain("far", middle),
        "near_shift": table.near_shift[:, middle],
        "far_shift": table.far_shift[:, middle],
        "near_accuracy": table.near_right[:, middle],
        "far_accuracy": table.far_right[:, middle],
    }
    if making is None:
        return found
    means = _means(making, each=False)
    return found | {name: table.corrupted_right[:, places].mean(1) for name, places in means.items()}


def gain(table: Table, side: str, place: int) -> Number:
    """The mean shift of a side over that of random features, with the uncertainty of both."""
    draws = plane_draws(table, place)[:, ("near", "far").index(side)]
    held = table.gain(side, place)
    known = int((~np.isnan(held)).sum())
    return interval(float(np.nanmean(held)) if known else np.nan, draws, known)


def plane_draws(table: Table, place: int) -> np.ndarray:
    """Resamples of both gains together [R, 2]."""
    shifts = np.stack([getattr(table, f"{side}_shift")[:, place] for side in ("near", "far", "random")], 1)
    if len(shifts) < 2:
        return np.full((1, 2), np.nan)
    draws = resampled(shifts)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: np.ndarray = draws[:, :2] / draws[:, 2:]
    return found


def perturbation(table: Table, strengths: tuple[float, ...]) -> list[dict[str, Any]]:
    """Shift, gain and accuracy of both sides at each strength, and the shift of random features."""
    rows = []
    for number, strength in enumerate(strengths):
        row: dict[str, Any] = {"strength": strength, "random_shift": mean(table.random_shift[:, number]).as_dict()}
        for side in ("near", "far"):
            row[f"{side}_shift"] = mean(getattr(table, f"{side}_shift")[:, number]).as_dict()
            row[f"{side}_gain"] = gain(table, side, number).as_dict()
            row[f"{side}_accuracy"] = share(getattr(table, f"{side}_right")[:, number]).as_dict()
        rows.append(row)
    return rows


def corruption_cells(table: Table, making: Making | None) -> Cells:
    """{corruption: {severity: accuracy and calibration error}}."""
    cells: Cells = {}
    for place, (name, severity) in enumerate(_settings(making) if making else []):
        right, confidence = table.corrupted_right[:, place], table.corrupted_confidence[:, place]
        cells.setdefault(name, {})[str(severity)] = {
            "accuracy": share(right).as_dict(),
            "calibration_error": calibration(right, confidence).as_dict(),
        }
    return cells


def _corrupted(table: Table, making: Making) -> dict[str, Number]:
    found = {name: mean(table.corrupted_right[:, places].mean(1)) for name, places in _means(making).items()}
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


_VALUES = 50  # of a column that is shown
RARE = 0.5  # of the mean number of examples of a class


def rare_classes(counts: Mapping[int, int]) -> list[int]:
    """Classes with less than half as many examples as a class has on average."""
    if not counts:
        return []
    average = sum(counts.values()) / len(counts)
    return sorted(label for label, count in counts.items() if count < RARE * average)


def slices(
    table: Table, columns: Mapping[str, Sequence[str]], class_names: Sequence[str], rare: Sequence[int], middle: int
) -> list[dict[str, Any]]:
    """One entry per slice, classes first."""
    labels = table.label
    found = [_entry("class", _name(label, class_names), labels == label, table, middle) for label in np.unique(labels)]
    if rare and (inside := np.isin(labels, rare)).any():
        found.append(_entry("classes", "rare", inside, table, middle))
        found.append(_entry("classes", "other", ~inside, table, middle))
    for column, values in columns.items():
        words = np.array(values)
        common = [value for value, _ in Counter(words.tolist()).most_common(_VALUES)]
        found += [_entry(column, value, words == value, table, middle) for value in common]
    return found


def _name(label: int, names: Sequence[str]) -> str:
    return names[label] if label < len(names) else str(label)


def _entry(column: str, value: str, inside: np.ndarray, table: Table, middle: int) -> dict[str, Any]:
    rho, _ = corrected(table.half_correlation[inside], table.halves[inside])
    numbers = {
        "accuracy": share(table.right[inside]),
        "rank_correlation": rho,
        "top_overlap": mean(table.top_overlap[inside]),
        "near_gain": mean(table.gain("near", middle)[inside]),
        "far_gain": mean(table.gain("far", middle)[inside]),
    }
    if table.corrupted_right.shape[1]:
        numbers["corrupted_accuracy"] = mean(table.corrupted_right[inside].mean(1))
    return {
        "column": column,
        "value": value,
        "examples": int(inside.sum()),
        "numbers": {name: number.as_dict() for name, number in numbers.items()},
    }
