"""Strips: sentences as rows of coloured tokens, human scores above the sensitivity of methods (section 4.1).

A run writes strips.json beside its record. Values are divided by the largest one of the sentence, and then averaged
over seeds.

<experiment>/<method>/seed-03/strips.json    tokens, human scores and sensitivities of a fixed list of sentences
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from poise.errors import RecordError
from poise.io.documents import documents, is_there, read_json, require
from poise.records.schema import RECORD, Results, read_record
from poise.reporting.figures.svg import STRENGTH, colour, text_on
from poise.reporting.statistics import number
from poise.reporting.tables import pairs

STRIPS = "strips.json"
_EACH = 4  # sentences with the largest gains, and with the largest losses


@dataclass(frozen=True)
class ColouredToken:
    """A token with its relative strength as a number and as colours."""

    word: str
    value: str
    background: str
    ink: str


@dataclass(frozen=True)
class Strip:
    """A sentence: relative strength per token, by row, and every method's correlation with the human row."""

    title: str
    tokens: tuple[str, ...]
    rows: Mapping[str, tuple[float, ...]]
    r: Mapping[str, float]

    @property
    def caption(self) -> str:
        return f"{self.title}: r " + ", ".join(f"{method} {number(value, 2)}" for method, value in self.r.items())

    @property
    def coloured(self) -> dict[str, list[ColouredToken]]:
        """The tokens of every row with their colours."""
        return {name: list(map(_token, self.tokens, values)) for name, values in self.rows.items()}


def chosen_strips(results: Results, order: Sequence[str], each: int = _EACH) -> list[Strip]:
    """Sentences with a title, then those where a method gains and loses most against the first of its group."""
    found = _found(results)
    compared = [pair for pair in pairs(results, order) if pair[0] in found and pair[1] in found]
    if not compared:
        return []
    method, first = compared[0]
    shown = [_strip(place, {name: found[name] for name in (first, method)}) for place in _places(found)]
    unasked = [strip for strip in shown if not strip.title]
    ranked = sorted(unasked, key=lambda strip: strip.r[first] - strip.r[method])
    gains = [strip for strip in ranked if strip.r[method] > strip.r[first]][:each]
    losses = [strip for strip in ranked[::-1] if strip.r[method] < strip.r[first]][:each]
    strips = [strip for strip in shown if strip.title]
    strips += [replace(strip, title=f"{method} gains most") for strip in gains]
    return strips + [replace(strip, title=f"{method} loses most") for strip in losses]


def _token(word: str, strength: float) -> ColouredToken:
    background = colour(STRENGTH, strength)
    return ColouredToken(word, number(strength, 2), background, text_on(background))


def _found(results: Results) -> dict[str, list[list[dict[str, Any]]]]:
    """The sentences of every run, by method."""
    runs: dict[str, list[list[dict[str, Any]]]] = {}
    for path in documents(results.folder, f"**/{STRIPS}"):
        if is_there(path.with_name(RECORD)):
            runs.setdefault(read_record(path.with_name(RECORD)).method, []).append(_read(path))
    texts = {tuple(tuple(each["tokens"]) for each in run) for held in runs.values() for run in held}
    if len(texts) > 1:
        raise RecordError(f"the {STRIPS} in {results.folder} show different sentences: run them with one version")
    return runs


def _read(path: Path) -> list[dict[str, Any]]:
    content = read_json(path, "strip")
    require(path, content, "strip", sentences=list)
    try:
        for each in content["sentences"]:
            if not len(each["tokens"]) == len(each["human"]) == len(each["sensitivity"]):
                raise ValueError("lists of different lengths")
            if not all(math.isfinite(value) for value in (each["r"], *each["sensitivity"])):
                raise ValueError("a number that is not finite")
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{path} is not a Poise strip: {type(error).__name__}, {error}") from None
    sentences: list[dict[str, Any]] = content["sentences"]
    return sentences


def _places(found: Mapping[str, list[list[dict[str, Any]]]]) -> range:
    return range(len(next(iter(found.values()))[0]))


def _strip(place: int, runs: Mapping[str, list[list[dict[str, Any]]]]) -> Strip:
    sentence = next(iter(runs.values()))[0][place]
    human = [0.0 if score is None else abs(score - 0.5) for score in sentence["human"]]
    rows = {"human": _relative(human)}
    for method, held in runs.items():
        shares = [_relative(run[place]["sensitivity"]) for run in held]
        rows[method] = tuple(fmean(values) for values in zip(*shares, strict=True))
    r = {method: fmean(run[place]["r"] for run in held) for method, held in runs.items()}
    return Strip(sentence.get("title", ""), tuple(sentence["tokens"]), rows, r)


def _relative(values: Sequence[float]) -> tuple[float, ...]:
    highest = max(values) or 1.0
    return tuple(value / highest for value in values)
