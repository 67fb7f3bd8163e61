"""A watchdog process that ends the Ray processes started by this one, even if this one is killed.

It recognizes Ray's processes by their open files: the name of a session's folder contains its start time and the id of
the process that started it. Their environment cannot be used, since they overwrite it with their titles. This file runs
as a script and imports nothing of Poise.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

_PROCESSES = Path("/proc")
_ROUNDS, _PAUSE = 200, 0.05  # seconds: a process may start another one during a round


@contextmanager
def ended_with_us() -> Iterator[None]:
    """End a Ray that is started in this block when the block or this process ends; Linux only."""
    if not sys.platform.startswith("linux"):
        yield
        return
    command = [sys.executable, "-I", "-S", __file__, f"{os.getpid()}", f"{datetime.now():%Y-%m-%d_%H-%M-%S_%f}"]
    nothing = subprocess.DEVNULL
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, cwd="/", start_new_session=True
    ):
        yield


def _end_all(starter: str, since: str) -> None:
    """Kill the processes of sessions that `starter` has started after `since`, but not `starter` itself."""
    for _ in range(_ROUNDS):
        others = [each for each in _PROCESSES.glob("[0-9]*") if each.name != starter]
        found = [int(each.name) for each in others if any(_in_session(each, starter, since))]
        for number in found:
            with suppress(OSError):
                os.kill(number, signal.SIGKILL)
        if not found:
            return
        time.sleep(_PAUSE)


def _in_session(process: Path, starter: str, since: str) -> Iterator[bool]:
    """For each open file of a process, whether it belongs to such a session."""
    with suppress(OSError):  # another user's process, or it has ended
        for file in (process / "fd").iterdir():
            with suppress(OSError):
                session = re.search(rf"/session_([-_\d]+)_{starter}/", os.readlink(file))
                yield session is not None and session[1] >= since


if __name__ == "__main__":
    sys.stdin.buffer.read()  # returns when the process at the other end has ended
    _end_all(*sys.argv[1:])
