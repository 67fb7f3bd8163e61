"""The scores of a classifier under corruptions, and their averages.

Groups hold the standard corruptions only. "All" is named by its size: over the 15 standard ones, or over the 19.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from poise.choices import require_known, require_several
from poise.protocols import CORRUPTIONS, GROUPS, STANDARD


@dataclass(frozen=True)
class Robustness:
    """Accuracies in [0, 1]: of clean images, and per corruption and severity; `print` shows the table.

    source  where the corrupted images came from.
    """

    data: str
    examples: int
    source: str
    clean: float
    accuracy: dict[str, dict[int, float]]

    def of(self, name: str) -> float:
        """The mean over the severities of a corruption."""
        require_known("corruption among those measured", name, self.accuracy)
        return fmean(self.accuracy[name].values())

    def mean(self, names: Iterable[str]) -> float | None:
        """The mean over corruptions; None unless all of them were measured."""
        require_several("names", names)
        names = tuple(names)
        if not names:
            raise ValueError("names must hold at least one corruption")
        for name in names:
            require_known("corruption", name, CORRUPTIONS)
        return fmean(self.of(name) for name in names) if all(name in self.accuracy for name in names) else None

    def averages(self) -> dict[str, float]:
        """The four groups, the 15 and the 19, as far as they were measured."""
        named = {**GROUPS, "all 15": STANDARD, "all 19": CORRUPTIONS}
        means = {name: self.mean(members) for name, members in named.items()}
        return {name: value for name, value in means.items() if value is not None}

    def as_dict(self) -> dict[str, Any]:
        """For JSON: what was measured, and the averages."""
        return {
            "data": self.data,
            "examples": self.examples,
            "source": self.source,
            "clean": self.clean,
            "accuracy": {name: {str(s): value for s, value in row.items()} for name, row in self.accuracy.items()},
            "averages": self.averages(),
        }

    def __str__(self) -> str:
        severities = sorted({severity for row in self.accuracy.values() for severity in row})
        head = f"{'':<18}" + "".join(f"{severity:>8}" for severity in severities) + f"{'mean':>8}"
        lines = [f"{self.data}, {self.examples} images, {self.source}", f"{'clean':<18}{self.clean:8.4f}", head]
        for name, row in self.accuracy.items():
            cells = "".join(f"{row[severity]:8.4f}" if severity in row else f"{'':8}" for severity in severities)
            lines.append(f"{name:<18}{cells}{self.of(name):8.4f}")
        lines += [f"{name:<18}{'':{8 * len(severities)}}{value:8.4f}" for name, value in self.averages().items()]
        return "\n".join(lines)
