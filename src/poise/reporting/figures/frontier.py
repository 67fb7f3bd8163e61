"""Frontiers of two scores that trade off over a setting, and the gap between the areas that two frontiers dominate.

    area(P) = area of the union of [0, x] x [0, y] over the points (x, y) of P

This is the area that a method's points dominate: a point adds to it only if it is better in one score than all points
that are as good in the other. Areas are computed per seed, so frontiers are compared by a paired test.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from poise.records.columns import Column
from poise.records.schema import Record, Results
from poise.reporting.figures.svg import WIDTH, Figures, Scale, box, drawing, frame, legend, polyline, scale_of, words
from poise.reporting.statistics import Difference, holm_corrected, interval_text, number, paired

Point = tuple[float, float]


@dataclass(frozen=True)
class Frontier:
    """A method's points, {setting: {seed: (across, up)}}."""

    name: str
    points: Mapping[float, Mapping[int, Point]]

    @property
    def areas(self) -> dict[int, float]:
        """The dominated area per seed, for seeds that have all points."""
        seeds = set.intersection(*(set(runs) for runs in self.points.values()))
        return {seed: area([runs[seed] for runs in self.points.values()]) for seed in sorted(seeds)}


def area(points: Iterable[Point]) -> float:
    """The area between the origin and the points."""
    total, height = 0.0, 0.0
    for across, up in sorted(points, reverse=True):  # from right to left, each adds the strip above the others
        if up > height:
            total += across * (up - height)
            height = up
    return total


def frontiers(records: Iterable[Record], across: Column, up: Column) -> list[Frontier]:
    """The frontiers of methods named "NAME SETTING", in the order of the records."""
    found: dict[str, dict[float, dict[int, Point]]] = {}
    for record in records:
        name, _, setting = record.method.rpartition(" ")
        x, y = (column.value(record.scores, record.classes) for column in (across, up))
        if x is None or y is None:
            raise ValueError(f"{record.method}, seed {record.seed}, has no {across.name if x is None else up.name}")
        found.setdefault(name, {}).setdefault(float(setting), {})[record.seed] = (x, y)
    return [Frontier(name, dict(sorted(points.items()))) for name, points in found.items()]


def gaps(frontier: Sequence[Frontier], baseline: str) -> dict[str, Difference]:
    """How much more area each one dominates than the baseline, with Holm's correction over all of them."""
    base = next(each for each in frontier if each.name == baseline).areas
    others = [each for each in frontier if each.name != baseline]
    differences = holm_corrected([paired(each.areas, base) for each in others])
    return {each.name: gap for each, gap in zip(others, differences, strict=True) if gap is not None}


_NOTE = (
    "{up} against {across}: a point is the mean over seeds of one setting, the number at the end of a method's name. "
    "Area: dominated by the points, per seed, and its difference from that of {first}, with an uncorrected 95 % "
    "interval and p after Holm's correction over all; frontiers with few points, or that end early, have less area."
)


def frontier_galleries(results: Results, order: Sequence[str]) -> list[Figures]:
    """The frontiers in the plane of the two columns that the experiment names, if a method has two points there."""
    columns = {column.name: column for column in results.experiment.columns}
    axes = [columns[name] for name in results.experiment.frontier if name in columns]
    if len(axes) != 2:
        return []
    across, up = axes
    records = [record for name in order for record in results.runs[name].values() if _is_point(record, across, up)]
    found = [each for each in frontiers(records, across, up) if len(each.points) > 1]
    if not found:
        return []
    means = {each.name: _means(each) for each in found}
    everywhere = [point for points in means.values() for point in points.values()]
    x, y = scale_of([a for a, _ in everywhere], 46, WIDTH - 8), scale_of([b for _, b in everywhere], 186, 40)
    first, gap = found[0], gaps(found, found[0].name)
    drawn = [_figure(each, first, means, (x, y), (across, up), gap.get(each.name)) for each in found[1:] or found]
    note = _NOTE.format(up=up.name, across=across.name, first=first.name)
    return [Figures("Frontiers", drawn, legend([first.name, "the method named above each figure"]), note)]


def _figure(
    frontier: Frontier,
    first: Frontier,
    means: dict[str, dict[float, Point]],
    scales: tuple[Scale, Scale],
    axes: tuple[Column, Column],
    gap: Difference | None,
) -> Markup:
    x, y = scales
    area = float(np.mean(list(frontier.areas.values()))) if frontier.areas else float("nan")
    said = f"area {number(area, 3)}" + (f", {interval_text(gap)}" if gap else "")
    parts = [*frame(x, y, frontier.name, axes[0].name), words(x.start, 29, said, "small")]
    shown = [(first.name, "mean s0")] if frontier is not first else []
    for name, style in [*shown, (frontier.name, "mean s1")]:
        parts.append(polyline([(x(a), y(b)) for a, b in means[name].values()], style))
    for setting, (a, b) in means[frontier.name].items():
        title = f"{frontier.name} {setting:g}: {axes[0].name} {number(a, 3)}, {axes[1].name} {number(b, 3)}"
        parts.append(box(x(a) - 3, y(b) - 3, 6, 6, title, rx=3, class_="f1"))
    return drawing(218, f"Frontier of {frontier.name} beside {first.name}", *parts)


def _means(frontier: Frontier) -> dict[float, Point]:
    """{setting: mean over seeds}, in the order of the settings."""
    means = {setting: np.mean(list(runs.values()), axis=0) for setting, runs in frontier.points.items()}
    return {setting: (float(across), float(up)) for setting, (across, up) in means.items()}


def _is_point(record: Record, across: Column, up: Column) -> bool:
    """Whether the method's name ends with a number, and both scores are there."""
    try:
        float(record.method.rpartition(" ")[2])
    except ValueError:
        return False
    return all(column.value(record.scores, record.classes) is not None for column in (across, up))
