"""Forest plots: a row per method, a panel per column, differences with their intervals.

A point is a mean difference, the line through it its 95 % interval. Filled: significant; hollow: undecided. A panel has
one scale for all rows, so that lengths compare down the panel.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from markupsafe import Markup

from poise.reporting.figures.svg import Scale, box, drawing, element, line, scale_of, short, words
from poise.reporting.statistics import LEVEL, Difference, number, signed_interval

_LETTER, _NUMBER = 6.1, 40  # widths: a letter of a name, the numbers at the right of a panel
_TOP, _ROW, _TITLE = 32, 17, 24  # heights: names of columns, a row, the title of a block


@dataclass(frozen=True)
class ForestRow:
    """A method and its difference in each column, None where it has none."""

    name: str
    cells: tuple[Difference | None, ...]


@dataclass(frozen=True)
class ForestBlock:
    """Rows under a title that says what they are compared with."""

    title: str
    rows: tuple[ForestRow, ...]


def forest(label: str, columns: Sequence[str], blocks: Sequence[ForestBlock], panel: int = 150) -> Markup:
    """The figure, with panels of this width; `label` is its text for screen readers."""
    names = 24 + _LETTER * max(len(row.name) for block in blocks for row in block.rows)
    panels = [_scale(place, blocks, names + panel * place, panel) for place in range(len(columns))]
    parts: list[Markup] = []
    y = float(_TOP)
    for block in blocks:
        y += _TITLE
        parts += _lines(panels, y - 2, y + _ROW * len(block.rows) + 2)
        parts.append(words(8, y - 7, block.title, "title"))
        for row in block.rows:
            y += _ROW
            parts.append(words(16, y - 5, row.name, ""))
            for place, cell in enumerate(row.cells):
                parts += _mark(cell, row.name, panels[place], y - 8.5)
    parts += [part for name, x in zip(columns, panels, strict=True) for part in _head(name, x, y + 13)]
    return drawing(y + 20, label, *parts, width=round(names) + panel * len(columns))


def standalone(figure: Markup) -> str:
    """A figure as a file of its own, on white, with the page's style."""
    found = re.search(r'viewBox="0 0 (\S+) (\S+)"', figure)
    if found is None:
        raise ValueError("figure has no viewBox")
    width, height = found.groups()
    ground = box(0, 0, float(width), float(height), style="fill: #ffffff")
    head, _, body = figure.partition(">")
    size = f' width="{width}" height="{height}" xmlns="http://www.w3.org/2000/svg"'
    coloured = re.search(r'class="(?:[^"]* )?[sf]\d', body) is not None
    return f"{head}{size}>{element('style', Markup(_style(coloured)))}{ground}{body}\n"


def _style(coloured: bool) -> str:
    """The rules of the page's style sheet for figures, in the colours of light pages; also those of methods."""
    sheet = (files("poise.reporting") / "templates" / "page.css").read_text(encoding="utf8")
    colours = dict(re.findall(r"(--[\w-]+): (#\w+);", sheet.partition("}")[0]))
    rules = "\n".join(re.findall(r"^\.(?:figure |[sf]\d).*" if coloured else r"^\.figure .*", sheet, re.MULTILINE))
    plain = re.sub(r"var\((--[\w-]+)\)", lambda name: colours[name[1]], rules)
    font = "font-family: system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; font-size: 10.5px"
    return f"svg {{ {font} }}\n{plain}\n"


def _scale(place: int, blocks: Sequence[ForestBlock], start: float, width: int) -> Scale:
    """Of all rows of a panel, with 0 in it."""
    cells = [cell for block in blocks for row in block.rows if (cell := row.cells[place])]
    ends = [end for cell in cells for end in (cell.mean, cell.low, cell.high) if end is not None]
    return scale_of([0.0, *ends], start + 6, start + width - _NUMBER - 6)


def _head(name: str, x: Scale, bottom: float) -> list[Markup]:
    """The name of a panel, and its ticks above and below."""
    ticks = [words(x(tick), y, _sign(tick), "small", "middle") for tick in x.ticks(3) for y in (30, bottom)]
    return [words(x.start, 16, name, "title"), *ticks]


def _lines(panels: Sequence[Scale], top: float, bottom: float) -> list[Markup]:
    """A line at 0 and at every tick."""
    return [line(x(tick), top, x(tick), bottom, "grid" if tick else "axis") for x in panels for tick in x.ticks(3)]


def _sign(tick: float) -> str:
    return f"+{short(tick)}" if tick > 0 else short(tick)


def _mark(cell: Difference | None, name: str, x: Scale, y: float) -> list[Markup]:
    if cell is None:
        return []
    decided = cell.significant if cell.holm is not None else cell.p is not None and cell.p < LEVEL
    kind = "undecided" if not decided else "higher" if cell.mean > 0 else "lower"
    parts = [] if cell.low is None or cell.high is None else [line(x(cell.low), y, x(cell.high), y, f"interval {kind}")]
    dot = f"{kind} dot" if decided else f"hollow {kind}"
    parts.append(box(x(cell.mean) - 4, y - 4, 8, 8, f"{name}: {signed_interval(cell)}", rx=4, class_=dot))
    return [*parts, words(x.end + _NUMBER + 4, y + 3.5, number(cell.mean, 3, sign=True), "small", "end")]
