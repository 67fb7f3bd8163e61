"""Parts of a page about an audit that look into it: slices, and what the errors go with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from poise.reporting.audit_sections import interval_cell, table
from poise.reporting.audits import Audited
from poise.reporting.markup import Markup, element, join
from poise.reporting.numbers import DASH, number, probability
from poise.reporting.svg import WIDTH, Scale, box, drawing, heading, line, scale_of, words

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
