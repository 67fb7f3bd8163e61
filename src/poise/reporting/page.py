"""The page about finished runs: one file without network or script, for phone, desktop, dark mode and print."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from markupsafe import Markup

from poise.corruptions.protocols import CORRUPTIONS
from poise.io.files import regular
from poise.io.json_files import RecordError
from poise.records.recipe_text import pretty
from poise.records.schema import Results
from poise.reporting.captions import listed, spans
from poise.reporting.figures import curves as plots
from poise.reporting.figures.frontier import frontier_galleries
from poise.reporting.figures.measures import measure_galleries
from poise.reporting.figures.strips import Strip, chosen_strips
from poise.reporting.figures.svg import COLOURS, Gallery, legend
from poise.reporting.findings import class_accuracies, corruption_accuracies, corruption_gaps, facts_of, findings, pairs
from poise.reporting.render import Cell, Sheet, render
from poise.reporting.rounding import DASH
from poise.reporting.tables import MAIN, Mark, Table, differences_grid, main_grid, tables_of

_OPEN = 12  # findings above a table; more are folded away
_SETS = 6  # test sets with bars per class; more would bury the rest
_KINDS = {".svg": "image/svg+xml", ".png": "image/png"}


@dataclass(frozen=True)
class ShownTable:
    """A table with its findings in words; the main table has no title of its own below the experiment's heading."""

    title: str
    findings: list[str]
    folded: bool
    sheet: Sheet
    caption: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    """A figure from the experiment's folder, as a data URI."""

    name: str
    file: str
    uri: str


@dataclass(frozen=True)
class Recipe:
    """The recipe and the environment of a method's runs."""

    method: str
    runs: int
    facts: dict[str, str]
    text: str


@dataclass(frozen=True)
class Chapter:
    """What the page shows about one experiment, from top to bottom."""

    title: str
    facts: list[str]
    tables: list[ShownTable]
    comparisons: list[Gallery]
    strips: list[Strip]
    measured: list[Gallery]
    pictures: list[Picture]
    recipes: list[Recipe]


def page(found: Sequence[Results]) -> str:
    """The page as HTML that is also well-formed XML."""
    title = "Results" if len(found) > 1 else found[0].experiment.title
    return render("report", title=title, chapters=[chapter_of(results) for results in found])


def chapter_of(results: Results) -> Chapter:
    """Compute everything that the page shows about an experiment."""
    tables = tables_of(results)
    order = [row.method for row in tables[0].rows if row.method in results.runs]
    return Chapter(
        title=results.experiment.title,
        facts=_facts(results),
        tables=[_shown(table) for table in tables],
        comparisons=[*_differences(tables[0], order), *frontier_galleries(results, order)],
        strips=chosen_strips(results, order),
        measured=[
            *_corruptions(results, order),
            *_classes(results, order),
            *measure_galleries(results, order),
            *_curves(results, order),
        ],
        pictures=_pictures(results.folder / "figures"),
        recipes=[_recipe(results, method) for method in order],
    )


def _facts(results: Results) -> list[str]:
    records = results.records
    seconds = sum(record.seconds or 0 for record in records)
    shared = ", shared epochs counted in each run" if any(record.trunk for record in records) else ""
    return [
        f"{len(results.runs)} methods",
        f"{len(records)} runs",
        f"seeds {spans(sorted({record.seed for record in records}))}",
        *([_duration(seconds) + shared] if seconds else []),
        *sorted({record.device for record in records if record.device}),
        *sorted({record.commit for record in records if record.commit}),
    ]


def _duration(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit} of training"
    return f"{seconds:.0f} seconds of training"


def _shown(table: Table) -> ShownTable:
    main = table.name == MAIN
    said = findings(table) if main else []
    caption = table.caption.replace("ours | paper.", "below it, the paper's.", 1) if main else ""
    return ShownTable("" if main else table.title, said, len(said) > _OPEN, _sheet(table), caption, table.notes)


def _sheet(table: Table) -> Sheet:
    """Our numbers with the paper's below them, which fits on a phone."""
    grid = main_grid(table)
    names = [name or under for (name, _), under in zip(grid.head, grid.under, strict=False)]
    return Sheet(names, [_stacked(row) for row in grid.rows], grid.rules)


