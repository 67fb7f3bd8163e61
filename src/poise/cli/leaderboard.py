"""`poise leaderboard`: the records of many models as one page and one table."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from poise.cli.options import Json, failures, write


def leaderboard(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with evaluations below it.")],
    out: Annotated[
        Path | None, typer.Option(help="Path of the page; tables get its name. By default leaderboard.html in DIR.")
    ] = None,
    json: Json = False,
) -> None:
    """Write a page and a table of all evaluations below a folder, beside published results of others.

    The tables are a CSV file and, with pyarrow, a Parquet file.

    poise leaderboard evaluations/
    """
    with failures():
        from poise.io.files import new_file
        from poise.reporting.leaderboard import NO_PARQUET, as_parquet, leaderboard_page, rows_as_csv, rows_below

        rows, path = rows_below(folder), out or folder / "leaderboard.html"
        write(path, leaderboard_page(rows), quiet=json)
        write(path.with_suffix(".csv"), rows_as_csv(rows), quiet=json)
        columns = as_parquet(rows)
        if columns is not None:
            with new_file(path.with_suffix(".parquet")) as stream:
                stream.write(columns)
        if json:
            typer.echo(dumps({"page": str(path), "rows": rows}))
        else:
            typer.echo(NO_PARQUET if columns is None else str(path.with_suffix(".parquet")))
