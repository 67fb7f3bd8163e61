"""The files of a sweep, and what they are called in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

SWEEP = "sweep.json"


TRIAL = "trial.json"


def score_of(record: Mapping[str, Any], names: Sequence[str]) -> float:
    """The mean of these scores of a run: "validation", or one of those that the runner took on validation sets."""
    return fmean(record["validation"] if name == "validation" else record["scores"][name] for name in names)


def label_of(path: str) -> str:
    """A path as a column's name."""
    return path.removeprefix("objective.")


def in_words(values: Mapping[str, str]) -> str:
    """The values of a trial on a line."""
    return ", ".join(f"{label_of(path)}={value}" for path, value in values.items())
