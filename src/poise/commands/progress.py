"""Progress: how far, how fast, how long still; a bar on a terminal, and a plain line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Report: TypeAlias = Callable[[str, int, int], None]
EVERY = 15.0  # seconds between two lines; what is done before has none


@contextmanager
def counting(unit: str, quiet: bool = False) -> Iterator[Report]:
    """A report(what, done, total) that draws one bar, or writes lines to stderr where that is no terminal."""
    console = Console(stderr=True, quiet=quiet)
    if not console.is_terminal:
        yield _silent if quiet else _lines(unit)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{unit}, {{task.fields[rate]}}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task("", total=None, rate="")

        def report(what: str, done: int, total: int) -> None:
            speed = bars.tasks[0].speed
            bars.update(task, description=what, completed=done, total=total, rate=f"{speed:,.0f}/s" if speed else "")

        yield report


def _silent(what: str, done: int, total: int) -> None:
    """Says nothing."""


def _lines(unit: str) -> Report:
    """`net: 32 of 100 examples, 0.8/s, 1:25 left`."""
    begin = last = time.monotonic()

    def report(what: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < EVERY or not done:
            return
        last, speed = now, done / (now - begin)
        minutes, seconds = divmod(round(max(0, total - done) / speed), 60)
        typer.echo(f"{what}: {done} of {total} {unit}, {speed:,.2g}/s, {minutes}:{seconds:02d} left", err=True)

    return report
