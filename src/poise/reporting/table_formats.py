"""Tables as text for the terminal, Markdown, LaTeX, CSV and JSON.

Text, Markdown and LaTeX share one grid: a head of two rows (column, then ours and paper), and rows of marks. In the
terminal, columns that do not fit go below the others, and a star stands for bold. CSV has one line per method and
column, JSON the same as objects, both with all digits.
"""

from __future__ import annotations

import csv
import io
import json
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from poise.reporting.tables import MAIN, CellGrid, Mark, Row, Table, differences_grid, main_grid

_GAP = "  "
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def text(tables: Sequence[Table], width: int | None = None, escapes: bool = False) -> str:
    """Tables of at most `width` characters if possible; with `escapes`, stars are also bold."""
    return "\n".join(_table(table, width, escapes) for table in tables)


def _table(table: Table, width: int | None, escapes: bool) -> str:
    differences = differences_grid(table)
    above = [textwrap.fill(line, width or 120) for line in (table.title, table.notice) if line]
    parts = [*above, *_blocks(main_grid(table), 2, width, escapes)]
    if differences.rows:
        parts += ["Difference, 95 % interval, p after Holm", *_blocks(differences, 1, width, escapes)]
    prose = [*([table.caption.replace("Bold:", "Star:", 1)] if table.name == MAIN else []), *table.notes]
    parts.append("\n".join(textwrap.fill(line, width or 120, subsequent_indent="  ") for line in prose))
    return "\n\n".join(parts) + "\n"


def _blocks(grid: CellGrid, fixed: int, width: int | None, escapes: bool) -> list[str]:
    """The grid cut between columns into blocks that fit, each with the first `fixed` columns."""
    sizes = _sizes(grid)
    spans = [_span(grid, number, sizes) for number in range(len(grid.head))]
    full = (width or 10**9) - sum(span + len(_GAP) for span in spans[:fixed])
    pieces: list[list[int]] = [[]]
    room = full
    for number in range(fixed, len(grid.head)):
        if pieces[-1] and spans[number] > room:
            pieces.append([])
            room = full
        pieces[-1].append(number)
        room -= spans[number] + len(_GAP)
    return [_block(grid, [*range(fixed), *piece], sizes, escapes) for piece in pieces]


def _block(grid: CellGrid, numbers: list[int], sizes: list[int], escapes: bool) -> str:
    head = _GAP.join(_padded(Mark(grid.head[n][0]), _span(grid, n, sizes), False) for n in numbers)
    places = [place for n in numbers for place in _places(grid, n)]
    under = _GAP.join(_padded(Mark(grid.under[place]), sizes[place], False) for place in places)
    rule = "-" * (sum(sizes[place] for place in places) + len(_GAP) * (len(places) - 1))
    lines = [head.rstrip(), under.rstrip(), rule]
    for number, row in enumerate(grid.rows):
        lines += [rule] if number in grid.rules else []
        lines.append(_GAP.join(_padded(row[place], sizes[place], escapes) for place in places).rstrip())
    return "\n".join(line for line in lines if line)


def _places(grid: CellGrid, number: int) -> range:
    """The columns below a name of the head."""
    start = sum(width for _, width in grid.head[:number])
    return range(start, start + grid.head[number][1])


def _span(grid: CellGrid, number: int, sizes: list[int]) -> int:
    places = _places(grid, number)
    return sum(sizes[place] for place in places) + len(_GAP) * (len(places) - 1)


def _sizes(grid: CellGrid) -> list[int]:
    """The width of each column; a name above two columns may be wider than both."""
    sizes = [max([len(name), *(len(_star(row[n])) for row in grid.rows)]) for n, name in enumerate(grid.under)]
    for number, (name, _) in enumerate(grid.head):
        sizes[_places(grid, number)[0]] += max(0, len(name) - _span(grid, number, sizes))
    return sizes


def _padded(mark: Mark, size: int, escapes: bool) -> str:
    words = _star(mark)
    shown = f"{_BOLD}{words}{_PLAIN}" if escapes and mark.bold else words
    return shown + " " * (size - len(words))


def _star(mark: Mark) -> str:
    return f"{mark.text} *" if mark.bold else mark.text


_MARKDOWN = re.compile(
    r"[\\|*`~]|\](?=[(\[])|&(?=#?\w+;)|<(?=[A-Za-z/!])|(?<![^\W_])_|_(?![^\W_])"
)  # what Markdown would interpret
_LATEX = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "\\": r"\textbackslash{}"}
_LATEX |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--", "±": r"$\pm$"}  # noqa: RUF001
_LATEX |= {"↑": r"$\uparrow$", "↓": r"$\downarrow$", "<": "$<$", ">": "$>$", "|": "$|$", "−": "$-$"}  # noqa: RUF001


def markdown(tables: Sequence[Table]) -> str:
    """Tables for GitHub, with separate tables of differences."""
    return "\n\n".join(_markdown(table) for table in tables) + "\n"


def latex(tables: Sequence[Table]) -> str:
    """`table` environments; needs the package booktabs."""
    return "\n\n".join(_latex(table) for table in tables) + "\n"


