"""Tables for the terminal: what does not fit side by side stands below each other; bold is a star."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from poise.reporting.grid import Grid, Mark, differences_grid, main_grid
from poise.reporting.tables import MAIN, Table

_GAP = "  "
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def text(tables: Sequence[Table], width: int | None = None, escapes: bool = False) -> str:
    """Tables of at most `width` characters, if that can be; with `escapes`, bold is bold as well."""
    return "\n".join(_table(table, width, escapes) for table in tables)


def _table(table: Table, width: int | None, escapes: bool) -> str:
    differences = differences_grid(table)
    parts = [textwrap.fill(table.title, width or 120), *_blocks(main_grid(table), 2, width, escapes)]
    if differences.rows:
        parts += ["Difference, 95 % interval, p after Holm", *_blocks(differences, 1, width, escapes)]
    prose = [*([table.caption.replace("Bold:", "Star:", 1)] if table.name == MAIN else []), *table.notes]
    parts.append("\n".join(textwrap.fill(line, width or 120, subsequent_indent="  ") for line in prose))
    return "\n\n".join(parts) + "\n"


def _blocks(grid: Grid, fixed: int, width: int | None, escapes: bool) -> list[str]:
    """The grid, cut between its columns into pieces that fit, each with the first `fixed` columns."""
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


def _block(grid: Grid, numbers: list[int], sizes: list[int], escapes: bool) -> str:
    head = _GAP.join(_padded(Mark(grid.head[n][0]), _span(grid, n, sizes), False) for n in numbers)
    places = [place for n in numbers for place in _places(grid, n)]
    under = _GAP.join(_padded(Mark(grid.under[place]), sizes[place], False) for place in places)
    rule = "-" * (sum(sizes[place] for place in places) + len(_GAP) * (len(places) - 1))
    lines = [head.rstrip(), under.rstrip(), rule]
    for number, row in enumerate(grid.rows):
        lines += [rule] if number in grid.rules else []
        lines.append(_GAP.join(_padded(row[place], sizes[place], escapes) for place in places).rstrip())
    return "\n".join(line for line in lines if line)


def _places(grid: Grid, number: int) -> range:
    """The columns under a name of the head."""
    start = sum(width for _, width in grid.head[:number])
    return range(start, start + grid.head[number][1])


def _span(grid: Grid, number: int, sizes: list[int]) -> int:
    places = _places(grid, number)
    return sum(sizes[place] for place in places) + len(_GAP) * (len(places) - 1)


def _sizes(grid: Grid) -> list[int]:
    """The width of each column; a name over two columns may need more than both."""
    sizes = [max(len(name), *(len(_star(row[n])) for row in grid.rows)) for n, name in enumerate(grid.under)]
    for number, (name, _) in enumerate(grid.head):
        sizes[_places(grid, number)[0]] += max(0, len(name) - _span(grid, number, sizes))
    return sizes


def _padded(mark: Mark, size: int, escapes: bool) -> str:
    words = _star(mark)
    shown = f"{_BOLD}{words}{_PLAIN}" if escapes and mark.bold else words
    return shown + " " * (size - len(words))


def _star(mark: Mark) -> str:
    return f"{mark.text} *" if mark.bold else mark.text
