"""Frontiers: two scores that pull apart, over a setting; and how much one frontier lies above another.

    area(P) = area of the union of [0, x] x [0, y] over the points (x, y) of P

It is the area that a method's points dominate: to add to it, a point must be better in one score than every one that is
as good in the other. Areas are taken seed by seed, so that frontiers are compared by a paired test.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from poise.reporting.columns import Column
from poise.reporting.records import Record
from poise.reporting.statistics import Difference, corrected, paired

Point = tuple[float, float]


@dataclass(frozen=True)
class Frontier:
    """A method's points: {setting: {seed: (across, up)}}, and the area that each seed's points dominate."""

    name: str
    points: Mapping[float, Mapping[int, Point]]

    @property
    def areas(self) -> dict[int, float]:
        """Of the seeds that have all points."""
        seeds = set.intersection(*(set(runs) for runs in self.points.values()))
        return {seed: area([runs[seed] for runs in self.points.values()]) for seed in sorted(seeds)}


def area(points: Iterable[Point]) -> float:
    """What the points dominate, from the origin."""
    total, height = 0.0, 0.0
    for across, up in sorted(points, reverse=True):  # from right to left, each adds the stripe above the others
        if up > height:
            total += across * (up - height)
            height = up
    return total


def frontiers(records: Iterable[Record], across: Column, up: Column) -> list[Frontier]:
    """The frontiers of methods that are called "NAME SETTING", in the order of the records."""
    found: dict[str, dict[float, dict[int, Point]]] = {}
    for record in records:
        name, _, setting = record.method.rpartition(" ")
        x, y = (column.value(record.scores, record.classes) for column in (across, up))
        if x is None or y is None:
            raise ValueError(f"{record.method}, seed {record.seed}, has no {across.name if x is None else up.name}")
        found.setdefault(name, {}).setdefault(float(setting), {})[record.seed] = (x, y)
    return [Frontier(name, dict(sorted(points.items()))) for name, points in found.items()]


def gaps(frontier: Sequence[Frontier], baseline: str) -> dict[str, Difference]:
    """How much more each of them dominates than the baseline does, with Holm's correction over all of them."""
    base = next(each for each in frontier if each.name == baseline).areas
    others = [each for each in frontier if each.name != baseline]
    differences = corrected([paired(each.areas, base) for each in others])
    return {each.name: gap for each, gap in zip(others, differences, strict=True) if gap is not None}
