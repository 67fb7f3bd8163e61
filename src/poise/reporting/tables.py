"""Tables of our numbers beside the paper's with paired tests: as values, and as grids of strings.

table_formats.py writes them as text, Markdown, LaTeX, CSV and JSON.

    arrow   significantly above or below the first method of its group
    bold    significantly better than every other method of its group that was run

Each test compares two methods, paired over seeds, with Holm's correction over the columns (statistics.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from poise.corruptions.protocols import CORRUPTIONS
from poise.records.columns import Column, corruption_error, seen_and_unseen
from poise.records.schema import Published, Results
from poise.reporting.captions import caption_of, listed, notes_of
from poise.reporting.statistics import (
    Difference,
    Summary,
    arrow,
    holm_corrected,
    interval_text,
    paired,
    spread,
    summarize,
)

MAIN = "main"  # the name of an experiment's main table; its caption applies to the others too
Seeds = Mapping[int, float]  # seed → value


@dataclass(frozen=True)
class TableCell:
    """One method in one column; `difference` is from the first method of its group."""

    ours: Summary | None
    paper: Published | None
    difference: Difference | None
    bold: bool


@dataclass(frozen=True)
class Row:
    """A method; `against` is the first of its group, None for the first itself and outside groups."""

    method: str
    group: int | None
    against: str | None
    seeds: tuple[int, ...]
    cells: tuple[TableCell, ...]


@dataclass(frozen=True)
class Table:
    """Rows with runs or numbers of the paper, group by group."""

    experiment: str
    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    caption: str
    notes: tuple[str, ...]
    notice: str = ""


def tables_of(results: Results) -> list[Table]:
    """The experiment's main table and its details, then seen and unseen corruptions, and the mCE."""
    experiment, scores = results.experiment, _scores(results)
    main = _table(results, MAIN, experiment.title, experiment.columns, notes_of(results))
    tables = [replace(main, notice=experiment.notice)]
    for number, (title, columns) in enumerate(experiment.details.items()):
        table = _table(results, f"details-{number + 1}", f"{experiment.title}: {title}", columns, ())
        known = tuple(row for row in table.rows if any(cell.ours or cell.paper for cell in row.cells))
        tables += [replace(table, rows=known)] if known else []
    for number, overlap in enumerate(dict.fromkeys(experiment.overlaps.values())):
        columns = seen_and_unseen(overlap, scores)
        methods = [method for method, names in experiment.overlaps.items() if names == overlap]
        if columns:
            title = f"{experiment.title}: corruptions that the augmentation of {listed(methods)} resembles"
            note = f"Seen: {', '.join(overlap)}. A high accuracy on these shows the augmentation, not robustness."
            tables.append(_table(results, f"seen-{number + 1}", title, columns, (note,)))
    error = corruption_error(experiment.reference, scores)
    if error is not None:
        note = "mCE: mean over the 15 corruptions of error / AlexNet's error on ImageNet-C; lower is better."
        tables.append(_table(results, "mce", f"{experiment.title}: mean corruption error", (error,), (note,)))
    return tables


def _table(results: Results, name: str, title: str, columns: Sequence[Column], notes: tuple[str, ...]) -> Table:
    experiment = results.experiment
    rows = [_row(results, method, columns) for method in _methods(results)]
    shown = tuple(row for row in rows if row.seeds or any(cell.paper for cell in row.cells))
    return Table(experiment.name, name, title, tuple(columns), shown, caption_of(results), notes)


def _methods(results: Results) -> list[str]:
    """In the order of the experiment, group by group; methods without a group come last."""
    names = dict.fromkeys([*results.experiment.methods, *results.runs])
    last = len(results.experiment.groups)
    return sorted(names, key=lambda name: last if (group := _group(results, name)) is None else group)


def _group(results: Results, method: str) -> int | None:
    return next((n for n, members in enumerate(results.experiment.groups) if method in members), None)


def _row(results: Results, method: str, columns: Sequence[Column]) -> Row:
    group = _group(results, method)
    members = results.experiment.groups[group] if group is not None else (method,)
    against = members[0] if members[0] != method else None
    ours = [scores_by_seed(results, method, column) for column in columns]
    gaps = compare_methods(results, method, against, columns) if against else [None] * len(columns)
    bold = _bold(results, method, members, columns)
    paper = results.experiment.paper.get(method, {})
    cells = [
        TableCell(summarize(list(values.values())) if values else None, paper.get(column.name), gap, strong)
        for column, values, gap, strong in zip(columns, ours, gaps, bold, strict=True)
    ]
    return Row(method, group, against, tuple(results.runs.get(method, {})), tuple(cells))


