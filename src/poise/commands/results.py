"""What the commands about results share: failures as one sentence, and a file instead of the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from poise.whole import new_file


@contextmanager
def failures() -> Iterator[None]:
    """One sentence and exit code 1."""
    try:
        from poise.reporting.files import RecordError
        from poise.reporting.statistics import summary as _  # noqa: F401, needs numpy and scipy
    except ModuleNotFoundError as error:
        sys.exit(f'poise: {error.name} is missing: pip install "poise[experiments]"')
    try:
        yield
    except RecordError as error:
        sys.exit(f"poise: {error}")
    except BrokenPipeError:
        raise  # the reader has seen enough, which the command line's library answers with silence
    except OSError as error:
        sys.exit(f"poise: {error.filename or ''}: {error.strerror or error}")


def write(path: Path, content: str) -> None:
    """Write a file, and say so."""
    try:
        with new_file(path) as stream:
            stream.write(content.encode())
    except OSError as error:
        sys.exit(f"poise: {path} cannot be written: {error.strerror or error}")
    typer.echo(str(path))
