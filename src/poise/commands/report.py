"""`poise report`: one self-contained page about finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from poise.commands.results import failures, write


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of runs: one experiment, or several.")],
    out: Annotated[Path | None, typer.Option(help="The page; by default report.html in DIR.")] = None,
) -> None:
    """Write a page with tables, differences, learning curves, corruptions, classes, figures and recipes.

    It needs no network and no script, and can be mailed as one file.

    poise report runs/synthetic-mnist
    """
    with failures():
        from poise.reporting.page import page
        from poise.reporting.records import load

        write(out or folder / "report.html", page(load(folder)))
