"""The parts of the page about one experiment: tables, figures, recipes and environments."""

from __future__ import annotations

from collections.abc import Sequence

from poise.corruptions.protocols import CORRUPTIONS
from poise.records.recipe_text import pretty
from poise.records.schema import Results
from poise.reporting.captions import listed
from poise.reporting.figures import curves as plots
from poise.reporting.findings import class_accuracies, corruption_accuracies, corruption_gaps, facts_of, findings, pairs
from poise.reporting.markup import Markup, element, join
from poise.reporting.rounding import DASH
from poise.reporting.tables import MAIN, Mark, Table, differences_grid, main_grid

_SAID = 12  # sentences above a table
_SETS = 6  # test sets with bars per class; more would bury the rest


def table_section(table: Table) -> Markup:
    """A table with what it says in words, its caption and its notes."""
    parts = [] if table.name == MAIN else [element("h3", table.title)]
    parts += [_in_words(table)] if table.name == MAIN else []
    parts.append(_main(table))
    caption = table.caption.replace("ours | paper.", "below it, the paper's.", 1)
    parts += [element("p", caption, class_="note")] if table.name == MAIN else []
    return join(parts + [element("p", note, class_="note warn") for note in table.notes])


def _in_words(table: Table) -> Markup:
    """A sentence for each method; many of them are folded away."""
    said = findings(table)
    lines = element("ul", *(element("li", line) for line in said))
    return element("details", element("summary", f"{len(said)} comparisons"), lines) if len(said) > _SAID else lines


def differences_section(table: Table, order: Sequence[str]) -> Markup:
    """Intervals of the differences as a figure, the same numbers folded away."""
    drawn = [plots.differences(table, number, order) for number in range(len(table.columns))]
    if not any(drawn):
        return Markup()
    note = "Dots: mean difference over common seeds; bars: 95 % interval of one column alone; filled: significant."
    numbers = element("details", element("summary", "The same as a table"), _differences(table))
    return join([element("h3", "Differences"), element("p", note, class_="note"), figures(drawn), numbers])


def curves_section(results: Results, order: Sequence[str]) -> Markup:
    """What the logs hold, over epochs."""
    names = plots.measures(results)
    if not names:
        return Markup()
    note = "Thick: mean over seeds; thin: every seed. What falls by more than a factor of 20 is on a logarithmic scale."
    drawn = [plots.learning_curves(results, name, order) for name in names]
    return join([element("h3", "Learning curves"), legend(order), element("p", note, class_="note"), figures(drawn)])


def corruptions_section(results: Results, order: Sequence[str]) -> Markup:
    """Accuracy per corruption and severity, and its difference to the first method of the group."""
    cells = {method: corruption_accuracies(results, method) for method in order}
    if not any(cells.values()):
        return Markup()
    drawn = [plots.heat_map(method, cells[method]) for method in order if cells[method]]
    gaps = {f"{m} − {first}": corruption_gaps(results, m, first) for m, first in pairs(results, order)}  # noqa: RUF001
    reach = max((abs(v) for gap in gaps.values() for row in gap.values() for v in row.values()), default=0) or 1.0
    parts = [element("h3", "Accuracy per corruption and severity"), figures(drawn)]
    own = sorted({name for rows in cells.values() for name in rows} - set(CORRUPTIONS))
    if own:
        note = f"The severity of {listed(own)} is the number in the name of the test set: 5 of {own[0]}/5."
        parts.append(element("p", note, class_="note"))
    maps = [plots.heat_map(title, gap, reach) for title, gap in gaps.items() if gap]
    if maps:
        parts += [element("h3", "Difference to the first method of the group"), figures(maps)]
    return join(parts)


def classes_section(results: Results, order: Sequence[str]) -> Markup:
    """Bars per class for the test sets that are columns of their own, rare classes apart."""
    single = dict.fromkeys(column.of[0] for column in results.experiment.columns if len(column.of) == 1)
    names = [name for name in single if any(name in record.classes for record in results.records)]
    experiment, parts = results.experiment, []
    for name in names[:_SETS]:
        shares = {method: class_accuracies(results, method, name) for method in order}
        drawn = [
            plots.class_bars(method, found, experiment.class_names, experiment.rare_classes, place % plots.COLOURS)
            for place, (method, found) in enumerate(shares.items())
            if found is not None
        ]
        parts += [element("h3", f"Accuracy per class: {name}"), figures(drawn)]
    note = "Bars: mean over seeds; whiskers: lowest and highest seed; dashed: mean of the block."
    return join([*parts, element("p", note, class_="note")]) if parts else Markup()


def recipes_section(results: Results, order: Sequence[str]) -> Markup:
    """Recipe and environment of each method, folded away."""
    return join([element("h3", "Recipes and environments"), *(_recipe(results, method) for method in order)])


def _main(table: Table) -> Markup:
    """Ours with the paper's below it, which a phone has room for."""
    grid = main_grid(table)
    names = [name or under for (name, _), under in zip(grid.head, grid.under, strict=False)]
    return _scrolling(names, [_stacked(row) for row in grid.rows], grid.rules)


def _differences(table: Table) -> Markup:
    grid = differences_grid(table)
    return _scrolling([name for name, _ in grid.head], [[mark.text for mark in row] for row in grid.rows], grid.rules)


def _stacked(row: Sequence[Mark]) -> list[str]:
    cells: list[str] = []
    for mark in row:
        if mark.paper and mark.text != DASH:
            cells[-1] = join([cells[-1], element("div", f"paper {mark.text}", class_="from-paper")])
        elif not mark.paper:
            cells.append(element("strong", mark.text) if mark.bold else mark.text)
    return cells


def _scrolling(names: Sequence[str], rows: Sequence[Sequence[str]], rules: frozenset[int]) -> Markup:
    head = element("tr", *(element("th", name) for name in names))
    body = [
        element(
            "tr", element("th", first), *(element("td", cell) for cell in rest), class_="rule" if n in rules else None
        )
        for n, (first, *rest) in enumerate(rows)
    ]
    return element("div", element("table", element("thead", head), element("tbody", *body)), class_="wide")


def figures(drawn: Sequence[Markup | None]) -> Markup:
    """Those that there are, side by side where there is room."""
    return element("div", *(element("figure", figure) for figure in drawn if figure), class_="grid")


def legend(order: Sequence[str]) -> Markup:
    """The colours of the methods."""

    def key(place: int) -> Markup:
        dot = element("rect", width=10, height=10, rx=5, class_=f"f{place % plots.COLOURS}")
        return element("svg", dot, viewBox="0 0 10 10", aria_hidden="true")

    return element("p", *(element("span", key(n), method) for n, method in enumerate(order)), class_="legend")


def _recipe(results: Results, method: str) -> Markup:
    runs = list(results.runs[method].values())
    facts = [part for name, value in facts_of(runs).items() for part in (element("dt", name), element("dd", value))]
    summary = element("summary", f"{method} ({len(runs)} {'runs' if len(runs) > 1 else 'run'})")
    return element("details", summary, element("dl", *facts), element("pre", pretty(runs[0].recipe)))
