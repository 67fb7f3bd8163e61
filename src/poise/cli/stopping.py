"""Signals: Ctrl-C before there is work to save, and other signals that stop a command like Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

INTERRUPTED = 130


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


@contextmanager
def exit_on_ctrl_c(sentence: str) -> Iterator[None]:
    """Print a sentence and exit on Ctrl-C, during imports and loading.

    An exception would not be reliable: a library may catch it during its import, and fail later.
    """

    def leave(*_: object) -> NoReturn:
        sys.stdout.flush()
        os.write(2, f"poise: {sentence}\n".encode())
        os._exit(INTERRUPTED)

    before = signal.getsignal(signal.SIGINT)
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, leave)
    try:
        yield
    except KeyboardInterrupt:  # raised by a library with its own handler
        print(f"poise: {sentence}", file=sys.stderr)
        sys.exit(INTERRUPTED)
    finally:
        with suppress(ValueError):
            signal.signal(signal.SIGINT, before)
