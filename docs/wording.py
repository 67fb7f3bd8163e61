"""Tables, answers and forest plots as the pages show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from docs.evidence import Effect, Evidence
from poise.reporting.figures.forest import ForestBlock, forest, standalone
from poise.reporting.statistics import Difference, Summary, holm_corrected, number, signed_interval
from poise.reporting.table_formats import markdown
from poise.reporting.tables import tables_of

NONE = "–"  # noqa: RUF001


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A Markdown table; all but the first `left` columns are numbers."""
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return "\n".join([line(head), f"|{'|'.join(rule)}|", *(line(row) for row in rows)])


def line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def minus(one: str, other: str) -> str:
    return f"{one} − {other}"  # noqa: RUF001


def spread(cell: Summary | None, digits: int = 3) -> str:
    """`.925 ±.009`."""
    if cell is None:
        return NONE
    return number(cell.mean, digits) + ("" if cell.std is None else f" ±{number(cell.std, digits)}")


def told(gap: Difference | None) -> str:
    """A difference with its interval; a fourth digit where three would hide it."""
    if gap is None:
        return NONE
    narrow = gap.low is not None and gap.high is not None and gap.high - gap.low < 0.005
    return signed_interval(gap, 4 if narrow else 3)


def word(gap: Difference) -> str:
    """Whether one is above the other: yes, no (significantly below), or undecided."""
    return "undecided" if not gap.significant else "yes" if gap.mean > 0 else "no"


def answers(rows: Sequence[tuple[str, str, Effect | None]]) -> str:
    """Questions whether one thing is above another, with Holm's correction over them."""
    gaps = holm_corrected([effect.gap if effect else None for _, _, effect in rows])
    found = []
    for (question, what, effect), gap in zip(rows, gaps, strict=True):
        if effect is None or gap is None:
            found.append([question, "open", *([NONE] * 4)])
            continue
        mean, _, interval = told(gap).partition(" ")
        cells = [f"**{word(gap)}**", f"{what} {mean}", interval or NONE, str(gap.seeds), effect.epochs]
        found.append([question, *cells])
    return table(["", "answer", "difference", "95 % interval", "seeds", "epochs"], found, left=2)


def drawn(label: str, columns: Sequence[str], blocks: Sequence[ForestBlock], panel: int = 150) -> str:
    """A forest plot as a file."""
    return standalone(forest(label, columns, [block for block in blocks if block.rows], panel))


def printed(name: str) -> Callable[[Evidence], str]:
    """The main table of an experiment as `poise table` prints it, without caption and rows that have no number."""

    def made(known: Evidence) -> str:
        if name not in known.held:
            return "No runs yet."
        first = tables_of(known.held[name])[0]
        lines = [each for each in markdown([first]).splitlines() if each.startswith("|")]
        end = next((place for place, each in enumerate(lines) if each.startswith("| difference")), None)
        return "\n".join(each for each in lines[:end] if set(each.split("|")[3:-1]) != {f" {NONE} "})

    return made


def marked(known: Evidence, name: str, method: str, column: str, digits: int = 3, spreads: bool = False) -> str:
    """A mean with the arrow that `poise table` gives it."""
    for held in tables_of(known.held[name]):
        for row in (each for each in held.rows if each.method == method):
            for each, cell in zip(held.columns, row.cells, strict=True):
                if each.name == column and cell.ours:
                    shown = spread(cell.ours, digits) if spreads else number(cell.ours.mean, digits)
                    return shown + arrow(cell.difference)
    return NONE


def arrow(gap: Difference | None) -> str:
    return "" if gap is None or not gap.significant else " ↑" if gap.mean > 0 else " ↓"
