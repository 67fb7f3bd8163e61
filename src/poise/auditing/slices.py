"""The numbers of slices: every class, the rare classes, and each value of a column.

Axes: N examples, K strengths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from poise.auditing.intervals import corrected, mean, share
from poise.auditing.numbers import Table

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
