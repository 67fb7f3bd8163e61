"""Sentences and numbers for the page about an experiment."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from poise.corruptions.protocols import CORRUPTIONS
from poise.records.schema import Record, Results
from poise.reporting.captions import spans
from poise.reporting.tables import Row, Table

Cells = dict[str, dict[int, float]]  # corruption → severity → accuracy


def findings(table: Table) -> list[str]:
    """One sentence per compared method: in which columns it is significantly better, and in which worse."""
    return [_finding(table, row) for row in table.rows if any(cell.difference for cell in row.cells)]


def corruption_accuracies(results: Results, method: str, seeds: Collection[int] | None = None) -> Cells:
    """Mean over seeds for every corruption and severity: those of the protocol in its order, then others, as `UN/5`."""
    found: dict[str, dict[int, list[float]]] = {name: {} for name in CORRUPTIONS}
    for seed, run in results.runs[method].items():
        for score, value in run.scores.items() if seeds is None or seed in seeds else ():
            name, _, severity = score.rpartition("/")
            if name and severity.isdigit():
                found.setdefault(name, {}).setdefault(int(severity), []).append(value)
    means = {name: {s: float(np.mean(v)) for s, v in sorted(row.items())} for name, row in found.items()}
    return {name: row for name, row in means.items() if row}


def corruption_gaps(results: Results, one: str, other: str) -> Cells:
    """One method's accuracies minus the other's, over the seeds that both have."""
    common = results.runs[one].keys() & results.runs[other].keys()
    return subtract(corruption_accuracies(results, one, common), corruption_accuracies(results, other, common))


def subtract(one: Cells, other: Cells) -> Cells:
    """Differences in the cells that both have."""
    common = {name: row.keys() & other[name].keys() for name, row in one.items() if name in other}
    return {name: {s: one[name][s] - other[name][s] for s in sorted(both)} for name, both in common.items() if both}


def pairs(results: Results, methods: Sequence[str]) -> list[tuple[str, str]]:
    """Each method with the first of its group, if both are among `methods`."""
    groups = results.experiment.groups
    return [(m, group[0]) for group in groups for m in group[1:] if m in methods and group[0] in methods]


def class_accuracies(results: Results, method: str, name: str) -> np.ndarray | None:
    """[seeds, classes] on one test set; a class without examples counts as 0; None without counts."""
    counts = [run.classes[name] for run in results.runs[method].values() if run.classes.get(name)]
    if not counts or len({len(count) for count in counts}) > 1:
        return None
    array = np.asarray(counts, dtype=float)
    correct, total = array[..., 0], array[..., 1]
    return np.asarray(correct / np.where(total > 0, total, 1))


def facts_of(runs: Sequence[Record]) -> dict[str, str]:
    """Where and when the runs of a method were made; unknown facts are left out."""
    seconds = [run.seconds for run in runs if run.seconds is not None]
    memory = [run.peak_memory for run in runs if run.peak_memory is not None]
    facts = {
        "seeds": spans([run.seed for run in runs]),
        "commit": _distinct([run.commit for run in runs]),
        "device": _distinct([run.device for run in runs]),
        "engine": _distinct([run.engine for run in runs]),
        "Poise": _distinct([run.version_of_poise for run in runs]),
        "versions": _distinct([_pairs_of(run.versions) for run in runs]),
        "time": f"{np.mean(seconds):.1f} s per run, {sum(seconds):.0f} s in total" if seconds else "",
        "memory": f"{max(memory) / 2**20:.0f} MiB at most" if memory else "",
        "trunk": f"{_pairs_of(runs[0].trunk)} shared with other methods of the same seed" if runs[0].trunk else "",
        "started": min((run.started for run in runs if run.started), default=""),
        "finished": max((run.finished for run in runs if run.finished), default=""),
    }
    return {name: value for name, value in facts.items() if value}


def _finding(table: Table, row: Row) -> str:
    better: list[str] = []
    worse: list[str] = []
    for column, cell in zip(table.columns, row.cells, strict=True):
        gap = cell.difference
        if gap and gap.significant:
            (better if (gap.mean > 0) != column.lower_is_better else worse).append(column.name)
    if all(cell.difference is None or cell.difference.p is None for cell in row.cells):
        return f"{row.method}: not tested against {row.against}: too few seeds."
    if not better and not worse:
        return f"{row.method}: no significant difference from {row.against}."
    said = [
        f"significantly {how} in {len(names)} of {len(table.columns)} columns ({'; '.join(names)})"
        for how, names in (("better", better), ("worse", worse))
        if names
    ]
    return f"{row.method} against {row.against}: {', and '.join(said)}."


def _distinct(values: Sequence[str | None]) -> str:
    return "; ".join(dict.fromkeys(value for value in values if value))


def _pairs_of(facts: Mapping[str, object] | None) -> str:
    return ", ".join(f"{name} {value}" for name, value in (facts or {}).items())
