"""Numbers as text in tables and figures: four digits, no zero before the point."""

from __future__ import annotations

from poise.records.schema import Published
from poise.reporting.statistics import Difference, Summary

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


def interval(difference: Difference | None) -> str:
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


def signed_interval(difference: Difference, digits: int = 3) -> str:
    """`+.226 [+.152, +.300]`: for sentences and figures, where p stands elsewhere or nowhere."""
    mean = number(difference.mean, digits, sign=True)
    if difference.low is None or difference.high is None:
        return mean
    low, high = (number(end, digits, sign=True) for end in (difference.low, difference.high))
    return f"{mean} [{low}, {high}]"


def probability(value: float | None) -> str:
    """`p=.0321`, `p<.0001`."""
    if value is None:
        return ""
    return "p<.0001" if value < 0.0001 else f"p={number(value)}"
