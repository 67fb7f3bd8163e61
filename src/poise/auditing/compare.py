"""Comparison of two models on the same examples: differences with paired tests.

d_i = b_i - a_i over examples i, paired t, 95 % interval, Holm's correction over the numbers that are compared
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from poise.auditing.result import PAGE, Audit, summary, write_audit
from poise.auditing.statistics.numbers import values_of
from poise.io.files import together
from poise.io.json_files import write_json, write_whole

VERSION = 1


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two audits of the same examples; `print` shows both and their differences."""

    one: Audit
    other: Audit
    differences: dict[str, dict[str, Any]]

    def __str__(self) -> str:
        lines = [summary(self.one.facts), "", summary(self.other.facts), "", "the second minus the first"]
        for name, gap in self.differences.items():
            span = "" if gap["low"] is None else f"   {gap['low']:+.3f} to {gap['high']:+.3f}"
            test = "" if gap["holm"] is None else f"   {_probability(gap['holm'])}{' *' if gap['significant'] else ''}"
            lines.append(f"{name.replace('_', ' '):30}{gap['mean']:+8.3f}{span}{test}")
        return "\n".join(lines)

    @property
    def facts(self) -> dict[str, Any]:
        """The content of comparison.json."""
        return {
            "version": VERSION,
            "kind": "comparison",
            "folders": ["1", "2"],
            "examples": len(self.one.table.label),
            "models": [self.one.facts["model"]["name"], self.other.facts["model"]["name"]],
            "differences": self.differences,
        }

    def save(self, folder: Path | str, beside: tuple[Path, ...] = ()) -> Path:
        """Write comparison.json, both audits in the folders 1 and 2, and the page; return the path of the page."""
        from poise.reporting.audit_page import comparison_page

        home = Path(folder)
        with together(home, PAGE) as stage:
            for name, audit in (("1", self.one), ("2", self.other)):
                write_audit(audit, stage / name)
            write_json(stage / "comparison.json", self.facts)
            write_whole(stage / PAGE, comparison_page(stage, beside))
        return home / PAGE


def compare(one: Audit, other: Audit) -> Comparison:
    """Compare two audits, the second minus the first; raise ValueError if they used different examples.

    If one audit was interrupted, only the examples of both are compared.
    """
    from poise.reporting.statistics import corrected, paired

    count = min(len(one.table.label), len(other.table.label))
    if not np.array_equal(one.table.label[:count], other.table.label[:count]):
        raise ValueError("the two audits used different examples: run both with the same data and seed")
    left, right = (values_of(audit.table, audit.making, audit.middle) for audit in (one, other))
    names = [name for name in left if name in right]
    gaps = [paired(_by_example(right[name][:count]), _by_example(left[name][:count])) for name in names]
    found = {}
    for name, gap in zip(names, corrected(gaps), strict=True):
        if gap is not None:
            found[name] = {
                "mean": gap.mean,
                "low": gap.low,
                "high": gap.high,
                "p": gap.p,
                "holm": gap.holm,
                "significant": gap.significant,
                "examples": gap.seeds,
            }
    return Comparison(one, other, found)


def _probability(p: float) -> str:
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.4f}"


def _by_example(values: np.ndarray) -> dict[int, float]:
    return {place: float(value) for place, value in enumerate(values) if np.isfinite(value)}
