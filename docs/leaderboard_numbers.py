"""The tables of docs/leaderboard.md, from the records of results/evaluations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from docs.evidence import Evidence
from poise.reporting.leaderboard import THEIRS, Row, rows_below
from poise.reporting.statistics import DASH, number

COLUMNS = {
    "clean": "clean",
    "corrupted": "corrupted",
    "worst class": "worst_class",
    "flips": "flips",
    "ECE": "corrupted_ECE",
}


def table(benchmark: str, known: Evidence) -> str:
    """The models on a benchmark, the best mean first."""
    rows = [row for row in rows_below(known.folder / "evaluations") if row["benchmark"] == benchmark]
    names = {head: name for head, name in COLUMNS.items() if any(row.get(name) is not None for row in rows)}
    head = ["", *names, "from"]
    return "\n".join([_line(head), f"|{'---|' * len(head)}", *(_row(row, list(names.values())) for row in rows)])


def _row(row: Row, names: Sequence[str]) -> str:
    theirs = row["origin"] == THEIRS
    origin = row["source"].partition(",")[0] if theirs else f"{row['examples']:,} images"
    return _line([f"*{row['model']}*" if theirs else row["model"], *(_cell(row, name) for name in names), origin])


def _cell(row: Row, name: str) -> str:
    if row.get(name) is None:
        return DASH
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    ends = "" if low is None or high is None else f" ({number(low, 2)} to {number(high, 2)})"
    return f"{number(row[name], 3)}{ends}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


BENCHMARKS = ("cifar10-c", "cifar10-c-bar", "pixel-noise")
BLOCKS: Mapping[str, Callable[[Evidence], str]] = {
    f"leaderboard of {name}": partial(table, name) for name in BENCHMARKS
}
