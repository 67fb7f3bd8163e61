"""Comparison of two models on the same examples, and conditions that fail a build.

difference   d_i = b_i - a_i over examples i, 95 % interval, Holm's correction over the numbers compared; for answers
             that are right or wrong McNemar's exact test and the interval of paired shares, else Student's t
condition    name[.low|.high] < number, also <=, >, >=: the value, or an end of its 95 % interval
             verdict = breaks: the verdict has this name; also relies, misses, "no weakness found", mismatch, undecided
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from poise.auditing.estimates.numbers import Measurements, not_measured, paired_drop, paired_values, sign_test
from poise.auditing.result import PAGE, Audit, summary, write_audit
from poise.auditing.verdict import NAMES
from poise.corruptions.corrupt import Making
from poise.io.documents import write_json, write_whole
from poise.io.files import new_files

if TYPE_CHECKING:
    from poise.reporting.statistics import Difference

VERSION = 1
_SHOWN = 4  # numbers in the sentence


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two audits of the same examples; `print` shows both and their differences."""

    one: Audit
    other: Audit
    differences: dict[str, dict[str, Any]]

    def __str__(self) -> str:
        lines = [self.sentence, "", summary(self.one.facts), "", summary(self.other.facts), ""]
        lines.append("the second minus the first")
        for name, gap in self.differences.items():
            span = "" if gap["low"] is None else f"   {gap['low']:+.3f} to {gap['high']:+.3f}"
            test = "" if gap["holm"] is None else f"   {_probability(gap['holm'])}{' *' if gap['significant'] else ''}"
            lines.append(f"{name.replace('_', ' '):30}{gap['mean']:+8.3f}{span}{test}")
        return "\n".join(lines)

    @property
    def sentence(self) -> str:
        """Which model is better at what."""
        names = [str(audit.facts["model"]["name"]) for audit in (self.one, self.other)]
        return compared(self.differences, names)

    @property
    def facts(self) -> dict[str, Any]:
        """The content of comparison.json."""
        return {
            "version": VERSION,
            "kind": "comparison",
            "folders": ["1", "2"],
            "examples": len(self.one.table.label),
            "sentence": self.sentence,
            "models": [self.one.facts["model"]["name"], self.other.facts["model"]["name"]],
            "differences": self.differences,
        }

    def save(self, folder: Path | str, beside: tuple[Path, ...] = ()) -> Path:
        """Write comparison.json, both audits in the folders 1 and 2, and the page; return the path of the page."""
        from poise.reporting.audit_page import comparison_page

        home = Path(folder)
        with new_files(home, PAGE) as stage:
            for name, audit in (("1", self.one), ("2", self.other)):
                write_audit(audit, stage / name)
            write_json(stage / "comparison.json", self.facts)
            write_whole(stage / PAGE, comparison_page(stage, beside))
        return home / PAGE


def compare(one: Audit, other: Audit) -> Comparison:
    """Compare two audits, the second minus the first; raise ValueError if they used different examples.

    If one audit was interrupted, only the examples of both are compared.
    """
    count = min(len(one.table.label), len(other.table.label))
    if not np.array_equal(one.table.label[:count], other.table.label[:count]):
        raise ValueError("the two audits used different examples: run both with the same data and seed")
    from poise.reporting.directions import better

    found = {}
    tables = [audit.table.first(count) for audit in (one, other)]
    for name, gap in _differences(tables, (one, other)).items():
        found[name] = {
            "mean": gap.mean,
            "better": better(name),
            "low": gap.low,
            "high": gap.high,
            "p": gap.p,
            "holm": gap.holm,
            "significant": gap.significant,
            "examples": gap.seeds,
        }
    return Comparison(one, other, found)


def _differences(tables: Sequence[Measurements], audits: Sequence[Audit]) -> dict[str, Difference]:
    """The second minus the first: measurements, and the radii at which answers turn."""
    entries = [audit.facts.get("worst_case", []) for audit in audits]
    if not all(entries):
        return paired_differences(tables[0], tables[1], audits[0].making, audits[0].middle)
    from poise.auditing.worst_case import paired_radii

    one, other = (paired_radii(each, len(table.label)) for each, table in zip(entries, tables, strict=True))
    return paired_differences(tables[0], tables[1], audits[0].making, audits[0].middle, (one, other))


