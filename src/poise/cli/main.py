"""The entry point of `poise`: starts the command line, and exits cleanly on Ctrl-C and other signals.

Exit codes: 0 success, 1 failure (one sentence on stderr gives the reason), 2 invalid call, 130 interrupted.
Nothing here needs other packages at import, so that a missing one is reported in a sentence.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from poise.checks import TORCH, install, is_torch
from poise.errors import INTERRUPTED, DataError


class Interrupted(BaseException):
    """Raised on Ctrl-C. Not a KeyboardInterrupt, since Typer would handle that with its own message."""


def main() -> None:
    sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()
    signal.signal(signal.SIGINT, _Interrupt())
    with termination_as_ctrl_c():
        try:
            run()
        except (Interrupted, KeyboardInterrupt):  # a library may raise the latter during its import
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # exit without a second message
            print("poise: interrupted. Finished work is saved; run the same command to continue.", file=sys.stderr)
            sys.exit(INTERRUPTED)


def run() -> None:
    """Run the command; print failures as one sentence."""
    _disable_colours_in_ci()
    try:
        from poise.cli.app import app

        app()
    except SystemExit as end:
        raise SystemExit(_printable(end.code) if isinstance(end.code, str) else end.code) from None
    except DataError as error:
        sys.exit(_printable(f"poise: {error}"))
    except ModuleNotFoundError as error:
        if error.name in ("typer", "rich", "numpy"):
            sys.exit(f"poise: the command line needs more packages: {install('cli')}")
        if not is_torch(error):
            raise
        sys.exit(f"poise: this command {TORCH}")
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO) or error.filename is not None:
            raise
        sys.exit(f"poise: the output cannot be written: {error.strerror}")


def _printable(sentence: str) -> str:
    from poise.io.documents import printable

    return printable(sentence)


def _disable_colours_in_ci() -> None:
    """Disable the colours that Typer uses in pipes of GitHub's runners, unless FORCE_COLOR or PY_COLORS is set."""
    asked = any(os.environ.get(name) for name in ("FORCE_COLOR", "PY_COLORS"))
    if os.environ.get("GITHUB_ACTIONS") and not asked:
        os.environ["_TYPER_FORCE_DISABLE_TERMINAL"] = "1"


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


@contextmanager
def termination_as_ctrl_c() -> Iterator[None]:
    """Handle SIGTERM and SIGHUP, which batch systems and closed terminals send, like Ctrl-C.

    This excludes signals that the caller ignores, as nohup does; distributed training, where a process may be waiting
    for others and would not handle the signal; and forked processes.
    """
    owner = os.getpid()

    def answer(number: int, _: object) -> None:
        if os.getpid() == owner:
            signal.raise_signal(signal.SIGINT)
        else:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    ends = [number for number in signal.Signals if number.name in ("SIGTERM", "SIGHUP") and "RANK" not in os.environ]
    ours = [number for number in ends if signal.getsignal(number) == signal.SIG_DFL]
    with suppress(ValueError):  # not in the main thread
        for number in ours:
            signal.signal(number, answer)
    try:
        yield
    finally:
        with suppress(ValueError):
            for number in ours:
                signal.signal(number, signal.SIG_DFL)
