"""A sweep read from its folder: a table with the best trial first, and a page with a figure for each parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from statistics import fmean
from typing import Any

from markupsafe import Markup

from poise.errors import RecordError
from poise.io.documents import documents, read_json, require
from poise.records.schema import RECORD, SWEEP, TRIAL, in_words, label_of, read_record, score_of
from poise.reporting.figures.svg import (
    WIDTH,
    Figures,
    Scale,
    box,
    drawing,
    heading,
    line,
    polyline,
    scale_of,
    short,
    words,
)
from poise.reporting.render import Sheet, render
from poise.reporting.statistics import Summary, number, spread, summarize


@dataclass(frozen=True)
class Trial:
    """The values of a trial by path, its scores by seed, and the error if it failed."""

    values: Mapping[str, str]
    scores: Mapping[int, float]
    failed: str | None = None

    @property
    def summary(self) -> Summary:
        return summarize(list(self.scores.values()))


@dataclass(frozen=True)
class Swept:
    """A sweep and its trials: the best first, those with fewer seeds after all others, failed ones last."""

    name: str
    title: str
    method: str
    choices: Mapping[str, Sequence[str]]
    score: tuple[str, ...]
    trials: tuple[Trial, ...]

    @property
    def scored(self) -> list[Trial]:
        return [trial for trial in self.trials if trial.scores and not trial.failed]

    @property
    def scored_on(self) -> str:
        return self.score[0] if len(self.score) == 1 else f"the mean of {', '.join(self.score)}"

    @property
    def headline(self) -> str:
        every = prod(len(values) for values in self.choices.values())
        return f"{self.title}: sweep {self.name!r} of {self.method}, {len(self.scored)} of {every} settings tried"


def load_sweep(folder: Path) -> Swept:
    """Read the sweep in a folder; RecordError if a file is missing or damaged."""
    content = read_json(folder / SWEEP, "sweep")
    require(folder / SWEEP, content, "sweep", name=str, title=str, method=str, choices=dict, score=list)
    score = tuple(content["score"])
    trials = [_trial(path, score) for path in documents(folder, f"trials/*/{TRIAL}")]
    ranked = sorted(trials, key=lambda trial: (bool(trial.failed), -len(trial.scores), _lost(trial)))
    return Swept(content["name"], content["title"], content["method"], content["choices"], score, tuple(ranked))


def sweep_text(swept: Swept) -> str:
    """The table for a terminal."""
    rows = [_head(swept), *(_row(trial, swept) for trial in swept.trials)]
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(f"{word:{size}}" for word, size in zip(row, sizes, strict=True)) for row in rows]
    rule = "-" * (sum(sizes) + 2 * (len(sizes) - 1))
    table = "\n".join(line.rstrip() for line in [lines[0], rule, *lines[1:]])
    notes = [f"score: {swept.scored_on}, mean ± deviation over seeds; no test set was used."]
    notes += [f"failed: {in_words(trial.values)}: {trial.failed}" for trial in swept.trials if trial.failed]
    return "\n\n".join([swept.headline, table, "\n".join(notes)]) + "\n"


def _trial(path: Path, score: tuple[str, ...]) -> Trial:
    content = read_json(path, "trial")
    require(path, content, "trial", values=dict)
    records = [(each, asdict(read_record(each))) for each in documents(path.parent, f"*/*/{RECORD}")]
    return Trial(content["values"], dict(_scored(*each, score) for each in records), content.get("failed"))


def _scored(path: Path, record: dict[str, Any], score: tuple[str, ...]) -> tuple[int, float]:
    try:
        return int(record["seed"]), score_of(record, score)
    except (KeyError, TypeError, ValueError):
        raise RecordError(f"{path} is not a trial of its sweep: it has no score {', '.join(score)}") from None


def _lost(trial: Trial) -> float:
    return -trial.summary.mean if trial.scores else 0.0


def _head(swept: Swept) -> list[str]:
    return ["score", "seeds", *(label_of(path) for path in swept.choices)]


def _row(trial: Trial, swept: Swept) -> list[str]:
    score = "failed" if trial.failed else spread(trial.summary if trial.scores else None)
    return [score, str(len(trial.scores)), *(trial.values[path] for path in swept.choices)]


_TOP, _BOTTOM, _LEFT, _RIGHT = 30, 150, 44, WIDTH - 24


def sweep_page(swept: Swept) -> str:
    """One self-contained page."""
    figures = [parameter_plot(swept, path) for path in swept.choices if swept.scored]
    dots = "A dot is a trial, the large one the best; the line is the mean of all trials with that value."
    return render(
        "sweep",
        title=f"{swept.title}: {swept.name}",
        heading=f"{swept.title}: {swept.method}",
        headline=swept.headline,
        parameters=Figures("Each parameter", figures, below=f"{dots} Score: {swept.scored_on}; no test set was used."),
        trials=Sheet(_head(swept), [_row(trial, swept) for trial in swept.trials]),
    )


def parameter_plot(swept: Swept, path: str) -> Markup:
    """Score against the values of one parameter, which are evenly spaced in ascending order."""
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
    """Numbers in ascending order; other values in the order given."""
    try:
        return sorted(labels, key=float)
    except ValueError:
        return list(labels)


def _tick(label: str) -> str:
    try:
        return short(float(label))
    except ValueError:
        return label if len(label) <= 9 else f"{label[:8]}…"
