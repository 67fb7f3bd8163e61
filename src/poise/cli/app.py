"""The `poise` command: registers all commands, and starts without importing torch.

Exit codes: 0 success, 1 failure (one sentence on stderr gives the reason), 2 invalid call, 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Annotated

import typer

from poise import __version__
from poise.checks import TORCH, is_torch
from poise.cli import reproduce
from poise.cli.advise import advise
from poise.cli.audit import audit
from poise.cli.bench import bench
from poise.cli.corrupt import corrupt
from poise.cli.data import data
from poise.cli.options import Command, Group
from poise.cli.pack import pack
from poise.cli.report import report
from poise.cli.sweep import sweep
from poise.cli.table import table
from poise.errors import DataError
from poise.io.documents import printable

app = typer.Typer(cls=Group, no_args_is_help=True, pretty_exceptions_enable=False, help="Feature contrastive learning.")
app.add_typer(data, name="data")
app.command("list", cls=Command)(reproduce.list_experiments)
app.command(cls=Command)(reproduce.reproduce)
app.command(cls=Command)(reproduce.run)
app.command(cls=Command)(advise)
app.command(cls=Command)(sweep)
app.command(cls=Command)(table)
app.command(cls=Command)(report)
app.command(cls=Command)(pack)
app.command(cls=Command)(audit)
app.command(cls=Command)(corrupt)
app.command(cls=Command)(bench)


def _print_version(asked: bool) -> None:
    """Print the versions; that of torch is read from its metadata, without importing it."""
    if asked:
        from importlib import metadata

        try:
            torch = f"torch {metadata.version('torch')}"
        except metadata.PackageNotFoundError:
            torch = "torch is missing"
        typer.echo(f"poise {__version__}, {torch}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the versions of Poise and torch."),
    ] = False,
) -> None:
    """Options before a command."""


def run() -> None:
    """Run the command; print failures as one sentence."""
    try:
        _run()
    except SystemExit as end:
        raise SystemExit(printable(end.code) if isinstance(end.code, str) else end.code) from None


def _run() -> None:
    _disable_colours_in_ci()
    try:
        app()
    except DataError as error:
        sys.exit(f"poise: {error}")
    except ModuleNotFoundError as error:
        if not is_torch(error):
            raise
        sys.exit(f"poise: this command {TORCH}")
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO) or error.filename is not None:
            raise
        sys.exit(f"poise: the output cannot be written: {error.strerror}")


def _disable_colours_in_ci() -> None:
    """Disable the colours that Typer uses in pipes of GitHub's runners, unless FORCE_COLOR or PY_COLORS is set."""
    asked = any(os.environ.get(name) for name in ("FORCE_COLOR", "PY_COLORS"))
    if os.environ.get("GITHUB_ACTIONS") and not asked:
        os.environ["_TYPER_FORCE_DISABLE_TERMINAL"] = "1"
