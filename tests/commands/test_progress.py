"""What a run says of itself: losses, examples a second and the time that is left, with a terminal and without."""

import io
import re

import pytest
from rich.console import Console

from poise.commands import progress
from poise.experiments.logs import Event
from poise.training.loop import Now

LOSS = {"loss": {"xe": 0.25, "contrast": 2.5}}


def event(batch: int, last: dict | None = None) -> Event:
    """So many of the 100 batches of the second of four epochs."""
    return Event("FCL", 3, "is trained", Now(1, 4, batch, 100, 128, 0.0, last))


def test_a_pipe_is_told_the_throughput(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    clock = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock)
    with progress.bars() as listen:
        for second, batch, last in ((0.0, 10, None), (20.0, 30, None), (40.0, 50, LOSS), (45.0, 60, LOSS)):
            clock = second
            listen(event(batch, last))
    # a batch of 128 each second, and 400 - 130, then 400 - 150 batches to go
    assert capsys.readouterr().err.splitlines() == [
        "FCL, seed 3, is trained",
        "FCL, seed 3, is trained: epoch 2 of 4, 128 examples/s, 4:30 left",
        "FCL, seed 3, is trained: epoch 2 of 4, xe 0.25  contrast 2.5, 128 examples/s, 4:10 left",
    ]


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
