"""The files of a sweep, and the names of its trials in tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

SWEEP = "sweep.json"
TRIAL = "trial.json"


def score_of(record: Mapping[str, Any], names: Sequence[str]) -> float:
    """The mean of some scores of a run: "validation", or scores on the task's validation sets."""
    return fmean(record["validation"] if name == "validation" else record["scores"][name] for name in names)


def label_of(path: str) -> str:
    """The column name for a path."""
    return path.removeprefix("objective.")


def in_words(values: Mapping[str, str]) -> str:
    """The values of a trial on one line."""
    return ", ".join(f"{label_of(path)}={value}" for path, value in values.items())
