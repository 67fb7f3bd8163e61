"""Progress on a terminal: how far, how fast, how long still; nothing in a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


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


@contextmanager
def bars(quiet: bool = False) -> Iterator[Any]:
    """A listener that draws a bar for each run on a terminal; in a pipe a line for each run that begins or ends."""
    console = Console(stderr=True, quiet=quiet)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[loss]}"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        runs: dict[tuple[str, int], TaskID] = {}
        said: set[str] = set()

        def listen(event: Any) -> None:
            line = f"{event.method}, seed {event.seed}, {event.what}"
            run = (event.method, event.seed)
            if event.now is None and run in runs:
                shown.remove_task(runs.pop(run))  # it is trained, or it is lost and begins anew
            elif event.now is not None:
                now = event.now
                runs[run] = runs[run] if run in runs else shown.add_task(line, total=None, loss="")
                loss = "" if now.last is None else "  ".join(f"{k} {v:.3g}" for k, v in now.last["loss"].items())
                done, total = now.epoch * now.batches + now.batch, now.epochs * now.batches
                shown.update(runs[run], description=line, completed=done, total=total, loss=loss)
            if line not in said and not console.is_terminal:
                console.print(line, highlight=False, markup=False, soft_wrap=True)
            said.add(line)

        yield listen
