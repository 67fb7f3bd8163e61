"""Frontiers on a page: each against the first, on common scales, with the gap between the areas that they dominate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poise.reporting.columns import Column
from poise.reporting.frontier import Frontier, Point, frontiers, gaps
from poise.reporting.markup import Markup, element, join
from poise.reporting.numbers import interval, number
from poise.reporting.records import Record, Results
from poise.reporting.sections import figures, legend
from poise.reporting.statistics import Difference
from poise.reporting.svg import WIDTH, Scale, box, drawing, frame, polyline, scale_of, words

_NOTE = (
    "{up} against {across}: a point is the mean over seeds of one setting, the number at the end of a method's name. "
    "Area: what the points dominate, seed by seed, and its difference to that of {first}, 95 % interval of one alone, "
    "p after Holm's correction over all; few points, or a curve that ends early, have less area."
)


def frontier_section(results: Results, order: Sequence[str]) -> Markup:
    """Nothing where the experiment names no two columns that pull apart, or has no two points over them."""
    columns = {column.name: column for column in results.experiment.columns}
    axes = [columns[name] for name in results.experiment.frontier if name in columns]
    if len(axes) != 2:
        return Markup()
    across, up = axes
    records = [record for name in order for record in results.runs[name].values() if _is_point(record, across, up)]
    found = [each for each in frontiers(records, across, up) if len(each.points) > 1]
    if not found:
        return Markup()
    means = {each.name: _means(each) for each in found}
    everywhere = [point for points in means.values() for point in points.values()]
    x, y = scale_of([a for a, _ in everywhere], 46, WIDTH - 8), scale_of([b for _, b in everywhere], 186, 40)
    first, gap = found[0], gaps(found, found[0].name)
    drawn = [_figure(each, first, means, (x, y), (across, up), gap.get(each.name)) for each in found[1:] or found]
    note = _NOTE.format(up=up.name, across=across.name, first=first.name)
    key = legend([first.name, "the one that is named"])
    return join([element("h3", "Frontiers"), key, element("p", note, class_="note"), figures(drawn)])


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
    said = f"area {number(area, 3)}" + (f", {interval(gap)}" if gap else "")
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
