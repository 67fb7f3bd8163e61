"""`poise table`: the results of finished runs beside the paper's."""

from __future__ import annotations

import os
import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from poise.cli.options import Json, failures, write

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A folder with runs of one or more experiments.")]


class Format(StrEnum):
    """Output formats of a table."""

    text = "text"
    markdown = "markdown"
    latex = "latex"
    csv = "csv"
    json = "json"


def table(
    folder: Folder,
    format: Annotated[  # noqa: A002
        Format | None, typer.Option(help="Output format. csv and json have all digits. By default text.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write to this file instead of the terminal.")] = None,
    json: Json = False,
) -> None:
    """Print the tables of an experiment: mean ± deviation over seeds, significance, and the paper's numbers.

    poise table runs/synthetic-mnist

    poise table runs --format latex --out tables.tex
    """
    chosen = Format.json if json else format or Format.text
    if json and format not in (None, Format.json):
        raise typer.BadParameter(f"--json and --format {format} are two formats: choose one")
    with failures():
        from poise.errors import RecordError
        from poise.records.schema import load_results
        from poise.reporting.table_formats import FORMATS, text
        from poise.reporting.tables import tables_of

        tables = [table for results in load_results(folder) for table in tables_of(results)]
        if not any(cell.ours for table in tables for row in table.rows for cell in row.cells):
            raise RecordError(f"{folder} has no tested runs. Runs of a sweep are not tested: see its sweep.html")
        if out is not None:
            write(out, FORMATS[chosen](tables), quiet=json)
        elif chosen == Format.text and sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            typer.echo(text(tables, shutil.get_terminal_size().columns, escapes=True), nl=False)
        else:
            typer.echo(FORMATS[chosen](tables), nl=False)
