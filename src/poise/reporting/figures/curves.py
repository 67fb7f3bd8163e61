"""Figures of an experiment: learning curves, differences, classes, and scores that are in no table.

Each is an inline SVG of phone width. Colours of methods are classes of the page's style sheet: s0, s1 … for strokes and
f0, f1 … for fills. Scores and levels of noise are found by their names:

"corner utility, in context"    one figure per name before the comma, filled and hollow dots for the kinds after it
"UN/5", "UN/10"                 one line per method over the number in the name
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from markupsafe import Markup

from poise.corruptions.protocols import CORRUPTIONS
from poise.records.schema import Record, Results
from poise.reporting.figures.svg import (
    WIDTH,
    Figures,
    Scale,
    box,
    colours_of,
    drawing,
    frame,
    heading,
    legend,
    line,
    polyline,
    scale_of,
    short,
    words,
)
from poise.reporting.statistics import interval_text, number
from poise.reporting.tables import Table, corruption_accuracies

_LETTER = 5.8  # the largest width of a small letter
_POINTS = 160  # of one curve; more would not be visible
Curve = dict[float, float]  # epoch → value


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
    colours = colours_of(order)
    for method in order:
        name = f"s{colours[method]}"
        parts += [polyline(_thin(x, y, run), f"seed {name}") for run in curves[method] if len(curves[method]) > 1]
    for method in order:
        if curves[method]:
            parts.append(polyline(_thin(x, y, _mean(curves[method])), f"mean s{colours[method]}"))
    return drawing(204, f"{measure} over epochs of {', '.join(order)}", *parts)


def difference_plot(table: Table, column: int, order: Sequence[str]) -> Markup | None:
    """The difference of each method from the first of its group, with its interval; filled if significant."""
    rows = [(row, gap) for row in table.rows if (gap := row.cells[column].difference)]
    if not rows:
        return None
    ends = [end for _, gap in rows for end in (gap.low, gap.high, gap.mean) if end is not None]
    x = scale_of([0.0, *ends], 12, WIDTH - 12)
    labels = [f"{row.method} − {row.against}" for row, _ in rows]  # noqa: RUF001
    fits = all(
        _LETTER * (len(label) + 1 + len(interval_text(gap))) < WIDTH - 24
        for label, (_, gap) in zip(labels, rows, strict=True)
    )
    high = 30 if fits else 42  # two lines if a name and its numbers do not fit on one
    bottom = 26 + high * len(rows)
    parts = [heading(12, table.columns[column].name), line(12, bottom, WIDTH - 12, bottom, "grid")]
    for place, (label, (row, gap)) in enumerate(zip(labels, rows, strict=True)):
        y, name = 18 + high * (place + 1), colours_of(order)[row.method]
        parts += [
            words(12, y + 21 - high, label, "small"),
            words(WIDTH - 12, y - 9, interval_text(gap), "small", "end"),
        ]
        parts.append(line(x(0), y - 6, x(0), y + 8, "axis"))
        if gap.low is not None and gap.high is not None:
            parts.append(line(x(gap.low), y, x(gap.high), y, f"interval s{name}"))
        parts.append(_dot(x(gap.mean), y, f"f{name}" if gap.significant else f"hollow s{name}"))
    parts += [words(x(tick), bottom + 14, short(tick), "small", "middle") for tick in x.ticks(3)]
    return drawing(bottom + 20, f"Differences in {table.columns[column].name}", *parts)


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


Seeds = dict[str, list[float]]  # method → a value per seed
_FILLS = ("f{}", "hollow s{}")
_HIGH = 36  # of a method's row


def measure_galleries(results: Results, order: Sequence[str]) -> list[Figures]:
    """Figures of all scores that are neither columns nor corruptions of the protocol, and of the measures in logs."""
    drawn = [_levels(name, results, order) for name in _own_levels(results, order)]
    drawn += [_dots(title, scores, order) for title, scores in families(results).items()]
    watched = [learning_curves(results, name, order) for name in _watched(results)]
    if not drawn and not watched:
        return []
    note = "Dots: every seed; lines: their mean. Two kinds of one measure are filled and hollow, as labelled."
    galleries = [Figures("Figures of the experiment", drawn, legend(order), note)]
    return [*galleries, Figures("Measured after every epoch", watched, folded=True)] if watched else galleries


def _watched(results: Results) -> list[str]:
    """Names of measures in the logs."""
    logs = [record.log for record in results.records]
    names = dict.fromkeys(name for log in logs for entry in log for name in entry.get("measures") or ())
    return [name for name in names if any(curve(record, name) for record in results.records)]


def families(results: Results) -> dict[str, dict[str, Seeds]]:
    """{title: {kind: values}} of the scores that no table shows; the kind is empty for scores without kinds."""
    experiment = results.experiment
    tables = [experiment.columns, *experiment.details.values()]
    shown = {name for columns in tables for column in columns for name in column.of}
    found: dict[str, dict[str, Seeds]] = {}
    for record in results.records:
        for score, value in record.scores.items():
            if score in shown or score.rpartition("/")[2].isdigit():
                continue
            title, _, kind = score.partition(", ")
            found.setdefault(title, {}).setdefault(kind, {}).setdefault(record.method, []).append(value)
    varying = {title: {k: v for k, v in kinds.items() if not _is_count(v)} for title, kinds in found.items()}
    few = {title: kinds for title, kinds in varying.items() if 0 < len(kinds) <= len(_FILLS)}
    many = {f"{t}, {k}": {"": varying[t][k]} for t in varying if t not in few for k in varying[t]}
    return {**few, **many}


def _is_count(values: Seeds) -> bool:
    """Whether all runs have the same whole number, such as a number of sentences, which needs no figure."""
    held = {value for each in values.values() for value in each}
    return len(held) == 1 and (value := held.pop()) > 1 and float(value).is_integer()


def _own_levels(results: Results, order: Sequence[str]) -> list[str]:
    cells = [corruption_accuracies(results, method) for method in order]
    names = dict.fromkeys(name for each in cells for name, levels in each.items() if len(levels) > 1)
    return [name for name in names if name not in CORRUPTIONS]


def _levels(name: str, results: Results, order: Sequence[str]) -> Markup:
    """Accuracy over the levels of one kind of noise, mean over seeds, one line per method."""
    found = {method: corruption_accuracies(results, method).get(name, {}) for method in order}
    x = scale_of([level for row in found.values() for level in row], 46, WIDTH - 8)
    y = scale_of([value for row in found.values() for value in row.values()], 172, 26)
    parts = frame(x, y, name, "level")
    colours = colours_of(order)
    for method, row in found.items():
        if row:
            parts.append(polyline([(x(level), y(value)) for level, value in row.items()], f"mean s{colours[method]}"))
    return drawing(204, f"Accuracy over levels of {name}", *parts)


def _dots(title: str, kinds: Mapping[str, Seeds], order: Sequence[str]) -> Markup:
    """One row per method, one lane per kind, with the mean as a line and as a number."""
    x = scale_of([value for seeds in kinds.values() for values in seeds.values() for value in values], 12, WIDTH - 12)
    bottom = 38 + _HIGH * len(order)
    named = [f"{('filled', 'hollow')[place]}: {kind}" for place, kind in enumerate(kinds) if kind]
    parts = [heading(12, title), words(12, 27, "; ".join(named), "small")]
    colours = colours_of(order)
    for row, method in enumerate(order):
        y, means = 32 + _HIGH * (row + 1) - 8, []
        for lane, (kind, seeds) in enumerate(kinds.items()):
            values, at = seeds.get(method, []), y + (4 if len(kinds) > 1 else 0) * (2 * lane - 1)
            fill, label = _FILLS[lane].format(colours[method]), f"{method}{', ' if kind else ''}{kind}"
            parts += [box(x(v) - 2.5, at - 2.5, 5, 5, f"{label}: {number(v)}", rx=2.5, class_=fill) for v in values]
            if values:
                means.append(number(fmean(values), 3))
                parts.append(line(x(fmean(values)), at - 5, x(fmean(values)), at + 5, "whisker"))
        parts += [words(12, y - 13, method, "small"), words(WIDTH - 12, y - 13, ", ".join(means), "small", "end")]
    parts.append(line(12, bottom, WIDTH - 12, bottom, "axis"))
    parts += [words(x(tick), bottom + 14, short(tick), "small", "middle") for tick in x.ticks(3)]
    return drawing(bottom + 20, f"{title} of {', '.join(order)}", *parts)
