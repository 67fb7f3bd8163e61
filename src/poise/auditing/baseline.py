"""Comparison with an earlier audit: the numbers that became significantly worse.

    paired     d_i = b_i - a_i over examples i, paired t, if examples.csv beside the baseline has the same examples
    unpaired   d = b - a with the ends of both intervals (Newcombe), from audit.json alone:
               low  = d - sqrt((b - b.low)^2 + (a.high - a)^2),  high = d + sqrt((b.high - b)^2 + (a - a.low)^2)

Both have Holm's correction over all numbers that have a better direction. Numbers that were measured with other
settings are not compared.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from poise.auditing.estimates.numbers import paired_values
from poise.auditing.result import Audit
from poise.errors import AuditError, RecordError
from poise.io.documents import read_json, require
from poise.reporting.directions import better

_SAME = ("utility", "strengths", "select", "corruptions", "severities", "profile")
_UNPERTURBED = ("accuracy", "calibration_error")
_Z = 1.959964


@dataclass(frozen=True)
class Baseline:
    """An earlier audit. `rows` holds examples.csv, one dict per example; empty without the file."""

    path: Path
    facts: dict[str, Any]
    rows: list[dict[str, str]]


@dataclass(frozen=True)
class Worsening:
    """A number that is significantly worse than in the baseline, by `change` with its 95 % interval."""

    name: str
    before: float
    after: float
    change: tuple[float, float, float]
    p: float
    paired: bool

    def __str__(self) -> str:
        """`near accuracy fell from 0.910 to 0.570 (by 0.340 [0.250, 0.430], p < 0.0001, on the same examples)`."""
        went = "fell" if self.after < self.before else "rose"
        low, high = sorted(map(abs, self.change[1:]))
        p = "p < 0.0001" if self.p < 0.0001 else f"p = {self.p:.4f}"
        how = "on the same examples" if self.paired else "from the two intervals"
        span = f"by {abs(self.change[0]):.3f} [{low:.3f}, {high:.3f}], {p}, {how}"
        return f"{self.name.replace('_', ' ')} {went} from {self.before:.3f} to {self.after:.3f} ({span})"


def read_baseline(path: Path) -> Baseline:
    """Read the audit.json of an earlier audit, or the one in its folder; AuditError if it is missing or damaged."""
    path = path / "audit.json" if path.is_dir() else path
    try:
        facts = read_json(path, "audit")
        require(path, facts, "audit", model=dict, data=dict, numbers=dict, settings=dict)
    except (OSError, RecordError) as error:
        raise AuditError(f"--baseline {path}: {getattr(error, 'strerror', None) or error}") from None
    beside = path.with_name("examples.csv")
    rows = list(csv.DictReader(beside.read_text(encoding="utf-8").splitlines())) if beside.is_file() else []
    return Baseline(path, facts, rows)


def worsened(audit: Audit, baseline: Baseline) -> list[Worsening]:
    """The numbers that are significantly worse; AuditError if the audits have nothing in common."""
    from poise.reporting.statistics import LEVEL, holm

    _require_same_data(audit.facts, baseline)
    mine = paired_values(audit.table, audit.making, audit.middle)
    names = [name for name in (*mine, "calibration_error", "corrupted_calibration_error") if better(name)]
    names = [name for name in names if _known(name, audit.facts, baseline.facts)]
    names = [name for name in names if _same_settings(audit.facts, baseline.facts) or name in _UNPERTURBED]
    if not names:
        raise AuditError(f"--baseline {baseline.path}: it has no number that this audit measured in the same way")
    theirs = _by_example(baseline, audit)
    found = [_change(name, audit.facts, baseline.facts, mine, theirs) for name in names]
    corrected = holm([each.p for each in found])
    return [
        Worsening(each.name, each.before, each.after, each.change, p, each.paired)
        for each, p in zip(found, corrected, strict=True)
        if p is not None and p < LEVEL and each.change[0] * better(each.name) < 0
    ]


def _require_same_data(facts: Mapping[str, Any], baseline: Baseline) -> None:
    now, before = facts["data"]["name"], baseline.facts["data"].get("name")
    if now != before:
        raise AuditError(f"--baseline {baseline.path}: it is an audit on {before}, not on {now}")


def _known(name: str, *several: Mapping[str, Any]) -> bool:
    held = [facts["numbers"].get(name) or {} for facts in several]
    return all(isinstance(number.get(end), float | int) for number in held for end in ("value", "low", "high"))


def _same_settings(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one["settings"].get(name) == other["settings"].get(name) for name in _SAME)


def _by_example(baseline: Baseline, audit: Audit) -> dict[str, np.ndarray]:
    """The columns of examples.csv that are numbers, if it has the same examples as the audit; else nothing."""
    rows, sources = baseline.rows, audit.sources or [""] * len(audit.table.label)
    here = [(str(label), source) for label, source in zip(audit.table.label, sources, strict=True)]
    if [(row.get("label"), row.get("source")) for row in rows] != here:
        return {}
    return {name: np.array([float(row[name] or "nan") for row in rows]) for name in rows[0] if better(name)}


def _change(
    name: str,
    facts: Mapping[str, Any],
    before: Mapping[str, Any],
    mine: Mapping[str, np.ndarray],
    theirs: Mapping[str, np.ndarray],
) -> Worsening:
    """The change of a number and its p, without correction."""
    from poise.reporting.statistics import paired

    a, b = (held["numbers"][name] for held in (before, facts))
    if name in mine and name in theirs:
        gap = paired(dict(enumerate(map(float, mine[name]))), dict(enumerate(map(float, theirs[name]))))
        if gap is not None and gap.p is not None:
            low, high = (gap.mean, gap.mean) if gap.low is None or gap.high is None else (gap.low, gap.high)
            return Worsening(name, a["value"], b["value"], (gap.mean, low, high), gap.p, True)
    change = b["value"] - a["value"]
    low = change - math.hypot(b["value"] - b["low"], a["high"] - a["value"])
    high = change + math.hypot(b["high"] - b["value"], a["value"] - a["low"])
    reach = (high - change if change < 0 else change - low) / _Z
    p = math.erfc(abs(change) / reach / math.sqrt(2)) if reach > 0 else float(change == 0)
    return Worsening(name, a["value"], b["value"], (change, low, high), p, False)
