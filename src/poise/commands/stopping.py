"""Ctrl-C before there is anything to keep: the program ends there and then, with one sentence."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

INTERRUPTED = 130


@contextmanager
def ending_at_once(sentence: str) -> Iterator[None]:
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
