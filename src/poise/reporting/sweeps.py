"""What a sweep has found: its folder read back, and a table with the best trial first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from statistics import fmean
from typing import Any

from poise.reporting.files import RecordError, read_json, require
from poise.reporting.numbers import DASH, spread
from poise.reporting.records import RECORD
from poise.reporting.statistics import Summary, summary

SWEEP = "sweep.json"
TRIAL = "trial.json"


@dataclass(frozen=True)
class Trial:
    """The values of a trial by path, its scores by seed, and what went wrong if something did."""

    values: Mapping[str, str]
    scores: Mapping[int, float]
    failed: str | None = None

    @property
    def summary(self) -> Summary:
        return summary(list(self.scores.values()))


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


def score_of(record: Mapping[str, Any], names: Sequence[str]) -> float:
    """The mean of these scores of a run: "validation", or one of those that the runner took on validation sets."""
    return fmean(record["validation"] if name == "validation" else record["scores"][name] for name in names)


def load_sweep(folder: Path) -> Swept:
    """Read a sweep back, or say in a RecordError what is wrong with it."""
    content = read_json(folder / SWEEP, "sweep")
    require(folder / SWEEP, content, "sweep", name=str, title=str, method=str, choices=dict, score=list)
    score = tuple(content["score"])
    trials = [_trial(path, score) for path in sorted(folder.glob(f"trials/*/{TRIAL}"))]
    ranked = sorted(trials, key=lambda trial: (bool(trial.failed), -len(trial.scores), _lost(trial)))
    return Swept(content["name"], content["title"], content["method"], content["choices"], score, tuple(ranked))


def sweep_text(swept: Swept) -> str:
    """The table for a terminal."""
    head = ["score", "seeds", *(label_of(path) for path in swept.choices)]
    rows = [_row(trial, list(swept.choices)) for trial in swept.trials]
    sizes = [max(len(row[place]) for row in [head, *rows]) for place in range(len(head))]
    lines = ["  ".join(f"{word:{size}}" for word, size in zip(row, sizes, strict=True)) for row in [head, *rows]]
    rule = "-" * (sum(sizes) + 2 * (len(sizes) - 1))
    table = "\n".join(line.rstrip() for line in [lines[0], rule, *lines[1:]])
    notes = [f"score: {swept.scored_on}, mean ± deviation over seeds; no test set was looked at."]
    notes += [f"failed: {in_words(trial.values)}: {trial.failed}" for trial in swept.trials if trial.failed]
    return "\n\n".join([swept.headline, table, "\n".join(notes)]) + "\n"


def label_of(path: str) -> str:
    """A path as a column's name."""
    return path.removeprefix("objective.")


def in_words(values: Mapping[str, str]) -> str:
    """The values of a trial on a line."""
    return ", ".join(f"{label_of(path)}={value}" for path, value in values.items())


def _trial(path: Path, score: tuple[str, ...]) -> Trial:
    content = read_json(path, "trial")
    require(path, content, "trial", values=dict)
    records = [(each, read_json(each, "record")) for each in sorted(path.parent.glob(f"*/*/{RECORD}"))]
    return Trial(content["values"], dict(_scored(*each, score) for each in records), content.get("failed"))


def _scored(path: Path, record: dict[str, Any], score: tuple[str, ...]) -> tuple[int, float]:
    try:
        return int(record["seed"]), score_of(record, score)
    except (KeyError, TypeError, ValueError):
        raise RecordError(f"{path} is not a trial of its sweep: it has no score {', '.join(score)}") from None


def _lost(trial: Trial) -> float:
    return -trial.summary.mean if trial.scores else 0.0


def _row(trial: Trial, paths: list[str]) -> list[str]:
    score = "failed" if trial.failed else spread(trial.summary) if trial.scores else DASH
    return [score, str(len(trial.scores)), *(trial.values[path] for path in paths)]
