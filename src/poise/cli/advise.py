"""`poise advise`: which method suits your own network and data."""

from __future__ import annotations

import sys
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from poise.cli.options import Json, Quiet, describe_os_error, device_of, failures, print_to_stderr, usage
from poise.cli.progress import counting
from poise.cli.reproduce import Device

_MINUTES = "Time limit. Run the same command again to continue."


def advise(
    file: Annotated[
        Path,
        typer.Argument(metavar="RECIPE", help="A Python file that defines network and train. It is executed."),
    ],
    minutes: Annotated[float, typer.Option(min=0.01, metavar="N", help=_MINUTES)] = 10.0,
    out: Annotated[
        Path | None, typer.Option(help="The folder for the answer and all runs. By default advice/<RECIPE>.")
    ] = None,
    test: Annotated[
        bool, typer.Option("--test", help="Then test the chosen method and cross-entropy on the recipe's test set.")
    ] = False,
    accept_loss: Annotated[
        float, typer.Option(min=0, max=1, metavar="N", help="How much a recommended method may lose in a column.")
    ] = 0.01,
    device: Device = "auto",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Find out which method suits your data: it tries each one and measures what it gains and costs.

    poise advise examples/own_data.py

    poise advise my_data.py --minutes 30 --test
    """
    if not file.is_file():
        raise typer.BadParameter(f"{file} is not a file")
    folder = out or Path("advice") / file.stem
    place = device_of(device)
    with failures(), print_to_stderr(json):
        found = _advised(file, folder, minutes, accept_loss, test, place, quiet)
    typer.echo(dumps(found) if json else _text(found, folder))


def _advised(
    file: Path, out: Path, minutes: float, accepted: float, test: bool, device: Any, quiet: bool
) -> dict[str, Any]:
    from poise.advising.advice import advise, require_fitting, with_test
    from poise.advising.own_data import read_recipe
    from poise.errors import DataError, TrainingError

    try:
        with usage():
            data = read_recipe(file)
            if test and data.test is None:
                raise ValueError(f"{file} does not define test: set test to (x, y), or omit --test")
            require_fitting(data, device)
        with counting("runs", quiet) as report:
            found = advise(data, out, minutes, device, report, accepted)
        return with_test(data, out, found, device) if test and found["chosen"] else found
    except (TrainingError, DataError) as error:
        sys.exit(f"poise: {error}")
    except OSError as error:
        sys.exit(f"poise: {describe_os_error(error, out)}; finished runs are saved")


def _text(found: dict[str, Any], out: Path) -> str:
    """The answer for a terminal."""
    from poise.reporting.advice_page import answer_text

    return f"{answer_text(found)}\n{out / 'advice.html'}"
