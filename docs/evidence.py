"""What the records of results/ say: the numbers behind docs/claims.md and the pages, computed when they are asked for.

A comparison uses the paper's full length if both methods have FULL_SEEDS common seeds there, else the compressed runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean

from poise.records.columns import Column, seen_and_unseen
from poise.records.schema import EXPERIMENT, Results, load_results
from poise.reporting.figures.frontier import frontiers
from poise.reporting.statistics import Difference, paired, summarize, welch
from poise.reporting.tables import Seeds, scores_by_seed

RESULTS = Path(__file__).parents[1] / "results"
FULL_SEEDS = 3
COMPRESSED = "-compressed"
READINGS = ("", "-bilinear", "-nearest")  # of synthetic MNIST's corner digit
NOISE, RARE = Column("noise", ("validation+UN", "validation+NUN")), "BAL, 10-14"
LOOK = Column("rare", ("validation",), tuple(range(10, 15)))


@dataclass(frozen=True)
class Effect:
    """A difference with what it was measured on."""

    gap: Difference
    epochs: str

    @property
    def is_compressed(self) -> bool:
        return " of " in self.epochs


class Evidence:
    """The experiments of a folder of records, by name."""

    def __init__(self, folder: Path = RESULTS) -> None:
        self.folder = folder

    @cached_property
    def held(self) -> dict[str, Results]:
        homes = [path for path in sorted(self.folder.iterdir()) if (path / EXPERIMENT).exists()]
        return {home.name: load_results(home)[0] for home in homes}

    def column(self, name: str, column: str) -> Column:
        """A column of the main table, of a detail, or the unseen corruptions; else the score of that name."""
        experiment = self.held[name].experiment
        known = [*experiment.columns, *(each for columns in experiment.details.values() for each in columns)]
        scores = dict.fromkeys(score for record in self.held[name].records for score in record.scores)
        for overlap in self.overlaps:
            known += seen_and_unseen(overlap, scores)
        return next((each for each in known if each.name == column), Column(column, (column,)))

    @cached_property
    def overlaps(self) -> list[tuple[str, ...]]:
        """The corruptions that training noise resembles, as any of the tables has them."""
        return list(dict.fromkeys(each for held in self.held.values() for each in held.experiment.overlaps.values()))

    def values(self, name: str, method: str, column: str) -> Seeds:
        return scores_by_seed(self.held[name], method, self.column(name, column)) if name in self.held else {}

    def longest(self, name: str, *methods: str, seeds: int = FULL_SEEDS) -> str:
        """The name of the full-length experiment if the methods have enough common seeds there, else of the other."""
        runs = self.held[name].runs if name in self.held else {}
        common = set.intersection(*(set(runs.get(method, ())) for method in methods))
        return name if len(common) >= seeds or f"{name}{COMPRESSED}" not in self.held else f"{name}{COMPRESSED}"

    def epochs(self, name: str) -> str:
        """`20`, or `45 of 450` where the recipe's length was cut."""
        own = len(self.held[name].records[0].log)
        return f"{own} of {self._full(name)}" if name.endswith(COMPRESSED) else f"{own}"

    def _full(self, name: str) -> str:
        """The recipe's own length, from the title of a compressed table: `compressed to 45 of 450 epochs`."""
        return self.held[name].experiment.title.partition(" of ")[2].split()[0]

    def effect(self, name: str, column: str, one: str, other: str) -> Effect | None:
        """One method minus another; None without records."""
        name = self.longest(name, one, other)
        gap = paired(self.values(name, one, column), self.values(name, other, column))
        return Effect(gap, self.epochs(name)) if gap else None

    def over_readings(self, column: str, one: str, other: str) -> Effect | None:
        """One method minus another on synthetic MNIST, averaged per seed over the three readings of the corner."""
        names = [f"synthetic-mnist{reading}" for reading in READINGS]
        left, right = ([self.values(name, method, column) for name in names] for method in (one, other))
        gap = paired(average(left), average(right))
        return Effect(gap, self.epochs(names[0])) if gap else None

    def areas(self, reading: str = "") -> dict[str, Seeds]:
        """The dominated area of each frontier, rare classes against noise, by seed."""
        found = frontiers(self.held[f"synthetic-mnist-frontier{reading}"].records, NOISE, LOOK)
        return {each.name: each.areas for each in found}

    def frontier(self, one: str, other: str) -> Effect | None:
        """One frontier's area minus another's, averaged per seed over the three readings."""
        areas = [self.areas(reading) for reading in READINGS]
        gap = paired(average([each[one] for each in areas]), average([each[other] for each in areas]))
        return Effect(gap, self.epochs("synthetic-mnist-frontier")) if gap else None

    def between(self, names: tuple[str, str], column: str, one: str, other: str) -> Effect | None:
        """One method minus another on the second data set, minus the same on the first: Welch's test."""
        chosen = [self.longest(name, one, other) for name in names]
        both = [[self.values(name, method, column) for method in (one, other)] for name in chosen]
        gaps = [[left[seed] - right[seed] for seed in sorted(left.keys() & right.keys())] for left, right in both]
        if not all(gaps):
            return None
        return Effect(welch(summarize(gaps[1]), summarize(gaps[0])), self.epochs(chosen[1]))

    def level(self, name: str, column: str, method: str, target: float = 0.0) -> Effect | None:
        """A method's mean minus a number, with the interval of the mean over seeds."""
        values = self.values(name, method, column)
        gap = paired(values, dict.fromkeys(values, target))
        return Effect(gap, self.epochs(name)) if gap else None


def average(readings: Sequence[Mapping[int, float]]) -> Seeds:
    """The mean over readings for the seeds that all have."""
    common = set.intersection(*(set(each) for each in readings))
    return {seed: fmean(each[seed] for each in readings) for seed in sorted(common)}