def _stacked(row: Sequence[Mark]) -> list[Cell]:
    cells: list[Cell] = []
    for mark in row:
        if not mark.paper:
            cells.append(Cell(mark.text, mark.bold))
        elif mark.text != DASH:
            cells[-1] = replace(cells[-1], paper=mark.text)
    return cells


def _differences(table: Table, order: Sequence[str]) -> list[Gallery]:
    """Differences from the first method of each group, with their intervals."""
    drawn = [figure for place in range(len(table.columns)) if (figure := plots.differences(table, place, order))]
    grid = differences_grid(table)
    sheet = Sheet([name for name, _ in grid.head], [[mark.text for mark in row] for row in grid.rows], grid.rules)
    note = "Dots: mean difference over common seeds; bars: 95 % interval, uncorrected; filled: significant."
    return [Gallery("Differences", drawn, note=note, sheet=sheet)] if drawn else []


def _curves(results: Results, order: Sequence[str]) -> list[Gallery]:
    """Everything in the logs, over epochs."""
    drawn = [plots.learning_curves(results, name, order) for name in plots.measures(results)]
    note = "Thick: mean over seeds; thin: every seed. Values that fall by more than a factor of 20 are on a log scale."
    return [Gallery("Learning curves", drawn, legend(order), note)] if drawn else []


def _corruptions(results: Results, order: Sequence[str]) -> list[Gallery]:
    """Accuracy per corruption and severity, and its difference from the first method of the group."""
    cells = {method: found for method in order if (found := corruption_accuracies(results, method))}
    if not cells:
        return []
    own = sorted({name for rows in cells.values() for name in rows} - set(CORRUPTIONS))
    below = f"The severity of {listed(own)} is the number in the name of the test set: 5 of {own[0]}/5." if own else ""
    drawn = [plots.heat_map(method, found) for method, found in cells.items()]
    gaps = {f"{m} − {first}": corruption_gaps(results, m, first) for m, first in pairs(results, order)}  # noqa: RUF001
    reach = max((abs(v) for gap in gaps.values() for row in gap.values() for v in row.values()), default=0) or 1.0
    maps = [plots.heat_map(title, gap, reach) for title, gap in gaps.items() if gap]
    galleries = [Gallery("Accuracy per corruption and severity", drawn, below=below)]
    return [*galleries, Gallery("Difference from the first method of the group", maps)] if maps else galleries


def _classes(results: Results, order: Sequence[str]) -> list[Gallery]:
    """Bars per class, rare classes apart, for test sets that are a column of their own."""
    single = dict.fromkeys(column.of[0] for column in results.experiment.columns if len(column.of) == 1)
    names = [name for name in single if any(name in record.classes for record in results.records)]
    galleries = [Gallery(f"Accuracy per class: {name}", _bars(results, name, order)) for name in names[:_SETS]]
    below = "Bars: mean over seeds; whiskers: lowest and highest seed; dashed: mean of the block."
    return [*galleries[:-1], replace(galleries[-1], below=below)] if galleries else []


def _bars(results: Results, name: str, order: Sequence[str]) -> list[Markup]:
    names, rare = results.experiment.class_names, results.experiment.rare_classes
    shares = {method: class_accuracies(results, method, name) for method in order}
    return [
        plots.class_bars(method, found, names, rare, place % COLOURS)
        for place, (method, found) in enumerate(shares.items())
        if found is not None
    ]


def _pictures(folder: Path) -> list[Picture]:
    """The experiment's own figures, embedded in the page; a link could show any other picture."""
    paths = sorted(path for path in folder.glob("*") if path.suffix.lower() in _KINDS) if folder.is_dir() else []
    if link := next((path for path in (folder, *paths) if path.is_symlink()), None):
        raise RecordError(f"{link} is a link: put what it leads to in its place, or remove it")
    return [Picture(path.stem, path.name, _data_uri(path)) for path in paths]


def _data_uri(path: Path) -> str:
    try:
        content = regular(path).read_bytes()
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror or error}") from None
    return f"data:{_KINDS[path.suffix.lower()]};base64,{base64.b64encode(content).decode()}"


def _recipe(results: Results, method: str) -> Recipe:
    runs = list(results.runs[method].values())
    return Recipe(method, len(runs), facts_of(runs), pretty(runs[0].recipe))
