"""What a run says of itself: losses, examples a second and the time that is left, with a terminal and without."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from poise.cli import data, progress
from poise.running.record import Event
from poise.training.loop import Now

LOSS = {"loss": {"xe": 0.25, "contrast": 2.5}}


def event(batch: int, last: dict | None = None) -> Event:
    """So many of the 100 batches of the second of four epochs."""
    return Event("FCL", 3, "training", Now(1, 4, batch, 100, 128, 0.0, last))


def test_a_pipe_is_told_the_throughput(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    clock = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock)
    with progress.bars() as listen:
        for second, batch, last in ((0.0, 10, None), (20.0, 30, None), (40.0, 50, LOSS), (45.0, 60, LOSS)):
            clock = second
            listen(event(batch, last))
    # a batch of 128 each second, and 400 - 130, then 400 - 150 batches to go
    assert capsys.readouterr().err.splitlines() == [
        "training FCL (seed 3)",
        "training FCL (seed 3): epoch 2 of 4, 128 examples/s, 4:30 left",
        "training FCL (seed 3): epoch 2 of 4, xe 0.25  contrast 2.5, 128 examples/s, 4:10 left",
    ]


def test_a_name_with_markup_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=150)
    monkeypatch.setattr(progress, "Console", lambda **_: terminal)
    with progress.bars() as listen:
        listen(replace(event(10, {"loss": {"[/y]": 0.25}}), method="XE [/x] [bold]"))
    assert "XE [/x] [bold]" in screen.getvalue() and "[/y] 0.25" in screen.getvalue()


def test_a_terminal_is_shown_the_throughput(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=150)
    monkeypatch.setattr(progress, "Console", lambda **_: terminal)
    with progress.bars() as listen:
        for batch in (10, 20, 30):
            listen(event(batch, LOSS))
            terminal.file.flush()
    assert "contrast 2.5" in screen.getvalue() and re.search(r"[\d,]+ examples/s", screen.getvalue())


@pytest.mark.parametrize(("speed", "words"), [(None, ""), (0.01, "1.3 examples/s"), (400.0, "51,200 examples/s")])
def test_a_rate_is_read_at_a_glance(speed: float | None, words: str) -> None:
    assert progress._rate(Now(0, 1, 1, 10, 128, 0.0, None), speed) == words


def last_line(screen: io.StringIO) -> str:
    """What a terminal shows in the end."""
    shown = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", screen.getvalue())
    return [line for line in re.split(r"[\r\n]+", shown) if line.strip()][-1]


@pytest.mark.parametrize("width", [60, 80, 100, 150])
def test_a_narrow_terminal_is_shown_the_time_left(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=width)
    monkeypatch.setattr(progress, "Console", lambda **_: terminal)
    with progress.bars() as listen:
        for batch in (10, 20, 30):
            now = event(batch, LOSS)
            listen(replace(now, method="CL+Gaussian, batch statistics", detail=", epochs shared with other methods"))
    assert re.search(r"training CL\+Gaussian.* (\d+:\d\d:\d\d|-:--:--) left *$", last_line(screen))
    screen.truncate(0)
    with progress.counting("examples") as report:
        for done in (10, 20):
            report("torchvision:resnet50 and a name of many letters", done, 1000)
    assert re.search(r"torch.* 20/1000 examples, [\d,]+/s, \d+:\d\d left *$", last_line(screen))


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_terminal_is_shown_the_time_a_download_takes(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=width)
    monkeypatch.setattr(data, "Console", lambda **_: terminal)
    with data._progress(quiet=False) as report:
        for done in (10, 20):
            report("https://data.example.org/pub/cifar-10-python.tar.gz", done * 10**6, 170_500_000)
    assert re.search(r"https.* 20.0/170.5 MB .*(\d+:\d\d:\d\d|-:--:--) left *$", last_line(screen))
