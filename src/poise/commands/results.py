"""What the commands about results share: failures as one sentence, and files that appear whole."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import typer


@contextmanager
def failures() -> Iterator[None]:
    """One sentence and exit code 1."""
    try:
        from poise.reporting.records import RecordError
        from poise.reporting.statistics import summary as _  # noqa: F401, needs numpy and scipy
    except ModuleNotFoundError as error:
        sys.exit(f'poise: {error.name} is missing: pip install "poise[experiments]"')
    try:
        yield
    except RecordError as error:
        sys.exit(f"poise: {error}")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has seen enough
    except OSError as error:
        sys.exit(f"poise: {error.filename or ''}: {error.strerror or error}")


def write(path: Path, content: str) -> None:
    """Write a file whole or not at all, and say so."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(content, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        sys.exit(f"poise: {path} cannot be written: {error.strerror or error}")
    finally:
        with suppress(OSError):
            part.unlink()
    typer.echo(str(path))
