"""What the JSON of records and experiments must look like: the first thing that is otherwise, in words.

A shape is a leaf (a function that says what a value should have been, or nothing), `[shape]` for a list, or a dict of
fields; `Named(shape)` is an object with any names. Fields in `optional` may be missing or null.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from poise.records.columns import Counts, corruption_of

_MOST = 1e38  # of float32, nearly; the squares of these are still finite
_SHOWN = 40  # characters of a wrong value


@dataclass(frozen=True)
class Fields:
    """An object with these fields."""

    required: Mapping[str, Any]
    optional: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Named:
    """An object whose values have one shape."""

    shape: Any


def number(value: Any) -> str:
    return "" if _is_number(value) and abs(value) <= _MOST else "a number"


def number_or_null(value: Any) -> str:
    return "" if value is None else number(value)


def share(value: Any) -> str:
    return "" if _is_number(value) and 0 <= value <= 1 else "a number between 0 and 1"


def positive(value: Any) -> str:
    return "" if _is_number(value) and 0 <= value <= _MOST else "a number of 0 or more"


def above_zero(value: Any) -> str:
    return "" if _is_number(value) and 0 < value <= _MOST else "a number above 0"


def whole(value: Any) -> str:
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
    return "" if fits else "a whole number of 0 or more"


def word(value: Any) -> str:
    return "" if isinstance(value, str) and value and not line(value) else "a word"


def line(value: Any) -> str:
    return "" if isinstance(value, str) and not set("\n\r\t") & set(value) else "a text on one line"


def words(value: Any) -> str:
    return "" if isinstance(value, str) else "a text"


def label(value: Any) -> str:
    return "" if isinstance(value, str) or not number(value) else "a text or a number"


def pair(value: Any) -> str:
    """Of counts: right answers and examples."""
    fits = isinstance(value, list) and len(value) == 2 and not any(whole(each) for each in value)
    return "" if fits and value[0] <= value[1] else "a pair of counts, right answers and examples"


_ENTRY = Fields(
    {},
    {
        "epoch": whole,
        "step": whole,
        "loss": Named(number_or_null),
        "measures": Named(number_or_null),
        "validation": share,
    }
    | {"learning_rate": number, "seconds": positive},
)
RECORD = Fields(
    {"experiment": word, "method": word, "seed": whole, "recipe": words, "scores": Named(number)},
    {"classes": Named([pair]), "validation": share, "log": [_ENTRY], "trunk": Named(whole), "seconds": positive}
    | {"peak_memory": whole, "versions": Named(words), "origins": Named(words), "damaged": Named(words)}
    | dict.fromkeys(("commit", "version_of_poise", "device", "engine", "started", "finished"), words),
)
_COLUMN = Fields({"name": word, "of": [word]}, {"classes": [whole], "errors": [above_zero]})
EXPERIMENT = Fields(
    {"name": word, "columns": [_COLUMN], "methods": [word]},
    {"title": line, "groups": [[word]], "details": Named([_COLUMN]), "overlaps": Named([word])}
    | {"paper": Named(Named(Fields({"mean": number}, {"std": positive}))), "rare_classes": [whole]}
    | {"class_names": [label], "frontier": [word], "reference": words},
)


def wrong(value: Any, shape: Any, place: Sequence[object] = ()) -> str:
    """`'scores': 'BAL' is nan, not a number`: the first place that has another shape; empty if all is well."""
    if isinstance(shape, Fields):
        return _wrong_fields(value, shape, place)
    if isinstance(shape, Named):
        parts = [(name, each, shape.shape) for name, each in value.items()] if isinstance(value, dict) else None
        return _first(parts, place) if parts is not None else f"{_named(place)} is not an object"
    if isinstance(shape, list):
        parts = [(n, each, shape[0]) for n, each in enumerate(value)] if isinstance(value, list) else None
        return _first(parts, place) if parts is not None else f"{_named(place)} is not a list"
    expected = shape(value)
    return f"{_named(place)} is {_short(value)}, not {expected}" if expected else ""


def fault_of(record: Any) -> str:
    """What is wrong with the content of a record; empty if all is well."""
    return wrong(record, RECORD) or _contradiction(record["scores"], record.get("classes") or {})


def _contradiction(scores: Mapping[str, float], classes: Mapping[str, Counts]) -> str:
    """A score that its counts do not give, or an accuracy on a corruption that is none; empty if there is none."""
    for name, counts in classes.items():
        right, total = (sum(count[place] for count in counts) for place in (0, 1))
        if name in scores and not math.isclose(scores[name], right / max(total, 1), abs_tol=1e-9):
            return f"score {name!r} is {scores[name]!r}, and its counts say {right} of {total}"
        if name not in scores:
            return f"'classes' count {name!r}, which has no score"
    for name, score in scores.items():
        if corruption_of(name) and share(score):
            return f"score {name!r} is {score!r}, not a number between 0 and 1"
    return ""


def _wrong_fields(value: Any, shape: Fields, place: Sequence[object]) -> str:
    if not isinstance(value, dict):
        return f"{_named(place)} is not an object"
    for name in shape.required:
        if name not in value:
            return f"{_named((*place, name))} is not a field of it"
    there = {name: each for name, each in shape.optional.items() if value.get(name) is not None}
    return _first([(name, value[name], each) for name, each in {**shape.required, **there}.items()], place)


def _first(parts: Sequence[tuple[object, Any, Any]], place: Sequence[object]) -> str:
    return next((found for name, each, shape in parts if (found := wrong(each, shape, (*place, name)))), "")


def _named(place: Sequence[object]) -> str:
    return ": ".join(_short(name) for name in place) or "it"


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…"


def _is_number(value: Any) -> bool:
    """An integer too large for a float is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
