"""Conditions for CI: `noise_accuracy<0.6` fails a build.

name[.low|.high] < number      also <=, >, >=; the value, or an end of its 95 % interval
verdict = brittle              the verdict has this name; also over-robust, "follows utility", undecided
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from poise.auditing.statistics.numbers import not_measured
from poise.auditing.verdict import BRITTLE, FOLLOWS, OVER_ROBUST, UNDECIDED

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
        names = (OVER_ROBUST, BRITTLE, FOLLOWS, UNDECIDED)
        if found[1] not in names:
            raise ValueError(f"{text!r}: the verdict must be one of {', '.join(names)}")
        return Condition(text, "verdict", verdict=found[1])
    invalid = ValueError(f"invalid condition {text!r}: write it as noise_accuracy<0.6, or verdict=brittle")
    found = _FORM.fullmatch(text)
    if found is None:
        raise invalid
    try:
        return Condition(text, found[1], found[2] or "value", found[3], float(found[4]))
    except ValueError:
        raise invalid from None