def compared(found: Mapping[str, Mapping[str, Any]], models: Sequence[str]) -> str:
    """Such as "B is better in accuracy under fog (+34 points [+30, +38]) and worse in accuracy (...) than A"."""
    from poise.reporting.directions import phrase

    sides: dict[int, list[str]] = {1: [], -1: []}
    ranked = sorted(found.items(), key=lambda each: -abs(each[1]["mean"]))
    for name, gap in ranked:
        if gap["significant"] and gap["better"]:
            sides[1 if gap["mean"] * gap["better"] > 0 else -1].append(f"{phrase(name)} {_span(name, gap)}")
    first, second = models
    count = next(iter(found.values()))["examples"] if found else 0
    if not any(sides.values()):
        return f"{second} and {first} do not differ significantly in any accuracy ({count} examples)."
    said = [f"{word} in {_listed(sides[sign])}" for sign, word in ((1, "better"), (-1, "worse")) if sides[sign]]
    return f"{second} is {' and '.join(said)} than {first} ({count} examples, corrected for all numbers compared)."


def _span(name: str, gap: Mapping[str, Any]) -> str:
    factor, unit = (100, " points") if name.endswith(("accuracy", "accuracy_drop")) else (1, "")
    digits = 0 if factor == 100 else 2
    ends = "" if gap["low"] is None else f" [{factor * gap['low']:+.{digits}f}, {factor * gap['high']:+.{digits}f}]"
    return f"({factor * gap['mean']:+.{digits}f}{unit}{ends})"


def _listed(parts: Sequence[str]) -> str:
    shown = list(parts[:_SHOWN])
    more = f" and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return ", ".join(shown) + more


def paired_differences(
    one: Measurements,
    other: Measurements,
    making: Making | None,
    middle: int,
    more: tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]] = ({}, {}),
) -> dict[str, Difference]:
    """The second minus the first, example by example, for each number that is a mean, and for more values of each."""
    from poise.reporting.statistics import holm_corrected

    left, right = ({**paired_values(t, making, middle), **each} for t, each in zip((one, other), more, strict=True))
    names = [name for name in left if name in right]
    gaps = holm_corrected([_difference(left[name], right[name]) for name in names])
    return {name: gap for name, gap in zip(names, gaps, strict=True) if gap is not None}


def _difference(before: np.ndarray, after: np.ndarray) -> Difference | None:
    """Answers by McNemar's exact test and the interval of paired shares; everything else by Student's t."""
    from poise.reporting.statistics import Difference, paired

    if not (_is_binary(before) and _is_binary(after)):
        return paired(_by_example(after), _by_example(before))
    drop = paired_drop(before, after)
    lost, won = int((before > after).sum()), int((before < after).sum())
    p = min(1.0, 2 * sign_test(max(lost, won), lost + won))
    return Difference(-drop.value, drop.examples, -drop.high, -drop.low, p)


def _is_binary(values: np.ndarray) -> bool:
    return bool(len(values) and np.isin(values, (0, 1)).all())


def _probability(p: float) -> str:
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.4f}"


def _by_example(values: np.ndarray) -> dict[int, float]:
    return {place: float(value) for place, value in enumerate(values) if np.isfinite(value)}


_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FORM = re.compile(r"\s*(\w+)(?:\.(low|high))?\s*(<=|>=|<|>)\s*([-+.\deE]+)\s*")
_VERDICT = re.compile(r"\s*verdict\s*==?\s*(.+?)\s*")


@dataclass(frozen=True)
class Condition:
    """A condition that fails the build if it holds."""

    text: str
    name: str
    end: str = "value"
    comparison: str = ""
    bound: float = 0.0
    verdict: str = ""

    def holds(self, facts: Mapping[str, Any]) -> bool:
        """Whether the audit meets the condition; raise ValueError for a number that was not measured."""
        if self.verdict:
            return self.verdict in facts["verdict"]["names"]
        if self.name not in facts["numbers"]:
            raise ValueError(not_measured(self.name, facts["numbers"]))
        held = facts["numbers"][self.name][self.end]
        if held is None:
            raise ValueError(f"{self.name!r} is unknown: there are too few examples")
        return _OPERATORS[self.comparison](float(held), self.bound)


def require_measured(conditions: Sequence[Condition], names: Sequence[str]) -> None:
    """Raise ValueError for a number that the audit will not measure."""
    for each in conditions:
        if not each.verdict and each.name not in names:
            close = get_close_matches(each.name, names, 1)
            hint = f"did you mean {close[0]}?" if close else f"choose one of {', '.join(names)}"
            raise ValueError(f"--fail-if {each.text!r}: {each.name} will not be measured; {hint}")


def read_condition(text: str) -> Condition:
    """Parse a condition; raise ValueError if it is invalid."""
    if found := _VERDICT.fullmatch(text):
        if found[1] not in NAMES:
            raise ValueError(f"{text!r}: the verdict must be one of {', '.join(NAMES)}")
        return Condition(text, "verdict", verdict=found[1])
    invalid = ValueError(f"invalid condition {text!r}: write it as noise_accuracy<0.6, or verdict=breaks")
    found = _FORM.fullmatch(text)
    if found is None:
        raise invalid
    try:
        return Condition(text, found[1], found[2] or "value", found[3], float(found[4]))
    except ValueError:
        raise invalid from None
