"""Figures of an experiment: learning curves, differences, corruptions by severity, classes.

Each is an inline SVG of phone width. Colours of methods are classes of the page's style sheet: s0, s1 … for strokes and
f0, f1 … for fills.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from poise.corruptions.protocols import GROUPS
from poise.records.schema import Record, Results
from poise.reporting.figures.svg import (
    ACCURACY,
    COLOURS,
    DIFFERENCE,
    WIDTH,
    Scale,
    box,
    colour,
    drawing,
    frame,
    heading,
    line,
    polyline,
    scale_of,
    short,
    text_on,
    words,
)
from poise.reporting.rounding import interval, number
from poise.reporting.tables import Table

_LETTER = 5.8  # the largest width of a small letter
_POINTS = 160  # of one curve; more would not be visible
Curve = dict[float, float]  # epoch → value
Cells = Mapping[str, Mapping[int, float]]  # corruption → severity → accuracy


def curve(record: Record, measure: str) -> Curve:
    """One measure of a run's log: `validation`, `learning_rate`, or a part of the loss."""
    found = {entry.get("epoch", entry.get("step")): _measured(entry, measure) for entry in record.log}
    return {x: value for x, value in found.items() if x is not None and value is not None}


def measures(results: Results) -> list[str]:
    """The measures in the logs: validation, parts of the loss, schedules."""
    parts = dict.fromkeys(name for record in results.records for entry in record.log for name in entry.get("loss", {}))
    parts.pop("weight", None)
    wanted = ["validation", *parts, "weight", "learning_rate"]
    return [name for name in wanted if any(curve(record, name) for record in results.records)]


def learning_curves(results: Results, measure: str, order: Sequence[str]) -> Markup:
    """All seeds as thin lines, their mean as a thick one."""
    curves = {m: [c for run in results.runs[m].values() if (c := curve(run, measure))] for m in order}
    points = [point for runs in curves.values() for run in runs for point in run.items()]
    x = scale_of([at for at, _ in points], 46, WIDTH - 8)
    y = scale_of([value for _, value in points], 172, 26, logarithmic=measure not in ("validation", "weight"))
    parts = frame(Scale(x.low, x.high, x.start, x.end), y, measure.replace("_", " "), "epoch")
    for place, method in enumerate(order):
        name = f"s{place % COLOURS}"
        parts += [polyline(_thin(x, y, run), f"seed {name}") for run in curves[method] if len(curves[method]) > 1]
    for place, method in enumerate(order):
        if curves[method]:
            parts.append(polyline(_thin(x, y, _mean(curves[method])), f"mean s{place % COLOURS}"))
    return drawing(204, f"{measure} over epochs of {', '.join(order)}", *parts)


def differences(table: Table, column: int, order: Sequence[str]) -> Markup | None:
    """The difference of each method from the first of its group, with its interval; filled if significant."""
    rows = [(row, gap) for row in table.rows if (gap := row.cells[column].difference)]
    if not rows:
        return None
    ends = [end for _, gap in rows for end in (gap.low, gap.high, gap.mean) if end is not None]
    x = scale_of([0.0, *ends], 12, WIDTH - 12)
    labels = [f"{row.method} − {row.against}" for row, _ in rows]  # noqa: RUF001
    fits = all(
        _LETTER * (len(label) + 1 + len(interval(gap))) < WIDTH - 24
        for label, (_, gap) in zip(labels, rows, strict=True)
    )
    high = 30 if fits else 42  # two lines if a name and its numbers do not fit on one
    bottom = 26 + high * len(rows)
    parts = [heading(12, table.columns[column].name), line(12, bottom, WIDTH - 12, bottom, "grid")]
    for place, (label, (row, gap)) in enumerate(zip(labels, rows, strict=True)):
        y, name = 18 + high * (place + 1), order.index(row.method) % COLOURS
        parts += [words(12, y + 21 - high, label, "small"), words(WIDTH - 12, y - 9, interval(gap), "small", "end")]
        parts.append(line(x(0), y - 6, x(0), y + 8, "axis"))
        if gap.low is not None and gap.high is not None:
            parts.append(line(x(gap.low), y, x(gap.high), y, f"interval s{name}"))
        parts.append(_dot(x(gap.mean), y, f"f{name}" if gap.significant else f"hollow s{name}"))
    parts += [words(x(tick), bottom + 14, short(tick), "small", "middle") for tick in x.ticks(3)]
    return drawing(bottom + 20, f"Differences in {table.columns[column].name}", *parts)


