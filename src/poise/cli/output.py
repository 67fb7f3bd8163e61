"""What commands share: options for scripts, failures as one sentence, and a file instead of the terminal."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from poise.checks import install
from poise.io.files import new_file

Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


class _PlainFlags:
    """A flag takes no value, so its help names no type."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class Command(_PlainFlags, TyperCommand):
    """A command of Poise."""


class Group(_PlainFlags, TyperGroup):
    """A group of commands of Poise."""


def apart(json: bool) -> AbstractContextManager[object]:
    """For code of the user: with --json, what it prints goes to stderr, so that stdout is one document."""
    return redirect_stdout(sys.stderr) if json else nullcontext()


@contextmanager
def usage(option: str | None = None) -> Iterator[None]:
    """A value that cannot be is a wrong call: exit code 2."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


@contextmanager
def failures() -> Iterator[None]:
    """One sentence and exit code 1."""
    from poise.io.json_files import RecordError

    try:
        import poise.reporting.statistics  # noqa: F401, fails at once without scipy

        yield
    except ModuleNotFoundError as error:
        if (package := (error.name or "").partition(".")[0]) not in ("jinja2", "markupsafe", "scipy"):
            raise
        sys.exit(f"poise: {package} is missing: {install('experiments')}")
    except RecordError as error:
        sys.exit(f"poise: {error}")
    except BrokenPipeError:
        raise  # the reader has seen enough, which the command line's library answers with silence
    except OSError as error:
        sys.exit(f"poise: {error.filename or 'the output cannot be written'}: {error.strerror or error}")


def told(error: OSError, out: Path, option: str = "--out") -> str:
    """Which file, what is wrong with it and, if it is one of the output, what to do."""
    if error.errno is None:
        return str(error)  # a sentence of ours
    ours = error.filename is None or Path(str(error.filename)).is_relative_to(out)
    return f"{error.filename or out}: {error.strerror or error}{_remedy(error, option) if ours else ''}"


def _remedy(error: OSError, option: str) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"; free some space, or choose another {option}"
    cannot = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG)
    return f"; choose another {option}" if error.errno in cannot else ""


def write(path: Path, content: str, quiet: bool = False) -> None:
    """Write a file, and say so; a sentence and exit code 1 if it cannot be."""
    try:
        with new_file(path) as stream:
            stream.write(content.encode())
    except OSError as error:
        made = "; create its folder first" if error.errno == errno.ENOENT else _remedy(error, "--out")
        sys.exit(f"poise: {path} cannot be written: {error.strerror or error}{made}")
    if not quiet:
        typer.echo(str(path))
