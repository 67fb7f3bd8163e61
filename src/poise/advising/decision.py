"""The advice: which method suits the data, by a rule that is fixed before the runs.

A method is recommended if

    1. its score, the mean of all columns, is above cross-entropy's beyond an interval that holds for all candidates at
       once (Bonferroni), and
    2. it loses no column: no difference is below -.01, or what the user accepts, with an interval below 0.

Of several, the cheapest one whose score is within .01 of the highest. If there is none, cross-entropy stays. With one
seed, nothing is decided.
"""

from __future__ import annotations

from dataclasses import asdict
from math import ceil, isfinite
from typing import Any

from poise.advising.budget import Budget
from poise.advising.candidates import BASELINE, Candidate
from poise.advising.comparison import Compared
from poise.advising.intervals import Gap, Scores, pooled_variance
from poise.advising.noisy_sets import columns, names_of_sets
from poise.advising.own_data import OwnData
from poise.advising.pasted import script
from poise.reporting.statistics import number

LOSS = 0.01  # of a column, that a recommended method may lose
ALIKE = 0.01  # scores that differ by less are alike: the cheaper method is recommended


def decide(data: OwnData, budget: Budget, compared: Compared, scores: Scores, accepted: float = LOSS) -> dict[str, Any]:
    """The content of advice.json; `accepted` is what a column may lose."""
    rows = [_row(each, compared, scores, accepted) for each in compared.tried]
    rows = [row for row in rows if row["seeds"]]
    chosen = _chosen([row for row in rows if row["better"] and not row["loses"]])
    decided = len(rows) > 1 and max(row["seeds"] for row in rows[1:]) > 1
    best = chosen or rows[0] if rows else None
    tried = {each.name: each for each in compared.tried}
    return {
        "recipe": data.path.name,
        "data": _facts_of(data, budget),
        "columns": [column.name for column in columns(data)],
        "sets": list(names_of_sets(data)),
        "decided": decided,
        "finished": compared.finished,
        "chosen": best["name"] if best and decided else None,
        "accepted_loss": accepted,
        "sentence": sentence(rows, chosen, decided, compared.finished),
        "methods": rows,
        "failed": compared.failed,
        "code": script(data, budget, tried[best["name"]]) if best and decided else "",
    }


def _chosen(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The cheapest of those with nearly the highest score."""
    highest = max((row["score"] for row in rows), default=0.0)
    best = [row for row in rows if row["score"] >= highest - ALIKE]
    return min(best, key=lambda row: row["cost"] or 0.0, default=None)


def _facts_of(data: OwnData, budget: Budget) -> dict[str, Any]:
    return {
        "kind": data.kind,
        "classes": data.num_classes,
        "counts": list(data.counts),
        "rare": list(data.rare),
        "train": len(data.train),
        "validation": None if data.validation is None else len(data.validation),
        "epochs": budget.epochs,
        "batch_size": budget.batch_size,
        "learning_rate": budget.learning_rate,
        "few": budget.few,
    }


def _row(candidate: Candidate, compared: Compared, scores: Scores, accepted: float) -> dict[str, Any]:
    """A candidate's measurements."""
    name, base = candidate.name, compared.right.get(BASELINE, {})
    own = {seed: right for seed, right in compared.right.get(name, {}).items() if seed in base}
    many = max(1, len(compared.tried) - 1)
    others = [compared.right[each.name] for each in compared.tried[1:] if each.name in compared.right]
    names, gaps = [column.name for column in scores.columns], dict[str, Gap]()
    for title in ("score", *names) if own and name != BASELINE else ():
        column = None if title == "score" else title
        pooled = pooled_variance([scores.seed_differences(other, base, column) for other in others])
        gaps[title] = scores.gap(own, base, column, pooled, many)
    low = gaps["score"].wide_low if gaps else None
    step, first = compared.seconds.get(name), compared.seconds.get(BASELINE)
    return {
        "name": name,
        "family": candidate.family,
        "setting": candidate.setting,
        "seeds": len(own),
        "rounds": compared.rounds.get(name),
        "score": scores.mean(own),
        "columns": {column: scores.mean(own, column) for column in names},
        "gaps": {column: asdict(gap) for column, gap in gaps.items()},
        "better": low is not None and low > 0,
        "loses": [column for column in names if column in gaps and _is_lost(gaps[column], accepted)],
        "seconds_per_step": step,
        "cost": step / first if step and first and isfinite(step / first) else None,
        "code": candidate.code,
    }


def _is_lost(gap: Gap, accepted: float) -> bool:
    return gap.mean < -accepted and (gap.high is None or gap.high < 0)


def sentence(rows: list[dict[str, Any]], chosen: dict[str, Any] | None, decided: bool, finished: bool) -> str:
    """The answer in words."""
    again = "" if finished else " The time was over before all rounds were: run the same command to continue."
    if not decided:
        return f"Not decided: too few runs are finished.{again}"
    if chosen is not None:
        parts = [f"{column} {said(gap)}" for column, gap in chosen["gaps"].items() if column != "score"]
        cost = f" A step takes {chosen['cost']:.1f} times as long." if chosen["cost"] else ""
        return f"Use {chosen['name']}. Against cross-entropy: {', '.join(parts)}.{cost}{again}"
    better = [row for row in rows if row["better"]]
    if better:
        first = max(better, key=lambda row: row["score"])
        every = ", ".join(f"{column} {said(gap)}" for column, gap in first["gaps"].items() if column != "score")
        price = ceil(-100 * min(first["gaps"][column]["mean"] for column in first["loses"])) / 100
        return (
            f"Stay with cross-entropy, unless you accept a loss in {' and '.join(first['loses'])}: --accept-loss "
            f"{price:g} recommends {first['name']}. Against cross-entropy: {every}.{again}"
        )
    best = max(rows[1:], key=lambda row: (row["seeds"], row["score"]))
    gap = best["gaps"]["score"]
    wide = {"mean": gap["mean"], "low": gap["wide_low"], "high": gap["wide_high"]}
    return (
        "Stay with cross-entropy: no method is better beyond its interval. The best of the others is "
        f"{best['name']}, with a score that differs by {said(wide)}.{again}"
    )


def said(gap: dict[str, Any]) -> str:
    """`+.083 [+.051, +.115]`"""
    if gap["low"] is None:
        return _signed(gap["mean"])
    return f"{_signed(gap['mean'])} [{_signed(gap['low'])}, {_signed(gap['high'])}]"


def _signed(value: float) -> str:
    return number(value, 3, sign=True)