def scores_by_seed(results: Results, method: str, column: Column) -> Seeds:
    """A method's numbers in a column, by seed."""
    found = {seed: column.value(run.scores, run.classes) for seed, run in results.runs.get(method, {}).items()}
    return {seed: value for seed, value in found.items() if value is not None}


def _bold(results: Results, method: str, members: Sequence[str], columns: Sequence[Column]) -> list[bool]:
    others = [other for other in members if other != method and other in results.runs]
    wins = [_wins(results, method, other, columns) for other in others]
    return [bool(wins) and all(row[place] for row in wins) for place in range(len(columns))]


def _wins(results: Results, method: str, other: str, columns: Sequence[Column]) -> list[bool]:
    """Per column, whether the method is significantly better than the other."""
    gaps = compare_methods(results, method, other, columns)
    signs = [-1 if column.lower_is_better else 1 for column in columns]
    return [bool(gap and gap.significant and sign * gap.mean > 0) for gap, sign in zip(gaps, signs, strict=True)]


def compare_methods(results: Results, method: str, other: str, columns: Sequence[Column]) -> list[Difference | None]:
    """A method minus another per column, with Holm's correction over the columns."""
    return holm_corrected(
        [paired(scores_by_seed(results, method, column), scores_by_seed(results, other, column)) for column in columns]
    )


def _scores(results: Results) -> list[str]:
    """The names of all test sets, in order of first appearance."""
    return list(dict.fromkeys(name for record in results.records for name in record.scores))


@dataclass(frozen=True)
class Mark:
    """The content of a cell."""

    text: str
    bold: bool = False
    paper: bool = False


@dataclass(frozen=True)
class CellGrid:
    """Names of the head with their widths, names below them, rows of marks, and the rows with a rule above them."""

    head: list[tuple[str, int]]
    under: list[str]
    rows: list[list[Mark]]
    rules: frozenset[int]

    def flat_head(self) -> list[str]:
        """Both rows of the head in one."""
        above = [name if place == 0 else f"{name}, paper" for name, width in self.head for place in range(width)]
        return [name or below for name, below in zip(above, self.under, strict=True)]


def main_grid(table: Table) -> CellGrid:
    """Method and seeds, then per column our number and, if the paper has numbers there, the paper's."""
    shown = [any(row.cells[place].paper for row in table.rows) for place in range(len(table.columns))]
    head = [("", 1), ("", 1)] + [(_name(table, place), 1 + paper) for place, paper in enumerate(shown)]
    under = ["method", "seeds"] + [word for paper in shown for word in (["ours", "paper"] if paper else ["ours"])]
    rows = [_marks(row, shown) for row in table.rows]
    return CellGrid(head, under, rows, _rules(list(table.rows)))


def differences_grid(table: Table) -> CellGrid:
    """The difference of each method from the first of its group, per column."""
    rows = [row for row in table.rows if row.against and any(cell.difference for cell in row.cells)]
    head = [("difference", 1)] + [(_name(table, place), 1) for place in range(len(table.columns))]
    marks = [
        [Mark(f"{row.method} − {row.against}"), *(Mark(interval_text(cell.difference)) for cell in row.cells)]  # noqa: RUF001
        for row in rows
    ]
    return CellGrid(head, [""] * len(head), marks, _rules(rows))


def _name(table: Table, place: int) -> str:
    column = table.columns[place]
    return f"{column.name} (lower is better)" if column.lower_is_better else column.name


def _marks(row: Row, shown: list[bool]) -> list[Mark]:
    marks = [Mark(row.method), Mark(str(len(row.seeds)))]
    for cell, paper in zip(row.cells, shown, strict=True):
        marks.append(Mark(_ours(cell, len(row.seeds)), cell.bold))
        marks += [Mark(spread(cell.paper), paper=True)] if paper else []
    return marks


def _ours(cell: TableCell, seeds: int) -> str:
    """With the arrow, and the number of seeds if it differs from the row's."""
    words = [spread(cell.ours), arrow(cell.difference)]
    words += [f"({cell.ours.seeds} seeds)"] if cell.ours and cell.ours.seeds != seeds else []
    return " ".join(word for word in words if word)


def _rules(rows: list[Row]) -> frozenset[int]:
    return frozenset(n for n in range(1, len(rows)) if rows[n].group != rows[n - 1].group)


Cells = dict[str, dict[int, float]]  # corruption → severity → accuracy


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
