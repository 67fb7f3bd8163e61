"""A page about an audit, or about two models side by side: a pure function of the files in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from poise.reporting.audit_details import errors_section, slices_section
from poise.reporting.audit_sections import (
    corruptions_section,
    examples_section,
    facts_line,
    method_section,
    numbers_table,
    perturbation_section,
    plane_section,
    table,
    verdict,
)
from poise.reporting.audits import Audited, Point, load_audit, point_of, references
from poise.reporting.document import document
from poise.reporting.files import read_json
from poise.reporting.markup import Markup, element, join
from poise.reporting.numbers import DASH, number, probability

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
