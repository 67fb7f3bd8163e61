"""Progress on a terminal: how far, how fast, how long still; nothing in a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def counting(unit: str, quiet: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """A report(what, done, total) that draws one bar."""
    console = Console(stderr=True, quiet=quiet)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{unit}, {{task.fields[rate]}}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task("", total=None, rate="")

        def report(what: str, done: int, total: int) -> None:
            speed = bars.tasks[0].speed
            bars.update(task, description=what, completed=done, total=total, rate=f"{speed:,.0f}/s" if speed else "")

        yield report
