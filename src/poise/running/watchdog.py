"""A process that outlives this one, even where it is killed outright, and ends the Ray that this one has started.

Ray's processes are known by the files that they hold open: those of a session, whose name says when and by whom it was
started. Their environment is no sign, since they write their titles over it. This file is run as a script, and imports
nothing of Poise.
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
_LOOKS, _PAUSE = 200, 0.05  # seconds: a process may start another one while we look


@contextmanager
def ended_with_us() -> Iterator[None]:
    """A Ray that is started in this block ends with it, or with this process; only on Linux."""
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
    """Kill the processes of sessions that `starter` has begun after `since`, but not itself."""
    for _ in range(_LOOKS):
        others = [each for each in _PROCESSES.glob("[0-9]*") if each.name != starter]
        found = [int(each.name) for each in others if any(_ours(each, starter, since))]
        for number in found:
            with suppress(OSError):
                os.kill(number, signal.SIGKILL)
        if not found:
            return
        time.sleep(_PAUSE)


def _ours(process: Path, starter: str, since: str) -> Iterator[bool]:
    """Whether its open files are of such a session, one by one."""
    with suppress(OSError):  # another user's, or gone
        for file in (process / "fd").iterdir():
            with suppress(OSError):
                session = re.search(rf"/session_([-_\d]+)_{starter}/", os.readlink(file))
                yield session is not None and session[1] >= since


if __name__ == "__main__":
    sys.stdin.buffer.read()  # ends with the process that could write
    _end_all(*sys.argv[1:])
