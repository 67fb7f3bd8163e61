"""The command `poise`, and `python -m poise`."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import TextIO

from poise.extras import install


class Interrupted(BaseException):
    """Ctrl-C, or another signal that ends us. Not a KeyboardInterrupt, which the command line's library would answer in
    its own words."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main() -> None:
    sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()
    answered = _listen()
    try:
        _run()
    except (
        Interrupted,
        KeyboardInterrupt,
    ) as end:  # the latter from a library that answers Ctrl-C itself while it is imported
        for number in answered:
            signal.signal(number, signal.SIG_IGN)  # the way out is short: nothing more needs to be said
        print("poise: interrupted; what is whole is kept, and the same command goes on from there", file=sys.stderr)
        sys.exit(128 + getattr(end, "number", signal.SIGINT))


def _listen() -> list[signal.Signals]:
    """Answer Ctrl-C and, as batch systems and closed terminals send them, SIGTERM and SIGHUP: which are answered.

    Not the latter where one of several processes of a run may be waiting for the others: it would not hear them. Nor
    what the caller has told us to ignore, as nohup does.
    """
    ends = [number for number in signal.Signals if number.name in ("SIGTERM", "SIGHUP") and "RANK" not in os.environ]
    answered = [signal.SIGINT, *(number for number in ends if signal.getsignal(number) == signal.SIG_DFL)]
    answer = _Interrupt()
    for number in answered:
        signal.signal(number, answer)
    return answered


def _run() -> None:
    try:
        from poise.cli import run

        run()
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "numpy"):
            raise
        sys.exit(f"the command line needs a few packages more: {install('cli')}")


def _nowhere() -> TextIO:
    """For a stream that the shell has closed, as `>&-` does."""
    return Path(os.devnull).open("w")


class _Interrupt:
    """Raises Interrupted, once a second at most: shells, `timeout` and impatient fingers send a signal twice, and the
    second must not meet the first on its way out."""

    last = float("-inf")

    def __call__(self, number: int, _: object) -> None:
        if time.monotonic() - self.last > 1:
            self.last = time.monotonic()
            raise Interrupted(number)


if __name__ == "__main__":
    main()
