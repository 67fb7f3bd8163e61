"""The page about an audit, or about two audits side by side, made only from the files in a folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from poise.errors import RecordError
from poise.io.documents import read_json, require
from poise.io.files import is_mixed, regular, remove_parts
from poise.reporting.directions import direction_words, judged, meaning, phrase
from poise.reporting.figures.audits import (
    SENSITIVE,
    USEFUL,
    Point,
    bars,
    letters,
    maps,
    model_colour,
    plane,
    slice_plot,
    strength_plot,
)
from poise.reporting.figures.svg import Figures, Key, colour, heat_map, legend, text_on
from poise.reporting.render import Cell, Sheet, render
from poise.reporting.statistics import DASH, number, probability
from poise.reporting.verdict_card import Card, card, part_map


@dataclass(frozen=True, eq=False)
class Audited:
    """The facts of audit.json, and arrays of the telling examples: x_0, u_0, s_0 and so on."""

    facts: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(repr=False)

    @property
    def name(self) -> str:
        return str(self.facts["model"]["name"])


def load_audit(folder: Path) -> Audited:
    """Read the audit in a folder; RecordError if a file is missing or damaged."""
    for home in (folder, folder.parent):  # of one, and of a comparison
        remove_parts(home)
        if is_mixed(home):
            raise RecordError(f"{home} holds files of two audits: its process was killed, so run that audit again")
    path = folder / "audit.json"
    facts = read_json(path, "audit")
    require(path, facts, "audit", model=dict, data=dict, numbers=dict, verdict=dict, slices=list, telling=list)
    try:
        with regular(folder / "telling.npz").open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except Exception as error:  # whatever a damaged file makes numpy raise
        raise RecordError(f"{folder / 'telling.npz'} cannot be read: {error}") from None
    return Audited(facts, arrays)


def point_of(facts: dict[str, Any], reference: bool = False) -> Point | None:
    """The model in the plane; None if a gain is unknown."""
    ends = [[facts["numbers"][name][end] for end in ("value", "low", "high")] for name in ("near_gain", "far_gain")]
    if any(end is None for side in ends for end in side):
        return None
    (a, b, c), (d, e, f) = ends
    return Point(str(facts["model"]["name"]), (a, b, c), (d, e, f), reference)


def references(kind: str) -> list[Point]:
    """Reference models for data of a kind ("pictures", "table" or "text"), measured by `poise audit`."""
    rows = json.loads(files("poise.reporting").joinpath("audit_references.json").read_text(encoding="utf-8"))
    return [
        Point(row["name"], tuple(row["near"]), tuple(row["far"]), reference=True) for row in rows if row["kind"] == kind
    ]


def data_kind(facts: dict[str, Any]) -> str:
    """The kind of data of an audit."""
    if facts["data"]["kind"] == "tokens":
        return "text"
    return "table" if len(facts["data"].get("shape", ())) == 1 else "pictures"


_TITLE = 43  # characters of a figure's title that fit, without the colon and space after a name
_PARTS = 8
_UNLIKELY = 0.2  # features with a higher p are not listed


@dataclass(frozen=True)
class Token:
    """A token over a mark in the colour of its sensitivity; tokens that cannot be removed have no colours."""

    word: str
    removable: bool
    background: str = ""
    ink: str = ""
    mark: str = ""
    sensitivity: str = ""


@dataclass(frozen=True)
class Example:
    """An example as a strip of tokens, as a picture with its maps, or as a figure."""

    caption: str
    tokens: list[Token] | None = None
    maps: dict[str, str] | None = None
    figure: Markup | None = None


@dataclass(frozen=True)
class Model:
    """What the page shows about one model.

    parts     what its answers make of each part of the input, and a picture of it.
    blind     sentences about what no answer depends on.
    features  associated with its errors.
    examples  grouped by reason.
    """

    name: str
    card: Card
    parts: Sheet | None
    map: Markup | None
    blind: list[str]
    confusions: list[str]
    features: Sheet | None
    slices: Figures
    examples: dict[str, list[Example]]
    method: dict[str, str]


def audit_page(folder: Path, beside: Sequence[Path] = ()) -> str:
    """The page of one audit; `beside` are folders of other audits, which are shown in the plane."""
    return _page([load_audit(folder)], beside, "audit.json and telling.npz")


def comparison_page(folder: Path, beside: Sequence[Path] = ()) -> str:
    """The page of a comparison: comparison.json and a folder for each of the two models."""
    facts = read_json(folder / "comparison.json", "comparison")
    audits = [load_audit(folder / name) for name in facts["folders"]]
    return _page(audits, beside, "comparison.json and the two audits beside it", facts)


def _page(audits: list[Audited], beside: Sequence[Path], source: str, comparison: dict[str, Any] | None = None) -> str:
    shown = [*audits, *map(load_audit, beside)]
    points = [point for audited in shown if (point := point_of(audited.facts))]
    known = references(data_kind(audits[0].facts))
    named = zip(letters(points), points, strict=False)
    return render(
        "audit",
        title=f"Audit of {' and '.join(audited.name for audited in audits)}",
        source=source,
        facts=_facts(audits[0].facts) if len(audits) == 1 else _facts(audits[0].facts)[:1],
        models=[_model(audited) for audited in audits],
        points=points,
        plane=plane(points, audits[0].facts["thresholds"], known),
        letters=[
            Key(f"{letter} {point.name}", f"var(--c{model_colour(n)})") for n, (letter, point) in enumerate(named)
        ],
        references=known,
        differences=_differences(comparison["differences"], audits) if comparison else None,
        compared=comparison and comparison["examples"],
        sentence=(comparison or {}).get("sentence", ""),
        numbers=_numbers(audits),
        stress=[_under_noise(audits), *_corruptions(audits)],
        attacked=_attacked(audits),
        shifts=_shifts(audits),
        keys=[Key("utility", colour(USEFUL, 0.7)), Key("sensitivity", colour(SENSITIVE, 0.7))],
    )


def _facts(facts: dict[str, Any]) -> list[str]:
    model, data = facts["model"], facts["data"]
    return [
        f"{facts['examples']} examples of {data['name']}" + ("" if facts["complete"] else ", interrupted"),
        f"{model['weights']:,} weights, {model['classes']} classes, embedding of {model['embedding']}",
        f"{facts['seconds']:.0f} s on {model['device']}",
    ]


def _model(audited: Audited) -> Model:
    facts = audited.facts
    return Model(
        name=audited.name,
        card=card(facts, audited.arrays),
        parts=_parts(facts.get("reliance", [])),
        map=_map(audited),
        blind=[_blind(each) for each in facts.get("blind", [])],
        confusions=[_confusion(each, facts["data"]["class_names"]) for each in facts["confusions"]],
        features=_features(facts),
        slices=_slices(facts["slices"]),
        examples=_examples(audited),
        method=_method(facts),
    )


def _parts(reliance: Sequence[dict[str, Any]]) -> Sheet | None:
    """What happens to the answers when a part of the input is swapped or removed, the strongest first."""
    rows: list[list[str | Cell]] = [
        [
            _capital(each["name"]),
            _percent(each["changed"]),
            _percent(each["followed"]),
            _percent(each.get("without_changed")),
            _lost(each.get("without_accuracy_drop")),
        ]
        for each in reliance[:_PARTS]
    ]
    head = ["part", "answers that change", "answers that follow it", "change without it", "accuracy without it"]
    return Sheet(head, rows) if rows else None


def _map(audited: Audited) -> Markup | None:
    """The regions over the picture of a proof; None without regions."""
    regions = [each for each in audited.facts.get("reliance", []) if each["box"] is not None]
    picture = audited.arrays.get("before_0")
    return part_map(picture, regions) if regions and picture is not None and picture.ndim == 3 else None


def _blind(each: dict[str, Any]) -> str:
    alone = each["alone"]
    return (
        f"{_capital(each['name'])}: {each['share']:.0%} of the input. A linear model that reads nothing else is right "
        f"in {alone['value']:.0%} of the examples (guessing: {each['chance']:.0%})."
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _percent(held: dict[str, Any] | None) -> str:
    """`38% [29, 48]`."""
    if held is None or held["value"] is None:
        return DASH
    span = "" if held["low"] is None else f" [{100 * held['low']:.0f}, {100 * held['high']:.0f}]"
    return f"{held['value']:.0%}{span}"


def _lost(drop: dict[str, Any] | None) -> str:
    """The change of accuracy in points, from a drop."""
    if drop is None or drop["value"] is None:
        return DASH
    return f"{number(-100 * drop['value'], 0, True)} points"


def _differences(gaps: dict[str, Any], audits: Sequence[Audited]) -> tuple[Sheet, Sheet]:
    """The second minus the first on the same examples: numbers that have a better direction, and those that do not."""
    change = f"{audits[1].name} − {audits[0].name}"  # noqa: RUF001
    judged_rows: list[list[str | Cell]] = []
    others: list[list[str | Cell]] = []
    for name, gap in gaps.items():
        span = DASH if gap["low"] is None else f"[{number(gap['low'], 3, True)}, {number(gap['high'], 3, True)}]"
        mean, p = Cell(number(gap["mean"], 3, True), bold=gap["significant"]), probability(gap["holm"]) or DASH
        word = judged(name, gap["mean"], gap["significant"])
        told = Cell(word, tone={"better": "good", "worse": "bad"}.get(word, ""))
        if word:
            judged_rows.append([_capital(phrase(name)), told, mean, span, direction_words(name), p])
        else:
            others.append([name.replace("_", " "), mean, span, p])
    head = ["", f"{audits[1].name} is", change, "95 % interval", "", "p"]
    return Sheet(head, judged_rows), Sheet(["", change, "95 % interval", "p"], others)


def _numbers(audits: Sequence[Audited]) -> Sheet:
    """Every number with its interval, one column per model, its better direction and its meaning."""
    found = [audited.facts["numbers"] for audited in audits]
    rows = [
        [
            name.replace("_", " "),
            *(interval_cell(each.get(name)) for each in found),
            direction_words(name) or DASH,
            meaning(name),
        ]
        for name in dict.fromkeys(name for each in found for name in each)
    ]
    return Sheet(["", *(audited.name for audited in audits), "", ""], rows)


def interval_cell(held: dict[str, Any] | None) -> str:
    """`.7234 [.6912, .7551]`."""
    if held is None or held["value"] is None:
        return DASH
    if held["low"] is None:
        return number(held["value"], 3)
    high = "∞)" if held["high"] is None else f"{number(held['high'], 3)}]"
    return f"{number(held['value'], 3)} [{number(held['low'], 3)}, {high}"


def _attacked(audits: Sequence[Audited]) -> Sheet | None:
    """The radii at which half of the answers turn, one column per model; None without any."""
    held = [{each["norm"]: each["radius"] for each in audited.facts.get("worst_case", [])} for audited in audits]
    if not any(held):
        return None
    of = {"linf": "every feature by at most this", "l2": "root of the sum of squares"}
    rows: list[list[str | Cell]] = [
        [what, *(interval_cell(each.get(norm)) for each in held), direction_words(f"{norm}_radius")]
        for norm, what in of.items()
    ]
    return Sheet(["change of the input", *(audited.name for audited in audits), ""], rows)


_SIDES = ["least useful features perturbed", "most useful features perturbed"]


def _under_noise(audits: Sequence[Audited]) -> Figures:
    """Accuracy over the strength of the perturbation."""
    drawn = [strength_plot(each.facts, "accuracy", _title(each, audits, "accuracy")) for each in audits]
    note = (
        "The least useful features of an example are the tenth that changes its loss least. A good model keeps its "
        "accuracy when they are perturbed, and loses it when the most useful ones are."
    )
    return Figures("When what matters least, or most, is perturbed", drawn, legend(_SIDES), note)


def _shifts(audits: Sequence[Audited]) -> Figures:
    """The shift of the embedding over the strength of the perturbation."""
    drawn = [strength_plot(each.facts, "shift", _title(each, audits, "embedding shift")) for each in audits]
    note = "The unit of a shift is the typical distance of two examples' embeddings."
    return Figures("How far the embedding moves", drawn, legend(_SIDES), note)


def _corruptions(audits: Sequence[Audited]) -> list[Figures]:
    """Heat maps of accuracy and of calibration error; of two models also the difference in accuracy."""
    if not any(audited.facts["corruptions"] for audited in audits):
        return []
    accuracy = [cells_of(audited, "accuracy") for audited in audits]
    drawn = [heat_map(_title(a, audits, "accuracy"), cells) for a, cells in zip(audits, accuracy, strict=True) if cells]
    if len(audits) == 2 and all(accuracy):
        one, other = accuracy
        gap = {name: {s: other[name][s] - v for s, v in row.items()} for name, row in one.items()}
        reach = max(abs(v) for row in gap.values() for v in row.values()) or 1.0
        drawn.append(heat_map("accuracy of the second − the first", gap, reach))  # noqa: RUF001
    calibration = "calibration error (low is good)"
    drawn += [heat_map(_title(a, audits, calibration), cells_of(a, "calibration_error")) for a in audits]
    return [Figures("Under corruptions", drawn)]


def cells_of(audited: Audited, what: str) -> dict[str, dict[int, float]]:
    found = audited.facts["corruptions"]
    return {name: {int(s): cell[what]["value"] or 0.0 for s, cell in row.items()} for name, row in found.items()}


def _title(audited: Audited, audits: Sequence[Audited], what: str) -> str:
    """The title of a figure, with the name of the model if there are two, shortened to fit."""
    if len(audits) == 1:
        return what
    room = _TITLE - len(what)
    name = audited.name if len(audited.name) <= room else f"…{audited.name[1 - room :]}"
    return f"{name}: {what}"


def _slices(held: list[dict[str, Any]]) -> Figures:
    """Accuracy, rank correlation and far gain of each slice, with intervals."""
    drawn = []
    for column in dict.fromkeys(entry["column"] for entry in held):
        entries = [entry for entry in held if entry["column"] == column]
        drawn += [slice_plot(column, entries, what) for what in ("accuracy", "rank_correlation", "far_gain")]
    names = list(held[0]["numbers"]) if held else []
    rows = [
        [f"{e['column']} {e['value']}", str(e["examples"]), *(interval_cell(e["numbers"].get(n)) for n in names)]
        for e in held
    ]
    sheet = Sheet(["slice", "examples", *(name.replace("_", " ") for name in names)], rows)
    return Figures("Per class and slice", drawn, sheet=sheet)


def _features(facts: dict[str, Any]) -> Sheet | None:
    """Features associated with the errors; None without any."""
    names = facts["data"]["class_names"]
    rows = [
        [e["name"], e["kind"], _called(e["label"], names), f"{e['gain']:.0%}", _use(e), _change(e), probability(e["p"])]
        for e in facts["leftover"]
        if e["p"] < _UNLIKELY
    ]
    head = ["feature", "kind", "errors in class", "loss it could save", "current use", "loss without it", "p"]
    return Sheet(head, rows) if rows else None


def _confusion(e: dict[str, Any], names: Sequence[str]) -> str:
    label, other = _called(e["label"], names), _called(e["taken_for"], names)
    return f"{e['count']} of {e['of']} examples of {label} are taken for {other}"


def _use(entry: dict[str, Any]) -> str:
    return DASH if entry.get("use") is None else number(entry["use"], 2, True)


def _change(entry: dict[str, Any]) -> str:
    return DASH if entry.get("without") is None else f"{-entry['without']:+.0%}"


def _called(label: int | None, names: Sequence[str]) -> str:
    if label is None:
        return "all"
    return names[label] if label < len(names) else str(label)


def _examples(audited: Audited) -> dict[str, list[Example]]:
    """The most telling examples, grouped by the reason for which they were chosen."""
    shown: dict[str, list[Example]] = {}
    for place, entry in enumerate(audited.facts["telling"]):
        why = entry["why"][0].upper() + entry["why"][1:]
        shown.setdefault(why, []).append(_example(audited, place, entry))
    return shown


def _example(audited: Audited, place: int, entry: dict[str, Any]) -> Example:
    x, u, s = (audited.arrays[f"{part}_{place}"] for part in "xus")
    caption = _caption(audited.facts, entry)
    if "words" in entry:
        return Example(caption, tokens=_tokens(entry["words"], entry["feature"], u, s))
    if x.ndim == 3 and x.shape[0] in (1, 3):
        return Example(caption, maps=maps(x, u, s))
    return Example(caption, figure=bars(u.ravel(), s.ravel(), audited.facts["data"].get("feature_names") or ()))


def _tokens(words: Sequence[str], feature: Sequence[bool], u: np.ndarray, s: np.ndarray) -> list[Token]:
    highest_u, highest_s = (max(float(values.max(initial=0.0)), 1e-12) for values in (u, s))
    tokens = []
    for word, removable, useful, sensitive in zip(words, feature, u, s, strict=False):
        back, mark = colour(USEFUL, float(useful) / highest_u), colour(SENSITIVE, float(sensitive) / highest_s)
        colours = (back, text_on(back), mark, f"sensitivity {sensitive:.3g}") if removable else ()
        tokens.append(Token(word, removable, *colours))
    return tokens


def _caption(facts: dict[str, Any], entry: dict[str, Any]) -> str:
    names = facts["data"]["class_names"]
    label, predicted = (_called(entry[key], names) for key in ("label", "predicted"))
    told = label if label == predicted else f"{label}, taken for {predicted}"
    which = f"{entry.get('source') or 'example ' + str(entry['example'])}: " if entry["example"] >= 0 else ""
    parts = [f"{which}{told} ({entry['confidence']:.2f})"]
    for key, name in (("near_gain", "near"), ("far_gain", "far"), ("observed_rank_correlation", "rank correlation")):
        parts += [f"{name} {entry[key]:.2f}"] if entry[key] is not None else []
    return " · ".join(parts)


def _method(facts: dict[str, Any]) -> dict[str, str]:
    """How it was measured."""
    probes, error = facts["estimator"]["probes"], facts["estimator"]["relative_error"]
    way = "exact" if probes is None else f"{probes} random probes, standard error {error:.0%} of each feature's value"
    return {"sensitivity": way, **{name: str(value) for name, value in facts["settings"].items()}}
