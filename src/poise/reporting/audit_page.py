"""A page about an audit, or about two models side by side: a pure function of the files in a folder.

The parts of a page about an audit: verdict, numbers, plane, perturbation, corruptions, examples, method.

Parts of a page about an audit that look into it: slices, and what the errors go with.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from poise.io.json_files import read_json
from poise.reporting.audit_examples import SENSITIVE, USEFUL, examples
from poise.reporting.audit_files import Audited, Point, load_audit, point_of, references
from poise.reporting.figures.curves import heat_map
from poise.reporting.figures.plane import letters, model_colour, plane
from poise.reporting.figures.svg import (
    WIDTH,
    Scale,
    box,
    colour,
    drawing,
    frame,
    heading,
    line,
    polyline,
    scale_of,
    words,
)
from poise.reporting.markup import Markup, document, element, join
from poise.reporting.rounding import DASH, number, probability

MEANINGS = {
    "accuracy": "right answers on the examples as they are",
    "calibration_error": "how far confidence is from accuracy (ECE, 15 bins)",
    "rank_correlation": "of utility and sensitivity within an example, corrected for the noise of the probes",
    "observed_rank_correlation": "the same without the correction",
    "reliability": "of the sensitivity estimate: 1 is exact",
    "top_overlap": "share of the most useful features that are among the most sensitive ones",
    "near_gain": "how far the least useful features move the embedding, relative to random ones",
    "far_gain": "how far the most useful features move the embedding, relative to random ones",
    "near_shift": "the same in typical distances of two examples' embeddings",
    "far_shift": "the same in typical distances of two examples' embeddings",
    "near_accuracy": "accuracy with the least useful features perturbed",
    "far_accuracy": "accuracy with the most useful features perturbed",
    "corrupted_accuracy": "mean accuracy over the corruptions measured",
    "corrupted_calibration_error": "mean calibration error over the corruptions measured",
}
_TITLE = 44  # characters of a figure's title
_UNDER = "mean accuracy under this corruption, or this group of them"


def verdict(facts: dict[str, Any]) -> Markup:
    """The sentence, in a frame, and what must be known to read it."""
    names = " ".join(str(name).replace(" ", "-") for name in facts["verdict"]["names"])
    notes = [element("p", note, class_="note warn") for note in facts["notes"]]
    return join([element("p", facts["verdict"]["sentence"], class_=f"verdict {names}"), *notes])


def facts_line(facts: dict[str, Any]) -> Markup:
    model, data = facts["model"], facts["data"]
    words_ = [
        f"{facts['examples']} examples of {data['name']}" + ("" if facts["complete"] else ", interrupted"),
        f"{model['weights']:,} weights, {model['classes']} classes, embedding of {model['embedding']}",
        f"{facts['seconds']:.0f} s on {model['device']}",
    ]
    return element("p", *(element("span", each) for each in words_), class_="facts")


def numbers_table(audits: Sequence[Audited]) -> Markup:
    """Every number with its interval, one column per model."""
    names = list(dict.fromkeys(name for audited in audits for name in audited.facts["numbers"]))
    rows = []
    for name in names:
        cells = [interval_cell(audited.facts["numbers"].get(name)) for audited in audits]
        rows.append([name.replace("_", " "), *cells, MEANINGS.get(name, _UNDER)])
    return table(["", *(audited.name for audited in audits), ""], rows)


def interval_cell(held: dict[str, Any] | None) -> str:
    """`.7234 [.6912, .7551]`."""
    if held is None or held["value"] is None:
        return DASH
    if held["low"] is None:
        return number(held["value"], 3)
    return f"{number(held['value'], 3)} [{number(held['low'], 3)}, {number(held['high'], 3)}]"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    body = [element("tr", element("th", first), *(element("td", c) for c in rest)) for first, *rest in rows]
    top = element("thead", element("tr", *(element("th", name) for name in head)))
    return element("div", element("table", top, element("tbody", *body)), class_="wide")


def plane_section(points: Sequence[Point], references: Sequence[Point], thresholds: dict[str, float]) -> Markup:
    """The plane, and who is who."""
    figure = element("figure", plane(points, thresholds, references), class_="large")
    listed = element("ol", *(element("li", point.name) for point in references), class_="numbered")
    called = [
        element(
            "span",
            element("span", class_="key", style=f"background: var(--c{model_colour(n)})"),
            f"{letter} {point.name}",
        )
        for n, (letter, point) in enumerate(zip(letters(points), points, strict=False))
    ]
    note = (
        "A gain says how far the embedding moves, relative to the same noise on as many random features. "
        "Bars: 95 % intervals over examples. Numbered: reference models, measured on their own data."
    )
    return join(
        [
            element("h3", "Where the models lie" if len(points) > 1 else "Where the model lies"),
            element("div", figure, class_="grid"),
            element("p", *called, class_="legend") if called else Markup(),
            element("p", note, class_="note"),
            listed if references else Markup(),
        ]
    )


def perturbation_section(audits: Sequence[Audited]) -> Markup:
    """Accuracy and shift as the perturbation grows, both sides."""
    drawn = [
        element("figure", strength_plot(audited, what, _title(audited, audits, title)))
        for audited in audits
        for what, title in (("accuracy", "accuracy"), ("shift", "embedding shift"))
    ]
    legend = element(
        "p",
        *(
            element("span", element("span", class_="key", style=f"background: var(--c{place})"), name)
            for place, name in ((0, "least useful features perturbed"), (1, "most useful features perturbed"))
        ),
        class_="legend",
    )
    title = element("h3", "Under perturbation of the least and the most useful features")
    note = element("p", "The unit of a shift is the typical distance of two examples' embeddings.", class_="note")
    return join([title, legend, note, element("div", *drawn, class_="grid")])


def strength_plot(audited: Audited, what: str, title: str) -> Markup:
    """Both sides over the strengths, with intervals."""
    rows = audited.facts["perturbation"]
    sides = {side: [(row["strength"], row[f"{side}_{what}"]) for row in rows] for side in ("near", "far")}
    known = [
        end
        for pairs in sides.values()
        for _, n in pairs
        for end in (n["value"], n["low"], n["high"])
        if end is not None
    ]
    x = scale_of([row["strength"] for row in rows], 46, WIDTH - 12)
    y = Scale(0, 1, 160, 26) if what == "accuracy" else scale_of([0.0, *known], 160, 26)
    unit = "fraction of tokens removed" if audited.facts["data"]["kind"] == "tokens" else "sigma"
    parts = frame(x, y, title, unit)
    for place, pairs in enumerate(sides.values()):
        points = [(at, n) for at, n in pairs if n["value"] is not None]
        parts.append(polyline([(x(at), y(n["value"])) for at, n in points], f"mean s{place}")) if points else None
        for at, n in points:
            if n["low"] is not None:
                parts.append(line(x(at), y(n["low"]), x(at), y(n["high"]), f"interval s{place}"))
            parts.append(box(x(at) - 3, y(n["value"]) - 3, 6, 6, f"{number(n['value'])}", rx=3, class_=f"f{place}"))
    return drawing(192, f"{title} of {audited.name} under perturbation", *parts)


def corruptions_section(audits: Sequence[Audited]) -> Markup:
    """Heat maps of accuracy and of calibration error; of two models their difference."""
    if not any(audited.facts["corruptions"] for audited in audits):
        return Markup()
    accuracy = [cells_of(audited, "accuracy") for audited in audits]
    drawn = [heat_map(_title(a, audits, "accuracy"), cells) for a, cells in zip(audits, accuracy, strict=True) if cells]
    if len(audits) == 2 and all(accuracy):
        one, other = accuracy
        gap = {name: {s: other[name][s] - v for s, v in row.items()} for name, row in one.items()}
        reach = max(abs(v) for row in gap.values() for v in row.values()) or 1.0
        drawn.append(heat_map("accuracy of the second − the first", gap, reach))  # noqa: RUF001
    drawn += [
        heat_map(_title(a, audits, "calibration error (low is good)"), cells_of(a, "calibration_error")) for a in audits
    ]
    return join(
        [
            element("h3", "Under corruptions"),
            element("div", *(element("figure", figure) for figure in drawn), class_="grid"),
        ]
    )


def _title(audited: Audited, audits: Sequence[Audited], what: str) -> str:
    """With the name of the model where there are two, as far as there is room."""
    if len(audits) == 1:
        return what
    room = _TITLE - len(what)
    name = audited.name if len(audited.name) <= room else f"…{audited.name[1 - room :]}"
    return f"{name}: {what}"


def cells_of(audited: Audited, what: str) -> dict[str, dict[int, float]]:
    found = audited.facts["corruptions"]
    return {name: {int(s): cell[what]["value"] or 0.0 for s, cell in row.items()} for name, row in found.items()}


def examples_section(audited: Audited) -> Markup:
    """The most telling examples, with a key of the colours."""
    keys = [
        element("span", element("span", class_="key", style=f"background: {colour(ramp, 0.7)}"), name)
        for name, ramp in (("utility", USEFUL), ("sensitivity", SENSITIVE))
    ]
    note = "Colours run from nothing to the largest value of that example."
    legend, told = element("p", *keys, class_="legend"), element("p", note, class_="note")
    return join([element("h3", "The most telling examples"), legend, told, examples(audited)])


def method_section(audited: Audited) -> Markup:
    """How it was measured, folded away."""
    facts = audited.facts
    probes, error = facts["estimator"]["probes"], facts["estimator"]["relative_error"]
    way = "exact" if probes is None else f"{probes} random probes, standard error {error:.0%} of each feature's value"
    shown = {"sensitivity": way, **{name: str(value) for name, value in facts["settings"].items()}}
    pairs = [part for name, value in shown.items() for part in (element("dt", name), element("dd", value))]
    return element("details", element("summary", "How it was measured"), element("dl", *pairs))


_SLICES = 24  # of one column that are drawn
_UNLIKELY = 0.2  # of a feature that is listed


def slices_section(audited: Audited) -> Markup:
    """Accuracy and rank correlation of each slice with intervals; the same numbers folded away."""
    held = audited.facts["slices"]
    columns = list(dict.fromkeys(entry["column"] for entry in held))
    drawn = []
    for column in columns:
        entries = [entry for entry in held if entry["column"] == column]
        drawn += [slice_plot(column, entries, what) for what in ("accuracy", "rank_correlation", "far_gain")]
    names = list(held[0]["numbers"]) if held else []
    rows = [
        [f"{e['column']} {e['value']}", str(e["examples"]), *(interval_cell(e["numbers"].get(n)) for n in names)]
        for e in held
    ]
    numbers_ = element(
        "details",
        element("summary", "The same as a table"),
        table(["slice", "examples", *(name.replace("_", " ") for name in names)], rows),
    )
    figures = element("div", *(element("figure", figure) for figure in drawn), class_="grid")
    return join([element("h3", "Per class and slice"), figures, numbers_])


def slice_plot(column: str, entries: Sequence[dict[str, Any]], what: str) -> Markup:
    """A dot with its interval for each value; of many the lowest ones."""
    known = [entry for entry in entries if entry["numbers"][what]["value"] is not None]
    known = sorted(known, key=lambda entry: float(entry["numbers"][what]["value"]))[:_SLICES]
    ends = [end for e in known for end in (e["numbers"][what]["low"], e["numbers"][what]["high"]) if end is not None]
    x = Scale(0, 1, 128, WIDTH - 12) if what == "accuracy" else scale_of([0.0, *ends], 128, WIDTH - 12)
    bottom = 26 + 15 * len(known)
    parts = [heading(12, f"{what.replace('_', ' ')} by {column}")]
    for place, entry in enumerate(known):
        held, y = entry["numbers"][what], 32 + 15 * place
        parts.append(words(122, y + 3.5, f"{str(entry['value'])[:14]} ({entry['examples']})", "small", "end"))
        if held["low"] is not None:
            parts.append(line(x(held["low"]), y, x(held["high"]), y, "interval s3"))
        parts.append(box(x(held["value"]) - 3.5, y - 3.5, 7, 7, number(held["value"]), rx=3.5, class_="f3"))
    parts.append(line(128, bottom, WIDTH - 12, bottom, "axis"))
    parts += [words(x(tick), bottom + 14, f"{tick:g}", "small", "middle") for tick in x.ticks(4)]
    return drawing(bottom + 20, f"{what} by {column}", *parts)


def errors_section(audited: Audited) -> Markup:
    """Features that go with the errors, and classes that are taken for another."""
    facts = audited.facts
    names = facts["data"]["class_names"]
    held = [e for e in facts["leftover"] if e["p"] < _UNLIKELY]
    rows = [
        [e["name"], e["kind"], _called(e["label"], names), f"{e['gain']:.0%}", _use(e), _change(e), probability(e["p"])]
        for e in held
    ]
    taken = [
        f"{e['count']} of {e['of']} examples of {_called(e['label'], names)} are taken for "
        f"{_called(e['taken_for'], names)}"
        for e in facts["confusions"]
    ]
    if not rows and not taken:
        return Markup()
    head = ["feature", "it is", "with errors in class", "loss to be had by it", "its use now", "loss without it", "p"]
    note = (
        "Features that go with the errors; those with p < .01 and 5 % of the loss count, and the model was run without "
        "these. Use: how far the model goes with the feature by itself, relative to what the labels ask for on top: 0 "
        "is not at all, below 0 the wrong way."
    )
    return join(
        [
            element("h3", "What the errors go with"),
            element("ul", *(element("li", line_) for line_ in taken)) if taken else Markup(),
            join([table(head, rows), element("p", note, class_="note")]) if rows else Markup(),
        ]
    )


def _use(entry: dict[str, Any]) -> str:
    return DASH if entry.get("use") is None else number(entry["use"], 2, True)


def _change(entry: dict[str, Any]) -> str:
    return DASH if entry.get("without") is None else f"{-entry['without']:+.0%}"


def _called(label: int | None, names: Sequence[str]) -> str:
    if label is None:
        return "all"
    return names[label] if label < len(names) else str(label)


SOURCE = "audit.json and telling.npz"


def audit_page(folder: Path, beside: Sequence[Path] = ()) -> str:
    """One model; `beside` are folders of other audits, which are shown in the plane."""
    audited = load_audit(folder)
    title = f"Audit of {audited.name}"
    return document(
        title,
        element("h1", title),
        facts_line(audited.facts),
        verdict(audited.facts),
        plane_section(_points([audited], beside), references(), audited.facts["thresholds"]),
        element("h3", "Numbers, with 95 % intervals over examples"),
        numbers_table([audited]),
        *_parts(audited),
        source=SOURCE,
    )


def comparison_page(folder: Path, beside: Sequence[Path] = ()) -> str:
    """Two models: comparison.json and a folder for each."""
    facts = read_json(folder / "comparison.json", "comparison")
    audits = [load_audit(folder / name) for name in facts["folders"]]
    title = " and ".join(audited.name for audited in audits)
    parts = [element("h1", f"Audit of {title}"), facts_line(audits[0].facts)]
    for audited in audits:
        parts.append(join([element("h4", audited.name), verdict(audited.facts)]))
    parts += [
        plane_section(_points(audits, beside), references(), audits[0].facts["thresholds"]),
        _differences(facts, audits),
        element("h3", "Numbers, with 95 % intervals over examples"),
        numbers_table(audits),
        perturbation_section(audits),
        corruptions_section(audits),
    ]
    for audited in audits:
        sections = (errors_section, slices_section, examples_section, method_section)
        parts += [element("h2", audited.name), *(section(audited) for section in sections)]
    return document(title, *parts, source="comparison.json and the two audits beside it")


def _parts(audited: Audited) -> list[Markup]:
    return [
        perturbation_section([audited]),
        corruptions_section([audited]),
        errors_section(audited),
        slices_section(audited),
        examples_section(audited),
        method_section(audited),
    ]


def _points(audits: Sequence[Audited], beside: Sequence[Path]) -> list[Point]:
    found = [point_of(audited.facts) for audited in audits]
    found += [point_of(load_audit(folder).facts) for folder in beside]
    return [point for point in found if point is not None]


def _differences(facts: dict[str, Any], audits: Sequence[Audited]) -> Markup:
    """B minus A on the same examples, with paired tests."""
    rows = []
    for name, gap in facts["differences"].items():
        span = DASH if gap["low"] is None else f"[{number(gap['low'], 3, True)}, {number(gap['high'], 3, True)}]"
        told = element("strong", number(gap["mean"], 3, True)) if gap["significant"] else number(gap["mean"], 3, True)
        rows.append([name.replace("_", " "), told, span, probability(gap["holm"]) or DASH])
    note = f"Paired t tests over the {facts['examples']} examples, Holm's correction over the rows; bold: p < .05."
    head = ["", f"{audits[1].name} − {audits[0].name}", "95 % interval", "p"]  # noqa: RUF001
    return join([element("h3", "Differences"), table(head, rows), element("p", note, class_="note")])
