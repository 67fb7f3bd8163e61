"""Ctrl-C before there is anything to keep, and what else ends a program like Ctrl-C."""

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
    """SIGTERM and SIGHUP, as batch systems and closed terminals send them, are answered as Ctrl-C is.

    Not what the caller has told us to ignore, as nohup does; nor where one of several processes may be waiting for the
    others and would not hear it; nor in processes that are forked from this one.
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
    """For imports and loading. An exception would not do: a library that is interrupted while it is imported may keep
    it to itself, stay half imported, and fail later in words of its own."""

    def leave(*_: object) -> NoReturn:
        sys.stdout.flush()
        os.write(2, f"poise: {sentence}\n".encode())
        os._exit(INTERRUPTED)

    before = signal.getsignal(signal.SIGINT)
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, leave)
    try:
        yield
    except KeyboardInterrupt:  # from a library that answers Ctrl-C itself
        print(f"poise: {sentence}", file=sys.stderr)
        sys.exit(INTERRUPTED)
    finally:
        with suppress(ValueError):
            signal.signal(signal.SIGINT, before)
