"""One self-contained page from a folder of records: no network, no script, for phone, dark and print."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from poise.io.files import regular
from poise.io.json_files import RecordError
from poise.records.schema import Results
from poise.reporting.captions import spans
from poise.reporting.figures.frontier import frontier_section
from poise.reporting.figures.measures import measures_section
from poise.reporting.figures.strips import strips_section
from poise.reporting.markup import Markup, document, element, join
from poise.reporting.sections import (
    classes_section,
    corruptions_section,
    curves_section,
    differences_section,
    recipes_section,
    table_section,
)
from poise.reporting.tables import tables_of

_SECTIONS = (frontier_section, strips_section, corruptions_section, classes_section, measures_section, curves_section)
_KINDS = {".svg": "image/svg+xml", ".png": "image/png"}


def page(found: Sequence[Results]) -> str:
    """The page as HTML that is also well-formed XML."""
    title = found[0].experiment.title if len(found) == 1 else "Results"
    parts = [element("h1", "Results" if len(found) > 1 else title)]
    parts += [_contents(found)] if len(found) > 1 else []
    parts += [_experiment(results, number, len(found) > 1) for number, results in enumerate(found)]
    return document(title, *parts)


def _experiment(results: Results, number: int, titled: bool) -> Markup:
    tables = tables_of(results)
    order = [row.method for row in tables[0].rows if row.method in results.runs]
    parts = [element("h2", results.experiment.title)] if titled else []
    parts += [_facts(results), *(table_section(table) for table in tables), differences_section(tables[0], order)]
    parts += [section(results, order) for section in _SECTIONS]
    parts += [_pictures(results.folder / "figures"), recipes_section(results, order)]
    return element("section", *parts, id=f"experiment-{number + 1}")


def _contents(found: Sequence[Results]) -> Markup:
    links = [element("a", each.experiment.title, href=f"#experiment-{n + 1}") for n, each in enumerate(found)]
    return element("nav", element("ul", *(element("li", link) for link in links)))


def _facts(results: Results) -> Markup:
    records = results.records
    seconds = sum(record.seconds or 0 for record in records)
    commits = sorted({record.commit for record in records if record.commit})
    devices = sorted({record.device for record in records if record.device})
    facts = [
        f"{len(results.runs)} methods",
        f"{len(records)} runs",
        f"seeds {spans(sorted({r.seed for r in records}))}",
    ]
    shared = ", shared beginnings counted in each run" if any(record.trunk for record in records) else ""
    facts += [_duration(seconds) + shared] if seconds else []
    return element("p", *(element("span", fact) for fact in [*facts, *devices, *commits]), class_="facts")


def _duration(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit} of training"
    return f"{seconds:.0f} seconds of training"


def _pictures(folder: Path) -> Markup:
    """The experiment's own figures, each inside the page as a data URI; a link could show any other picture."""
    paths = sorted(path for path in folder.glob("*") if path.suffix.lower() in _KINDS) if folder.is_dir() else []
    if link := next((path for path in (folder, *paths) if path.is_symlink()), None):
        raise RecordError(f"{link} is a link: put what it leads to in its place, or remove it")
    shots = [
        element(
            "figure", element("img", src=_data(path), alt=path.stem), element("figcaption", path.name), class_="shot"
        )
        for path in paths
    ]
    return join([element("h3", "Pictures of the experiment"), *shots]) if shots else Markup()


def _data(path: Path) -> str:
    try:
        content = regular(path).read_bytes()
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror or error}") from None
    return f"data:{_KINDS[path.suffix.lower()]};base64,{base64.b64encode(content).decode()}"
