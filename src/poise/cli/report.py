"""`poise report`: a self-contained page of finished runs."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from poise.cli.options import Json, failures, write


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with runs of one or more experiments.")],
    out: Annotated[Path | None, typer.Option(help="Path of the page. By default report.html in DIR.")] = None,
    json: Json = False,
) -> None:
    """Write a page with tables, differences, learning curves, corruptions, classes, figures and recipes.

    The page is one file without scripts that loads nothing from the network.

    poise report runs/synthetic-mnist
    """
    with failures():
        from poise.records.schema import load_results
        from poise.reporting.page import page

        found, path = load_results(folder), out or folder / "report.html"
        write(path, page(found), quiet=json)
        if json:
            runs = {results.experiment.name: len(results.records) for results in found}
            typer.echo(dumps({"page": str(path), "runs": runs}))
