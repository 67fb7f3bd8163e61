"""The entry point of `poise` and `python -m poise`."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import TextIO

from poise.checks import install
from poise.cli.stopping import INTERRUPTED, termination_as_ctrl_c


class Interrupted(BaseException):
    """Raised on Ctrl-C. Not a KeyboardInterrupt, since Typer would handle that with its own message."""


def main() -> None:
    sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()
    signal.signal(signal.SIGINT, _Interrupt())
    with termination_as_ctrl_c():
        try:
            _run()
        except (Interrupted, KeyboardInterrupt):  # a library may raise the latter during its import
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # exit without a second message
            print("poise: interrupted. Finished work is saved; run the same command to continue.", file=sys.stderr)
            sys.exit(INTERRUPTED)


def _run() -> None:
    try:
        from poise.cli.app import run

        run()
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "numpy"):
            raise
        sys.exit(f"poise: the command line needs more packages: {install('cli')}")


def _nowhere() -> TextIO:
    """A replacement for a stream that the shell has closed with `>&-`."""
    return Path(os.devnull).open("w")


class _Interrupt:
    """Raises Interrupted, at most once a second.

    Shells, `timeout` and users may send the signal twice; the second must not interrupt the exit.
    """

    last = float("-inf")

    def __call__(self, *_: object) -> None:
        if time.monotonic() - self.last > 1:
            self.last = time.monotonic()
            raise Interrupted


if __name__ == "__main__":
    main()
