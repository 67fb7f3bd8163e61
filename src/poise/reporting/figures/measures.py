"""Figures of scores that are in no table, of levels of noise, and of measures taken after every epoch.

"corner utility, in context"    one figure per name before the comma, filled and hollow dots for the kinds after it
"UN/5", "UN/10"                 one line per method over the number in the name
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from markupsafe import Markup

from poise.corruptions.protocols import CORRUPTIONS
from poise.records.schema import Results
from poise.reporting.figures.curves import curve, learning_curves
from poise.reporting.figures.svg import (
    COLOURS,
    WIDTH,
    Gallery,
    box,
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
from poise.reporting.findings import corruption_accuracies
from poise.reporting.rounding import number

Seeds = dict[str, list[float]]  # method → a value per seed
_FILLS = ("f{}", "hollow s{}")
_HIGH = 36  # of a method's row


def measure_galleries(results: Results, order: Sequence[str]) -> list[Gallery]:
    """Figures of all scores that are neither columns nor corruptions of the protocol, and of the measures in logs."""
    drawn = [_levels(name, results, order) for name in _own_levels(results, order)]
    drawn += [_dots(title, scores, order) for title, scores in families(results).items()]
    watched = [learning_curves(results, name, order) for name in _watched(results)]
    if not drawn and not watched:
        return []
    note = "Dots: every seed; lines: their mean. Two kinds of one measure are filled and hollow, as labelled."
    galleries = [Gallery("Figures of the experiment", drawn, legend(order), note)]
    return [*galleries, Gallery("Measured after every epoch", watched, folded=True)] if watched else galleries


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
    for place, row in enumerate(found.values()):
        if row:
            parts.append(polyline([(x(level), y(value)) for level, value in row.items()], f"mean s{place % COLOURS}"))
    return drawing(204, f"Accuracy over levels of {name}", *parts)


def _dots(title: str, kinds: Mapping[str, Seeds], order: Sequence[str]) -> Markup:
    """One row per method, one lane per kind, with the mean as a line and as a number."""
    x = scale_of([value for seeds in kinds.values() for values in seeds.values() for value in values], 12, WIDTH - 12)
    bottom = 38 + _HIGH * len(order)
    named = [f"{('filled', 'hollow')[place]}: {kind}" for place, kind in enumerate(kinds) if kind]
    parts = [heading(12, title), words(12, 27, "; ".join(named), "small")]
    for row, method in enumerate(order):
        y, means = 32 + _HIGH * (row + 1) - 8, []
        for lane, (kind, seeds) in enumerate(kinds.items()):
            values, at = seeds.get(method, []), y + (4 if len(kinds) > 1 else 0) * (2 * lane - 1)
            fill, label = _FILLS[lane].format(row % COLOURS), f"{method}{', ' if kind else ''}{kind}"
            parts += [box(x(v) - 2.5, at - 2.5, 5, 5, f"{label}: {number(v)}", rx=2.5, class_=fill) for v in values]
            if values:
                means.append(number(fmean(values), 3))
                parts.append(line(x(fmean(values)), at - 5, x(fmean(values)), at + 5, "whisker"))
        parts += [words(12, y - 13, method, "small"), words(WIDTH - 12, y - 13, ", ".join(means), "small", "end")]
    parts.append(line(12, bottom, WIDTH - 12, bottom, "axis"))
    parts += [words(x(tick), bottom + 14, short(tick), "small", "middle") for tick in x.ticks(3)]
    return drawing(bottom + 20, f"{title} of {', '.join(order)}", *parts)
