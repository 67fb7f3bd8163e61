"""Processes forked from one that has imported all it needs: a whole command costs a tenth of a second."""

from __future__ import annotations

import os
import pickle
import resource
import select
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

LIMIT = 60.0  # seconds for what takes a few
MEMORY = 2**30  # bytes for what takes a few megabytes


@dataclass(frozen=True)
class End:
    """How a process ended.

    code   its exit code, minus the number of a signal, None where its time was over.
    value  what its function returned.
    peak   the bytes that it took beyond those it was forked with.
    """

    code: int | None
    value: Any
    out: str
    said: str
    peak: int

    @property
    def refused(self) -> bool:
        """Whether it ended with a sentence of Poise's."""
        lines = self.said.strip().splitlines()
        return self.code == 1 and "Traceback" not in self.said and any(line.startswith("poise: ") for line in lines)

    @property
    def wrong(self) -> str:
        """What is wrong with it; nothing where it is done, or refused."""
        if self.code is None:
            return "it does not end"
        if self.code == 0 or self.refused:
            return ""
        lines = [line for line in self.said.strip().splitlines() if line.strip()]
        how = f"signal {-self.code}" if self.code < 0 else f"exit code {self.code}"
        return f"{how}: {lines[-1][:300] if lines else 'without a word'}"


@dataclass(frozen=True)
class Child:
    """A process that runs a function."""

    pid: int
    files: tuple[IO[bytes], IO[bytes], IO[bytes]]
    base: int

    def wait(self, limit: float = LIMIT) -> End:
        """How it ended; it is killed when its time is over."""
        handle = os.pidfd_open(self.pid)
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        ended = bool(poll.poll(limit * 1000))
        os.close(handle)
        if not ended:
            self.kill()
        _, status, usage = os.wait4(self.pid, 0)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # what it started, where it leads a group
        value, out, said = (_content(file) for file in self.files)
        found = pickle.loads(value) if value else None
        code = os.waitstatus_to_exitcode(status) if ended else None
        return End(code, found, out.decode(errors="replace"), said.decode(errors="replace"), self._beyond(usage))

    def _beyond(self, usage: resource.struct_rusage) -> int:
        return max(usage.ru_maxrss * 1024 - self.base, 0)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def start(function: Callable[[], Any], memory: int | None = None, leads: bool = False) -> Child:
    """Run it in a process of its own.

    memory  the most bytes that it may take beyond those it has.
    leads   its own group, which ends with it.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    files, (size, base) = (TemporaryFile(), TemporaryFile(), TemporaryFile()), _memory()  # noqa: SIM115, the child's
    pid = os.fork()
    if pid:
        return Child(pid, files, base)
    code = 70
    try:
        if leads:
            os.setpgid(0, 0)
        if memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (size + memory, size + memory))
        for file, stream in zip(files[1:], (1, 2), strict=True):
            os.dup2(file.fileno(), stream)
        code = _run(function, files[0])
    finally:
        os._exit(code)


def forked(function: Callable[[], Any], limit: float = LIMIT, memory: int | None = None) -> End:
    """Run it in a process of its own, and see how it ends."""
    return start(function, memory).wait(limit)


def command(*words: object) -> Callable[[], None]:
    """`poise` with these words."""

    def run() -> None:
        from poise.cli.main import main

        sys.argv = ["poise", *map(str, words)]
        main()

    return run


def _run(function: Callable[[], Any], told: IO[bytes]) -> int:
    """The exit code of Python, had it run the function alone."""
    sys.stdin = Path(os.devnull).open()  # noqa: SIM115, for as long as it lives
    sys.stdout, sys.stderr = (
        os.fdopen(1, "w", closefd=False),
        os.fdopen(2, "w", errors="backslashreplace", closefd=False),
    )
    code = 0
    try:
        told.write(pickle.dumps(function()))
        told.flush()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    return code


def _memory() -> tuple[int, int]:
    """Bytes of this process: addresses, and those that are there."""
    size, resident = Path("/proc/self/statm").read_text().split()[:2]
    return int(size) * resource.getpagesize(), int(resident) * resource.getpagesize()


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    with file:
        return file.read()
