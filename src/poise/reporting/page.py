"""The page about finished runs: one file without network or script, for phone, desktop, dark mode and print."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from markupsafe import Markup

from poise.corruptions.protocols import CORRUPTIONS
from poise.errors import RecordError
from poise.io.files import regular
from poise.records.recipe_text import pretty
from poise.records.schema import Record, Results
from poise.reporting.captions import listed, spans
from poise.reporting.figures import curves as plots
from poise.reporting.figures.frontier import frontier_galleries
from poise.reporting.figures.strips import Strip, chosen_strips
from poise.reporting.figures.svg import Figures, colours_of, heat_map, legend
from poise.reporting.render import Cell, Sheet, render
from poise.reporting.statistics import DASH
from poise.reporting.tables import (
    MAIN,
    Mark,
    Row,
    Table,
    class_accuracies,
    corruption_accuracies,
    corruption_gaps,
    differences_grid,
    main_grid,
    pairs,
    tables_of,
)

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
class RecipeText:
    """The recipe and the environment of a method's runs."""

    method: str
    runs: int
    facts: dict[str, str]
    text: str


@dataclass(frozen=True)
class Chapter:
    """What the page shows about one experiment, from top to bottom."""

    title: str
    notice: str
    facts: list[str]
    effects: list[Figures]
    tables: list[ShownTable]
    comparisons: list[Figures]
    strips: list[Strip]
    measured: list[Figures]
    pictures: list[Picture]
    recipes: list[RecipeText]

    @property
    def contents(self) -> list[str]:
        """The parts that the page has, in its order."""
        parts = {"Effects": self.effects, "Table": self.tables, "Frontiers": self.comparisons, "Figures": self.measured}
        return [*(name for name, held in parts.items() if held), "Recipes"]


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
        notice=results.experiment.notice,
        facts=_facts(results),
        effects=_effects(tables[0], order),
        tables=[_shown(table) for table in tables],
        comparisons=frontier_galleries(results, order),
        strips=chosen_strips(results, order),
        measured=[
            *_corruptions(results, order),
            *_classes(results, order),
            *plots.measure_galleries(results, order),
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


def _effects(table: Table, order: Sequence[str]) -> list[Figures]:
    """Differences from the first method of each group, with their intervals."""
    drawn = [figure for place in range(len(table.columns)) if (figure := plots.difference_plot(table, place, order))]
    grid = differences_grid(table)
    sheet = Sheet([name for name, _ in grid.head], [[mark.text for mark in row] for row in grid.rows], grid.rules)
    note = "Dots: mean difference over common seeds; bars: 95 % interval, uncorrected; filled: significant."
    firsts = listed(list(dict.fromkeys(row.against for row in table.rows if row.against)))
    return [Figures(f"Effect: difference from {firsts}", drawn, note=note, sheet=sheet)] if drawn else []


def _curves(results: Results, order: Sequence[str]) -> list[Figures]:
    """Everything in the logs, over epochs."""
    drawn = [plots.learning_curves(results, name, order) for name in plots.measures(results)]
    note = "Thick: mean over seeds; thin: every seed. Values that fall by more than a factor of 20 are on a log scale."
    return [Figures("Learning curves", drawn, legend(order), note)] if drawn else []


def _corruptions(results: Results, order: Sequence[str]) -> list[Figures]:
    """Accuracy per corruption and severity, and its difference from the first method of the group."""
    cells = {method: found for method in order if (found := corruption_accuracies(results, method))}
    if not cells:
        return []
    own = sorted({name for rows in cells.values() for name in rows} - set(CORRUPTIONS))
    below = f"The severity of {listed(own)} is the number in the name of the test set: 5 of {own[0]}/5." if own else ""
    drawn = [heat_map(method, found) for method, found in cells.items()]
    gaps = {f"{m} − {first}": corruption_gaps(results, m, first) for m, first in pairs(results, order)}  # noqa: RUF001
    reach = max((abs(v) for gap in gaps.values() for row in gap.values() for v in row.values()), default=0) or 1.0
    maps = [heat_map(title, gap, reach) for title, gap in gaps.items() if gap]
    galleries = [Figures("Accuracy per corruption and severity", drawn, below=below)]
    return [*galleries, Figures("Difference from the first method of the group", maps)] if maps else galleries


def _classes(results: Results, order: Sequence[str]) -> list[Figures]:
    """Bars per class, rare classes apart, for test sets that are a column of their own."""
    single = dict.fromkeys(column.of[0] for column in results.experiment.columns if len(column.of) == 1)
    names = [name for name in single if any(name in record.classes for record in results.records)]
    galleries = [Figures(f"Accuracy per class: {name}", _bars(results, name, order)) for name in names[:_SETS]]
    below = "Bars: mean over seeds; whiskers: lowest and highest seed; dashed: mean of the block."
    return [*galleries[:-1], replace(galleries[-1], below=below)] if galleries else []


def _bars(results: Results, name: str, order: Sequence[str]) -> list[Markup]:
    names, rare = results.experiment.class_names, results.experiment.rare_classes
    shares = {method: class_accuracies(results, method, name) for method in order}
    colours = colours_of(order)
    return [
        plots.class_bars(method, found, names, rare, colours[method])
        for method, found in shares.items()
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


def _recipe(results: Results, method: str) -> RecipeText:
    runs = list(results.runs[method].values())
    return RecipeText(method, len(runs), facts_of(runs), pretty(runs[0].recipe))


def findings(table: Table) -> list[str]:
    """One sentence per compared method: in which columns it is significantly better, and in which worse."""
    return [_finding(table, row) for row in table.rows if any(cell.difference for cell in row.cells)]


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


def facts_of(runs: Sequence[Record]) -> dict[str, str]:
    """Where and when the runs of a method were made; unknown facts are left out."""
    seconds = [run.seconds for run in runs if run.seconds is not None]
    memory = [run.peak_memory for run in runs if run.peak_memory is not None]
    facts = {
        "seeds": spans([run.seed for run in runs]),
        "commit": _joined([run.commit for run in runs]),
        "device": _joined([run.device for run in runs]),
        "engine": _joined([run.engine for run in runs]),
        "Poise": _joined([run.version_of_poise for run in runs]),
        "versions": _joined([_pairs_of(run.versions) for run in runs]),
        "time": f"{np.mean(seconds):.1f} s per run, {sum(seconds):.0f} s in total" if seconds else "",
        "memory": f"{max(memory) / 2**20:.0f} MiB at most" if memory else "",
        "trunk": f"{_pairs_of(runs[0].trunk)} shared with other methods of the same seed" if runs[0].trunk else "",
        "started": min((run.started for run in runs if run.started), default=""),
        "finished": max((run.finished for run in runs if run.finished), default=""),
    }
    return {name: value for name, value in facts.items() if value}


def _joined(values: Sequence[str | None]) -> str:
    return "; ".join(dict.fromkeys(value for value in values if value))


def _pairs_of(facts: Mapping[str, object] | None) -> str:
    return ", ".join(f"{name} {value}" for name, value in (facts or {}).items())