def as_csv(tables: Sequence[Table]) -> str:
    """One line per method and column, with all digits; unknown values are empty."""
    lines = [{**line, "title": table.title} for table in tables for line in _lines(table)]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _no_formula(value) for name, value in line.items()} for line in lines)
    return stream.getvalue()


def _no_formula(value: Any) -> Any:
    """Prefix text that a spreadsheet would evaluate with an apostrophe."""
    return f"'{value}" if isinstance(value, str) and value.lstrip().startswith(("=", "+", "-", "@")) else value


def as_json(tables: Sequence[Table]) -> str:
    """A list of tables, with all digits; unknown values are null."""
    return json.dumps([_object(table) for table in tables], indent=1, ensure_ascii=False, allow_nan=False) + "\n"


FORMATS: dict[str, Callable[[Sequence[Table]], str]] = {
    "text": text,
    "markdown": markdown,
    "latex": latex,
    "csv": as_csv,
    "json": as_json,
}


def _markdown(table: Table) -> str:
    differences = differences_grid(table)
    notice = [_cell(table.notice)] if table.notice else []
    parts = [f"### {_cell(table.title)}", *notice, _markdown_grid(main_grid(table))]
    parts += [_cell(table.caption)] if table.name == MAIN else []
    parts += ["\n".join(f"- {_cell(note)}" for note in table.notes)] if table.notes else []
    if differences.rows:
        parts += ["Difference, 95 % interval, p after Holm:", _markdown_grid(differences)]
    return "\n\n".join(parts)


def _markdown_grid(grid: CellGrid) -> str:
    head = [_cell(name) for name in grid.flat_head()]
    rows = [[f"**{_cell(mark.text)}**" if mark.bold else _cell(mark.text) for mark in row] for row in grid.rows]
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, rule, *rows])


def _cell(words: str) -> str:
    return _MARKDOWN.sub(r"\\\g<0>", words)


def _latex(table: Table) -> str:
    differences = differences_grid(table)
    lines = [r"\begin{table}", r"\centering", _latex_grid(main_grid(table))]
    if differences.rows:
        lines += ["", r"\medskip", "Difference, 95\\,\\% interval, p after Holm", "", r"\smallskip"]
        lines.append(_latex_grid(differences))
    notice = [table.notice] if table.notice else []
    caption = _tex(" ".join([f"{table.title}.", *notice, table.caption, *table.notes]))
    return "\n".join([*lines, rf"\caption{{{caption}}}", r"\end{table}"])


def _latex_grid(grid: CellGrid) -> str:
    spans = [rf"\multicolumn{{{width}}}{{c}}{{{_tex(name)}}}" for name, width in grid.head]
    lines = [rf"\begin{{tabular}}{{@{{}}l{'r' * (len(grid.under) - 1)}@{{}}}}", r"\toprule"]
    under = [f"{' & '.join(map(_tex, grid.under))} \\\\"] if any(grid.under) else []
    lines += [f"{' & '.join(spans)} \\\\", *under, r"\midrule"]
    for number, row in enumerate(grid.rows):
        lines += [r"\midrule"] if number in grid.rules else []
        cells = [rf"\textbf{{{_tex(mark.text)}}}" if mark.bold else _tex(mark.text) for mark in row]
        # At the start of a row, LaTeX would read [ and * as arguments of the preceding \\.
        start = "{}" if cells[0].lstrip().startswith(("[", "*")) else ""
        lines.append(f"{start}{' & '.join(cells)} \\\\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _tex(words: str) -> str:
    return "".join(_LATEX.get(character, character) for character in words)


def _object(table: Table) -> dict[str, Any]:
    names = ("experiment", "name", "title", "notice", "caption", "notes")
    return {**{name: getattr(table, name) for name in names}, "cells": _lines(table)}


def _lines(table: Table) -> list[dict[str, Any]]:
    return [line for row in table.rows for line in _cells(table, row)]


def _cells(table: Table, row: Row) -> list[dict[str, Any]]:
    nothing = dict.fromkeys(("mean", "seeds", "low", "high", "p", "holm"))
    found = []
    for column, cell in zip(table.columns, row.cells, strict=True):
        gap = asdict(cell.difference) if cell.difference else nothing
        found.append(
            {
                "experiment": table.experiment,
                "table": table.name,
                "group": row.group,
                "method": row.method,
                "column": column.name,
                "lower_is_better": column.lower_is_better,
                "seeds": cell.ours.seeds if cell.ours else 0,
                "mean": cell.ours.mean if cell.ours else None,
                "std": cell.ours.std if cell.ours else None,
                "paper_mean": cell.paper.mean if cell.paper else None,
                "paper_std": cell.paper.std if cell.paper else None,
                "bold": cell.bold,
                "against": row.against,
                "difference": gap["mean"],
                "common_seeds": gap["seeds"],
                **{name: gap[name] for name in ("low", "high", "p", "holm")},
                "significant": bool(cell.difference and cell.difference.significant),
            }
        )
    return found
