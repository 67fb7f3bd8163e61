"""The command `poise`, and `python -m poise`."""

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
    """Ctrl-C. Not a KeyboardInterrupt, which the command line's library would answer in its own words."""


def main() -> None:
    sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()
    signal.signal(signal.SIGINT, _Interrupt())
    with termination_as_ctrl_c():
        try:
            _run()
        except (Interrupted, KeyboardInterrupt):  # the latter from a library that answers Ctrl-C while it is imported
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the way out is short: nothing more needs to be said
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
    """For a stream that the shell has closed, as `>&-` does."""
    return Path(os.devnull).open("w")


class _Interrupt:
    """Raises Interrupted, once a second at most: shells, `timeout` and impatient fingers send it twice, and the second
    must not meet the first on its way out."""

    last = float("-inf")

    def __call__(self, *_: object) -> None:
        if time.monotonic() - self.last > 1:
            self.last = time.monotonic()
            raise Interrupted


if __name__ == "__main__":
    main()
