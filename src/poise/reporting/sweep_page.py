"""A page about a sweep: its table, and a figure for each parameter."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from poise.reporting.document import document
from poise.reporting.markup import Markup, element
from poise.reporting.numbers import number, spread
from poise.reporting.svg import WIDTH, Scale, box, drawing, heading, line, polyline, scale_of, short, words
from poise.reporting.sweeps import Swept, Trial, in_words, label_of

_TOP, _BOTTOM, _LEFT, _RIGHT = 30, 150, 44, WIDTH - 24


def sweep_page(swept: Swept) -> str:
    """One self-contained page."""
    figures = [element("figure", parameter_plot(swept, path)) for path in swept.choices if swept.scored]
    dots = "A dot is a trial, the large one the best, the line the mean of all trials with that value."
    return document(
        f"{swept.title}: {swept.name}",
        element("h1", f"{swept.title}: {swept.method}"),
        element("p", swept.headline, class_="facts"),
        element("h3", "Each parameter"),
        element("div", *figures, class_="grid"),
        element("p", f"{dots} Score: {swept.scored_on}; no tests.", class_="note"),
        element("h3", "Trials, the best first"),
        element("div", _table(swept), class_="wide"),
    )


def parameter_plot(swept: Swept, path: str) -> Markup:
    """Score against the values of one parameter, in their order, evenly spaced: they are a list, not a line."""
    values = _ordered(swept.choices[path])
    trials = [(values.index(trial.values[path]), trial) for trial in swept.scored if trial.values[path] in values]
    y = scale_of([trial.summary.mean for _, trial in trials], _BOTTOM, _TOP)
    x = Scale(0, len(values) - 1, _LEFT + 14, _RIGHT)
    parts = [heading(_LEFT, label_of(path)), line(_LEFT, _BOTTOM, WIDTH - 6, _BOTTOM, "axis")]
    for tick in y.ticks():
        parts += [line(_LEFT, y(tick), WIDTH - 6, y(tick), "grid")]
        parts += [words(_LEFT - 6, y(tick) + 3.5, short(tick), "small", "end")]
    parts += [words(x(place), _BOTTOM + 14, _tick(value), "small", "middle") for place, value in enumerate(values)]
    parts.append(polyline([(x(place), y(mean)) for place, mean in _means(trials)], "mean s3"))
    best_on_top = reversed(trials)
    parts += [_dot(x(place), y(trial.summary.mean), trial, trial is swept.scored[0]) for place, trial in best_on_top]
    return drawing(_BOTTOM + 22, f"Score against {path}", *parts)


def _means(trials: Sequence[tuple[int, Trial]]) -> list[tuple[int, float]]:
    places = sorted({place for place, _ in trials})
    return [(at, fmean(trial.summary.mean for place, trial in trials if place == at)) for at in places]


def _dot(x: float, y: float, trial: Trial, best: bool) -> Markup:
    side = 8 if best else 5
    title = f"{number(trial.summary.mean)}: {in_words(trial.values)}"
    return box(x - side / 2, y - side / 2, side, side, title, rx=side / 2, class_="f1" if best else "f3")


def _ordered(labels: Sequence[str]) -> list[str]:
    """Numbers ascend; anything else stays as it was given."""
    try:
        return sorted(labels, key=float)
    except ValueError:
        return list(labels)


def _tick(label: str) -> str:
    try:
        return short(float(label))
    except ValueError:
        return label if len(label) <= 9 else f"{label[:8]}…"


def _table(swept: Swept) -> Markup:
    names = ["score", "seeds", *(label_of(path) for path in swept.choices)]
    head = element("thead", element("tr", *(element("th", name) for name in names)))
    rows = []
    for trial in swept.trials:
        score = "failed" if trial.failed else spread(trial.summary if trial.scores else None)
        cells = [str(len(trial.scores)), *(trial.values[path] for path in swept.choices)]
        rows.append(element("tr", element("th", score), *(element("td", cell) for cell in cells)))
    return element("table", head, element("tbody", *rows))
