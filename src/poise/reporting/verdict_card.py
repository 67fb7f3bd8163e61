"""The first screen about a model: the verdict, what to do, examples that prove it, and three numbers.

A proof is an example before and after one change, with both answers. Its caption says what was changed. In pictures a
frame marks the change; of tables and sentences only what differs is marked.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from markupsafe import Markup

from poise.reporting.figures.audits import png
from poise.reporting.figures.svg import element
from poise.reporting.statistics import number

TONES = {"relies": "bad", "misses": "bad", "breaks": "bad", "mismatch": "bad", "no weakness found": "good"}
_MARKS = {"bad": "✗", "good": "✓", "unsure": "?"}
_LEAST_USEFUL = "the least useful features"
_WIDE = 0.7  # of the picture, above which a frame says nothing
_COLUMNS = 4  # of a table in a proof


@dataclass(frozen=True)
class ShownSide:
    """The example before or after the change, and the answer to it.

    words    of a sentence, and whether each differs.
    columns  of a table: the name, the value, and whether it differs.
    """

    answer: str
    picture: Markup | None = None
    words: list[tuple[str, bool]] | None = None
    columns: list[tuple[str, str, bool]] | None = None


@dataclass(frozen=True)
class ShownProof:
    """An example before and after a change."""

    caption: str
    before: ShownSide
    after: ShownSide
    changes: bool


@dataclass(frozen=True)
class ShownFinding:
    """One answer of the verdict, what to do next, and an example that proves it."""

    sentence: str
    advice: str
    proof: ShownProof | None = None


@dataclass(frozen=True)
class ShownAnswer:
    """A name of the verdict in words, its tone, and its findings."""

    phrase: str
    tone: str
    findings: list[ShownFinding]

    @property
    def mark(self) -> str:
        return _MARKS[self.tone]


@dataclass(frozen=True)
class Tile:
    """A number in large letters, a word about it, and its tone."""

    label: str
    value: str
    word: str
    tone: str


@dataclass(frozen=True)
class Card:
    """Everything on the first screen about one model."""

    name: str
    tone: str
    first: list[ShownFinding]
    answers: list[ShownAnswer]
    tiles: list[Tile]
    notes: list[str] = field(default_factory=list)


def card(facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Card:
    """The first screen, from audit.json and its arrays."""
    answers = _answers(facts, arrays)
    first = [_finding(each) for each in facts["verdict"].get("first", [])]
    tone = "bad" if first else answers[0].tone
    return Card(str(facts["model"]["name"]), tone, first, answers, _tiles(facts), facts["notes"])


def _answers(facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> list[ShownAnswer]:
    """The names of the verdict, each with its findings; those with a proof come first."""
    verdict = facts["verdict"]
    found = verdict.get("findings") or [
        {"name": name, "phrase": name, "sentence": verdict["sentence"], "advice": ""} for name in verdict["names"]
    ]
    proofs = _proofs(facts, arrays)
    shown: dict[str, ShownAnswer] = {}
    for each in found:
        name = str(each["name"])
        answer = shown.setdefault(name, ShownAnswer(_capital(each["phrase"]), TONES.get(name, "unsure"), []))
        answer.findings.append(_finding(each, _proof_of(each, proofs)))
    for answer in shown.values():
        answer.findings.sort(key=lambda each: each.proof is None)
    return list(shown.values())


def _proofs(facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> dict[str, ShownProof]:
    """The proofs by the part that was changed."""
    entries = list(enumerate(facts.get("proofs", [])))
    return {str(entry["part"]): _proof(facts, arrays, place, entry) for place, entry in entries}


def _proof_of(finding: Mapping[str, Any], proofs: Mapping[str, ShownProof]) -> ShownProof | None:
    """The proof of a finding; if no weakness was found, that of the part that decides most."""
    if finding["name"] == "breaks":
        return proofs.get(_LEAST_USEFUL)
    if finding["name"] == "no weakness found":
        return next((proof for part, proof in proofs.items() if part != _LEAST_USEFUL), None)
    return next((proof for part, proof in proofs.items() if part in finding["sentence"]), None)


def _finding(each: Mapping[str, Any], proof: ShownProof | None = None) -> ShownFinding:
    return ShownFinding(_capital(str(each["sentence"])), str(each["advice"]), proof)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _proof(
    facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray], place: int, entry: Mapping[str, Any]
) -> ShownProof:
    changes = entry["answer_before"] != entry["answer_after"]
    names = facts["data"]["class_names"]
    before, after = (arrays[f"{when}_{place}"] for when in ("before", "after"))
    said = [_called(entry[f"answer_{when}"], names) for when in ("before", "after")]
    one, other = _sides(facts, entry, said, before, after)
    return ShownProof(_caption(facts, entry, said, changes), one, other, changes)


def _caption(facts: Mapping[str, Any], entry: Mapping[str, Any], said: Sequence[str], changes: bool) -> str:
    """Such as `row 7: only the upper half was taken from another example. The answer stays bar.`"""
    which = entry.get("source") or f"example {entry['example']}"
    part = str(entry["part"])
    if part == _LEAST_USEFUL:
        what = "lost its least useful words" if facts["data"]["kind"] == "tokens" else f"got noise on {part}"
    elif facts["data"]["kind"] == "tokens":
        what = f"got {part} in place of another word"
    else:
        column = any(each["name"] == part and each["kind"] == "column" for each in facts.get("reliance", []))
        what = f"got {'the column ' if column else ''}{part} from another example; everything else stayed"
    end = f"The answer changed from {said[0]} to {said[1]}." if changes else f"The answer did not change: {said[0]}."
    return f"{_capital(which)} {what}. {end}"


def _called(label: int, names: Sequence[str]) -> str:
    return str(names[label]) if label < len(names) else f"class {label}"


def _sides(
    facts: Mapping[str, Any], entry: Mapping[str, Any], said: Sequence[str], before: np.ndarray, after: np.ndarray
) -> tuple[ShownSide, ShownSide]:
    if "words_before" in entry:
        one, other = entry["words_before"], entry["words_after"]
        return ShownSide(said[0], words=_marked(one, other)), ShownSide(said[1], words=_marked(other, one))
    if before.ndim == 3 and before.shape[0] in (1, 3):
        frame = _frame(before, after)
        return ShownSide(said[0], framed(before, frame)), ShownSide(said[1], framed(after, frame))
    shown = _shown_columns(facts, before.ravel(), after.ravel())
    one, other = (
        [(name, f"{x.ravel()[place]:.3g}", differs) for name, place, differs in shown] for x in (before, after)
    )
    return ShownSide(said[0], columns=one), ShownSide(said[1], columns=other)


def _shown_columns(facts: Mapping[str, Any], a: np.ndarray, b: np.ndarray) -> list[tuple[str, int, bool]]:
    """The columns that differ, and some that do not, in the order of their influence."""
    names = facts["data"].get("feature_names") or []
    called = [str(names[place]) if len(names) == len(a) else f"feature {place}" for place in range(len(a))]
    ranks = {each["name"]: place for place, each in enumerate(facts.get("reliance", []))}
    order = sorted(range(len(a)), key=lambda place: (a[place] == b[place], ranks.get(called[place], len(ranks))))
    return [(called[place], place, bool(a[place] != b[place])) for place in order[:_COLUMNS]]


def _marked(one: Sequence[str], other: Sequence[str]) -> list[tuple[str, bool]]:
    if len(one) == len(other):
        return [(word, word != there) for word, there in zip(one, other, strict=True)]
    return [(word, word not in other) for word in one]


def _frame(before: np.ndarray, after: np.ndarray) -> tuple[int, int, int, int] | None:
    """Top, left, bottom and right of what differs; None if it is nearly everything."""
    differs = np.abs(before - after).max(0) > 0
    rows, columns = np.flatnonzero(differs.any(1)), np.flatnonzero(differs.any(0))
    if not len(rows):
        return None
    box = int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1
    area = (box[2] - box[0]) * (box[3] - box[1]) / differs.size
    return box if area <= _WIDE else None


def framed(x: np.ndarray, frame: tuple[int, int, int, int] | None) -> Markup:
    """A picture [C, H, W] with a frame around a box."""
    parts = [_image(x)]
    if frame is not None:
        top, left, bottom, right = frame
        at = {"x": left, "y": top, "width": right - left, "height": bottom - top}
        parts += [element("rect", **at, class_="frame under"), element("rect", **at, class_="frame")]
    return element("svg", *parts, viewBox=f"-0.5 -0.5 {x.shape[2] + 1} {x.shape[1] + 1}", class_="shown", role="img")


def _image(x: np.ndarray) -> Markup:
    low, high = min(0.0, float(x.min())), max(1.0, float(x.max()))
    pixels = ((x - low) / (high - low) * 255).round().astype(np.uint8).transpose(1, 2, 0)
    uri = f"data:image/png;base64,{base64.b64encode(png(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)).decode()}"
    return element("image", href=uri, width=x.shape[2], height=x.shape[1], class_="pixels")


def part_map(x: np.ndarray, reliance: Sequence[Mapping[str, Any]]) -> Markup:
    """A picture under the share of answers that change when each region is swapped: the more, the clearer."""
    parts = [_image(x), element("rect", width=x.shape[2], height=x.shape[1], class_="veil")]
    for each in sorted(reliance, key=lambda each: float(each["changed"]["value"])):
        if each["box"] is None:
            continue
        top, left, bottom, right = each["box"]
        share = float(each["changed"]["value"])
        title = element("title", f"{each['name']}: {share:.0%} of the answers change")
        at = {"x": left, "y": top, "width": right - left, "height": bottom - top}
        parts.append(element("rect", title, **at, class_="heat", fill_opacity=f"{0.75 * share:.3f}"))
    return element("svg", *parts, viewBox=f"0 0 {x.shape[2]} {x.shape[1]}", class_="shown", role="img")


def _tiles(facts: Mapping[str, Any]) -> list[Tile]:
    numbers = facts["numbers"]
    found = [
        Tile("right answers, unchanged examples", _share(numbers["accuracy"]), _span(numbers["accuracy"]), "plain")
    ]
    drop, least = numbers.get("near_accuracy_drop"), facts["thresholds"].get("least_drop", 0.05)
    if drop and drop["low"] is not None:
        tokens = facts["data"]["kind"] == "tokens"
        label = "without the words that matter least" if tokens else "with noise on what matters least"
        tone = "bad" if drop["low"] >= least else "good" if drop["high"] < least else "unsure"
        word = {"bad": "falls", "good": "holds", "unsure": "may fall"}[tone]
        found.append(Tile(label, _share(numbers["near_accuracy"]), f"{word}: {_points(drop)}", tone))
    if "corrupted_accuracy" in numbers:
        lost = numbers["corrupted_accuracy"]["value"] - numbers["accuracy"]["value"]
        tone = "bad" if lost <= -0.2 else "good" if lost > -least else "unsure"
        word = {"bad": "falls", "good": "holds", "unsure": "falls a little"}[tone]
        kinds = ", ".join(name.replace("_", " ") for name in facts["corruptions"]) or "corruptions"
        label = f"under {kinds if len(facts['corruptions']) <= 4 else 'corruptions'}"
        found.append(Tile(label, _share(numbers["corrupted_accuracy"]), f"{word}: {100 * lost:+.0f} points", tone))
    return found


def _share(held: Mapping[str, Any]) -> str:
    return "–" if held["value"] is None else f"{held['value']:.0%}"  # noqa: RUF001


def _span(held: Mapping[str, Any]) -> str:
    return "" if held["low"] is None else f"{held['low']:.0%} to {held['high']:.0%}"


def _points(drop: Mapping[str, Any]) -> str:
    """The change of a share in points, from a drop."""
    text = number(-100 * drop["value"], 0, sign=True)
    return f"{text} points ({number(-100 * drop['high'], 0, sign=True)} to {number(-100 * drop['low'], 0, sign=True)})"
