"""The parts of a page about an audit: verdict, numbers, plane, perturbation, corruptions, examples, method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from poise.reporting.audit_examples import SENSITIVE, USEFUL, examples
from poise.reporting.audits import Audited, Point
from poise.reporting.colours import colour
from poise.reporting.markup import Markup, element, join
from poise.reporting.numbers import DASH, number
from poise.reporting.plane import letters, model_colour, plane
from poise.reporting.plots import heat_map
from poise.reporting.svg import WIDTH, Scale, box, drawing, frame, line, polyline, scale_of

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
