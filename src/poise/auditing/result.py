"""The result of an audit: facts for JSON, a table of examples, and the most telling ones; written whole.

audit.json     all numbers and the verdict (docs/audit.md has the schema)
examples.csv   one row per example
telling.npz    pictures, utility and sensitivity of the most telling examples
index.html     the page, made from audit.json and telling.npz alone
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from poise.auditing.statistics.numbers import Table, not_measured
from poise.corruptions.write import Making
from poise.io.files import new_file, together
from poise.io.json_files import write_json, write_whole

PAGE = "index.html"


@dataclass(frozen=True, eq=False)
class Audit:
    """What was found out about one model; `print` shows it, `save` writes it.

    facts    everything for JSON.
    table    one row per example.
    arrays   {"x_0", "u_0", "s_0", ...}: the telling examples that facts["telling"] names.
    sources  the file or the row of each example; "" where that is not known.
    """

    facts: dict[str, Any]
    table: Table = field(repr=False)
    making: Making | None = field(repr=False)
    columns: dict[str, list[str]] = field(repr=False)
    arrays: dict[str, np.ndarray] = field(repr=False)
    sources: list[str] = field(repr=False, default_factory=list)

    @property
    def verdict(self) -> str:
        """One plain sentence."""
        return str(self.facts["verdict"]["sentence"])

    @property
    def names(self) -> tuple[str, ...]:
        """What the model is called: "over-robust", "brittle", "follows utility" or "undecided"."""
        return tuple(self.facts["verdict"]["names"])

    @property
    def middle(self) -> int:
        return int(self.facts["middle"])

    def __getitem__(self, name: str) -> float:
        """A number by its name, such as audit["noise_accuracy"]; nan where it is not known.

        KeyError where it was not measured, such as those of corruptions that were left out.
        """
        if name not in self.facts["numbers"]:
            raise KeyError(not_measured(name, self.facts["numbers"]))
        value = self.facts["numbers"][name]["value"]
        return float("nan") if value is None else float(value)

    def __str__(self) -> str:
        return summary(self.facts)

    def save(self, folder: Path | str, beside: tuple[Path, ...] = ()) -> Path:
        """Write the four files, all or none; returns the page's path. `beside` are folders of audits for the plane."""
        from poise.reporting.audit_page import audit_page

        home = Path(folder)
        with together(home, PAGE) as stage:
            write_audit(self, stage)
            write_whole(stage / PAGE, audit_page(stage, beside))
        return home / PAGE


def write_audit(audit: Audit, home: Path) -> None:
    """All but the page."""
    home.mkdir(parents=True, exist_ok=True)
    write_whole(home / "examples.csv", _csv(audit))
    with new_file(home / "telling.npz") as stream:
        np.savez_compressed(stream, **audit.arrays)  # type: ignore[arg-type]
    write_json(home / "audit.json", audit.facts)


def summary(facts: dict[str, Any]) -> str:
    """The verdict and the numbers, for a terminal."""
    model, data = facts["model"], facts["data"]
    part = "" if facts["complete"] else " (interrupted)"
    lines = [f"{model['name']} on {data['name']}, {facts['examples']} examples{part}", facts["verdict"]["sentence"], ""]
    lines.append(f"{'':30}{'value':>8}   95 % interval")
    for name, number in facts["numbers"].items():
        lines.append(f"{name.replace('_', ' '):30}{_cell(number['value']):>8}   {_span(number)}")
    lines += ["", *(f"note: {note}" for note in facts["notes"])] if facts["notes"] else []
    return "\n".join(lines)


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _span(number: dict[str, Any]) -> str:
    return "" if number["low"] is None else f"{number['low']:.3f} to {number['high']:.3f}"


def _csv(audit: Audit) -> str:
    """One row per example; gains at the middle strength."""
    table, middle = audit.table, audit.middle
    columns: dict[str, Any] = {
        "example": np.arange(len(table.label)),
        "source": audit.sources or [""] * len(table.label),
        "label": table.label,
        "predicted": table.predicted,
        "confidence": table.confidence,
        "observed_rank_correlation": table.rank_correlation,
        "top_overlap": table.top_overlap,
        "near_gain": table.gain("near", middle),
        "far_gain": table.gain("far", middle),
    }
    columns |= {f"data.{name}" if name in columns else name: values for name, values in audit.columns.items()}
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(_plain(values) for values in columns.values()), strict=True))
    return stream.getvalue()


def _plain(values: Any) -> list[Any]:
    """Numbers with six digits, words as they are."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return [f"{value:.6g}" for value in values]
    return list(values)
