"""Progress of a command: bars on a terminal, and a line from time to time elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any, TypeAlias

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress_bar import ProgressBar
from rich.table import Column
from rich.text import Text

Report: TypeAlias = Callable[[str, int, int], None]
EVERY = 15.0  # seconds between two lines
FIRST = 5.0  # seconds before the first of work in progress; shorter work prints none


def named_bar(console: Console) -> tuple[ProgressColumn, ...]:
    """A description and a bar. On a narrow terminal both shrink, so that the remaining time stays visible."""
    return _Shrinking("{task.description}", markup=False, table_column=Column(no_wrap=False)), _ShortBar(console)


class _Shrinking(TextColumn):
    """Text that rich truncates instead of wrapping if the terminal is narrow."""

    def render(self, task: Task) -> Text:
        text = super().render(task)
        text.no_wrap, text.overflow = True, "ellipsis"
        return text


class _ShortBar(BarColumn):
    """A bar that leaves room for the text."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console

    def render(self, task: Task) -> ProgressBar:
        self.bar_width = min(40, max(5, self.console.width - 80))
        return super().render(task)


class _IfWide(TextColumn):
    """Text for terminals with at least `least` columns."""

    def __init__(self, text: str, console: Console, least: int) -> None:
        super().__init__(text, markup=False)
        self.console, self.least = console, least

    def render(self, task: Task) -> Text:
        return super().render(task) if self.console.width >= self.least else Text()


@contextmanager
def counting(unit: str, quiet: bool = False) -> Iterator[Report]:
    """A function report(what, done, total) that draws a bar, or prints lines if stderr is not a terminal."""
    console = Console(stderr=True, quiet=quiet)
    if not console.is_terminal:
        yield _silent if quiet else _lines(unit)
        return
    columns = (
        *named_bar(console),
        MofNCompleteColumn(),
        TextColumn(f"{unit}{{task.fields[pace]}}"),
    )
    begin = time.monotonic()
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task("", total=None, pace="")

        def report(what: str, done: int, total: int) -> None:
            pace = f", {_pace(done, total, time.monotonic() - begin)}" if done else ""
            bars.update(task, description=what, completed=done, total=total, pace=pace)

        yield report


def _silent(what: str, done: int, total: int) -> None:
    """Report nothing."""


def _lines(unit: str) -> Report:
    """`net: 32 of 100 examples, 0.8/s, 1:25 left`."""
    begin = time.monotonic()
    following = begin + FIRST

    def report(what: str, done: int, total: int) -> None:
        nonlocal following
        now = time.monotonic()
        if not done:
            typer.echo(f"{what}: measuring {total} {unit}", err=True)
        elif now >= following:
            following = now + EVERY
            typer.echo(f"{what}: {done} of {total} {unit}, {_pace(done, total, now - begin)}", err=True)

    return report


@contextmanager
def announced(sentence: str, quiet: bool = False) -> Iterator[None]:
    """Print a sentence to stderr if the work inside takes longer than `FIRST`."""
    timer = Timer(FIRST, lambda: typer.echo(sentence, err=True))
    timer.daemon = True
    if not quiet:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _pace(done: int, total: int, seconds: float) -> str:
    """`0.8/s, 1:25 left`."""
    speed = done / max(seconds, 1e-9)
    shown = f"{speed:,.0f}" if speed >= 10 else f"{speed:.2g}"
    return f"{shown}/s, {_clock((total - done) / speed)} left"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(max(0, seconds)), 60)
    return f"{minutes}:{rest:02d}"


@contextmanager
def bars(quiet: bool = False) -> Iterator[Any]:
    """A listener that draws a bar for each run; in a pipe it prints a line as a run starts, proceeds and ends."""
    console = Console(stderr=True, quiet=quiet)
    if not console.is_terminal:
        yield _plain_lines(console)
        return
    columns = (
        *named_bar(console),
        _IfWide("{task.fields[loss]}", console, 120),
        _IfWide("{task.fields[rate]}", console, 90),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=console, transient=True) as shown:
        runs: dict[tuple[str, int], TaskID] = {}

        def listen(event: Any) -> None:
            run = (event.method, event.seed)
            if event.now is None and run in runs:
                shown.remove_task(runs.pop(run))  # the run is trained, or lost and starts again
            elif event.now is not None:
                line, (done, total) = _words(event), _steps(event.now)
                runs[run] = runs[run] if run in runs else shown.add_task(line, total=None, loss="", rate="")
                shown.update(runs[run], description=line, completed=done, total=total, loss=_losses(event.now))
                speed = next(task.speed for task in shown.tasks if task.id == runs[run])
                shown.update(runs[run], rate=_rate(event.now, speed))

        yield listen


def _plain_lines(console: Console) -> Callable[[Any], None]:
    begun_lines: dict[str, tuple[float, int]] = {}  # time of the first line, and steps completed by then
    last = time.monotonic()

    def listen(event: Any) -> None:
        nonlocal last
        line, now = _words(event), time.monotonic()
        done, total = (0, 0) if event.now is None else _steps(event.now)
        if line not in begun_lines:
            begun_lines[line] = now, done
        elif done > begun_lines[line][1] and now - last >= EVERY:
            begun, before = begun_lines[line]
            speed = (done - before) / (now - begun)  # steps per second
            parts = (_losses(event.now), _rate(event.now, speed), f"{_clock((total - done) / speed)} left")
            line = ", ".join([f"{line}: epoch {event.now.epoch + 1} of {event.now.epochs}", *filter(None, parts)])
        else:
            return
        last = now
        console.print(line, highlight=False, markup=False, soft_wrap=True)

    return listen


def _words(event: Any) -> str:
    return str(event)


def _steps(now: Any) -> tuple[int, int]:
    return now.epoch * now.batches + now.batch, now.epochs * now.batches


def _rate(now: Any, speed: float | None) -> str:
    """`12,300 examples/s`, from steps per second."""
    rate = (speed or 0.0) * now.batch_size
    return f"{rate:,.0f} examples/s" if rate >= 10 else f"{rate:.2g} examples/s" if rate else ""


def _losses(now: Any) -> str:
    return "" if now.last is None else "  ".join(f"{name} {value:.3g}" for name, value in now.last["loss"].items())
