"""A table as rows of short strings: what text, Markdown, LaTeX and HTML have in common."""

from __future__ import annotations

from dataclasses import dataclass

from poise.reporting.numbers import arrow, interval, spread
from poise.reporting.tables import Cell, Row, Table


@dataclass(frozen=True)
class Mark:
    """The content of a cell."""

    text: str
    bold: bool = False
    paper: bool = False


@dataclass(frozen=True)
class Grid:
    """A head of names with widths, what is under each, rows of as many marks, and the rows that a rule stands above."""

    head: list[tuple[str, int]]
    under: list[str]
    rows: list[list[Mark]]
    rules: frozenset[int]

    def flat_head(self) -> list[str]:
        """Both rows of the head as one."""
        above = [name if place == 0 else f"{name}, paper" for name, width in self.head for place in range(width)]
        return [name or below for name, below in zip(above, self.under, strict=True)]


def main_grid(table: Table) -> Grid:
    """Method and seeds, then per column ours and, where the paper has any number in it, the paper's."""
    shown = [any(row.cells[place].paper for row in table.rows) for place in range(len(table.columns))]
    head = [("", 1), ("", 1)] + [(_name(table, place), 1 + paper) for place, paper in enumerate(shown)]
    under = ["method", "seeds"] + [word for paper in shown for word in (["ours", "paper"] if paper else ["ours"])]
    rows = [_marks(row, shown) for row in table.rows]
    return Grid(head, under, rows, _rules(list(table.rows)))


def differences_grid(table: Table) -> Grid:
    """Per method and column: the difference to the first of its group."""
    rows = [row for row in table.rows if row.against and any(cell.difference for cell in row.cells)]
    head = [("difference", 1)] + [(_name(table, place), 1) for place in range(len(table.columns))]
    marks = [
        [Mark(f"{row.method} − {row.against}"), *(Mark(interval(cell.difference)) for cell in row.cells)]  # noqa: RUF001
        for row in rows
    ]
    return Grid(head, [""] * len(head), marks, _rules(rows))


def _name(table: Table, place: int) -> str:
    column = table.columns[place]
    return f"{column.name} (lower is better)" if column.lower_is_better else column.name


def _marks(row: Row, shown: list[bool]) -> list[Mark]:
    marks = [Mark(row.method), Mark(str(len(row.seeds)))]
    for cell, paper in zip(row.cells, shown, strict=True):
        marks.append(Mark(_ours(cell, len(row.seeds)), cell.bold))
        marks += [Mark(spread(cell.paper), paper=True)] if paper else []
    return marks


def _ours(cell: Cell, seeds: int) -> str:
    """With the arrow, and the number of seeds where it is not that of the row."""
    words = [spread(cell.ours), arrow(cell.difference)]
    words += [f"({cell.ours.seeds} seeds)"] if cell.ours and cell.ours.seeds != seeds else []
    return " ".join(word for word in words if word)


def _rules(rows: list[Row]) -> frozenset[int]:
    return frozenset(n for n in range(1, len(rows)) if rows[n].group != rows[n - 1].group)