def heat_map(title: str, cells: Cells, reach: float | None = None) -> Markup:
    """Corruptions by severity and their mean; with `reach`, differences from -reach to +reach."""
    severities = sorted({severity for row in cells.values() for severity in row})
    side = (WIDTH - 128) / (len(severities) + 1)
    parts = [heading(0, title)]
    parts += [words(122 + side * (n + 0.5), 30, str(s), "small", "middle") for n, s in enumerate(severities)]
    parts.append(words(128 + side * (len(severities) + 0.5), 30, "mean", "small", "middle"))
    y = 19.0
    for before, (name, values) in zip([None, *cells], cells.items(), strict=False):
        y += 17 if before is None or _group(before) == _group(name) else 22
        parts.append(words(116, y + 12, name.replace("_", " "), "small", "end"))
        for n, severity in enumerate(severities):
            if severity in values:
                parts += _cell(122 + side * n, y, side, values[severity], reach, f"{name}, severity {severity}")
        mean = float(np.mean(list(values.values())))
        parts += _cell(128 + side * len(severities), y, side, mean, reach, f"{name}, mean")
    return drawing(y + 20, f"{title}: accuracy per corruption and severity", *parts)


def class_bars(title: str, shares: np.ndarray, names: Sequence[str], rare: Sequence[int], colour_at: int) -> Markup:
    """Accuracy per class, mean and range over seeds, rare classes apart; `shares` is [seeds, classes]."""
    often = [n for n in range(shares.shape[1]) if n not in rare]
    blocks = [block for block in (often, [n for n in rare if n < shares.shape[1]]) if block]
    y = Scale(0, 1, 148, 26)
    room = WIDTH - 40 - 16 * (len(blocks) - 1)
    step = room / shares.shape[1]
    parts = [heading(34, title)]
    parts += [line(34, y(t), WIDTH - 6, y(t), "grid") for t in y.ticks()]
    parts += [words(28, y(t) + 3.5, number(t, 2) if t % 1 else f"{t:g}", "small", "end") for t in y.ticks()]
    start = 34.0
    for block in blocks:
        parts += _bars(shares, block, start, step, y, names, f"f{colour_at}")
        parts += _block_mean(shares, block, start, step, y, "rare" if block != often else "other" if rare else "all")
        start += step * len(block) + 16
    return drawing(186, f"{title}: accuracy per class", *parts)


def _group(corruption: str) -> str:
    return next((name for name, members in GROUPS.items() if corruption in members), "extra")


def _bars(
    shares: np.ndarray, block: list[int], start: float, step: float, y: Scale, names: Sequence[str], fill: str
) -> list[Markup]:
    parts = []
    for place, member in enumerate(block):
        x, values = start + step * place, shares[:, member]
        name = names[member] if member < len(names) else str(member)
        mean = float(values.mean())
        parts.append(box(x, y(mean), step * 0.82, y(0) - y(mean), f"{name}: {number(mean)}", class_=fill))
        if len(values) > 1 and step > 4:
            parts.append(line(x + step * 0.41, y(values.min()), x + step * 0.41, y(values.max()), "whisker"))
        if len(name) * 6 <= step + 4:
            parts.append(words(x + step * 0.41, y.start + 13, name, "small", "middle"))
    return parts


def _block_mean(shares: np.ndarray, block: list[int], start: float, step: float, y: Scale, what: str) -> list[Markup]:
    mean = float(shares[:, block].mean())
    end = start + step * len(block) - step * 0.18
    label = words((start + end) / 2, y.start + 30, f"{what} {number(mean, 3)}", "small", "middle")
    return [line(start, y(mean), end, y(mean), "average"), label]


def _cell(x: float, y: float, side: float, value: float, reach: float | None, title: str) -> list[Markup]:
    share = value if reach is None else 0.5 + value / (2 * reach)
    fill = colour(ACCURACY if reach is None else DIFFERENCE, share)
    label = number(value, 2) if reach is None else number(value, 2, sign=True)
    shown = words(x + side / 2 - 0.5, y + 12, label, "value", "middle", fill=text_on(fill))
    return [box(x, y, side - 1, 16, f"{title}: {number(value, sign=reach is not None)}", fill=fill), shown]


def _dot(x: float, y: float, class_: str) -> Markup:
    return box(x - 4, y - 4, 8, 8, rx=4, class_=class_)


def _measured(entry: Mapping[str, Any], measure: str) -> float | None:
    value = {**(entry.get("measures") or {}), **(entry.get("loss") or {}), **entry}.get(measure)
    return float(value) if isinstance(value, int | float) and np.isfinite(value) else None


def _mean(curves: Sequence[Curve]) -> Curve:
    places = sorted({x for run in curves for x in run})
    return {x: float(np.mean([run[x] for run in curves if x in run])) for x in places}


def _thin(x: Scale, y: Scale, run: Curve) -> list[tuple[float, float]]:
    points = sorted(run.items())
    kept = np.unique(np.linspace(0, len(points) - 1, min(len(points), _POINTS)).round().astype(int))
    return [(x(points[place][0]), y(points[place][1])) for place in kept]
