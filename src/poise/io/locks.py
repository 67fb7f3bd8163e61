"""Locks on folders: one process at a time."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_HELD: set[IO[str]] = set()


class Busy(Exception):
    """Another process is at it."""


def _give_up() -> None:
    """A forked process, one that decodes pictures say, holds no folder: it may live on for seconds after its parent."""
    for lock in _HELD:
        lock.close()
    _HELD.clear()


os.register_at_fork(after_in_child=_give_up)


@contextmanager
def busy(folder: Path) -> Iterator[bool]:
    """Whether the folder is ours while we are inside; False if another runner is at it. One process asks for all."""
    from poise.distributed import rank, share  # the others here need no torch

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        _HELD.add(lock)
        try:
            yield share(_locked(lock) if rank() == 0 else False)
        finally:
            _HELD.discard(lock)


def held(folder: Path) -> bool:
    """Whether a process is at it; to look does not keep others from it for longer than that."""
    try:
        with (folder / ".lock").open() as lock:
            return not _locked(lock, fcntl.LOCK_SH)
    except FileNotFoundError:
        return False


@contextmanager
def alone(folder: Path, pause: float = 0.5) -> Iterator[None]:
    """The folder for ourselves; another process that is at it is waited for, with a look every `pause` seconds."""
    while True:
        with busy(folder) as mine:
            if mine:
                yield
                return
        time.sleep(pause)


@contextmanager
def waited_for(folder: Path) -> Iterator[None]:
    """Like alone, for commands that are always one process."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def ours(folder: Path) -> Iterator[None]:
    """The folder for ourselves; Busy if another process is at it."""
    with busy(folder) as mine:
        if not mine:
            raise Busy
        yield


def _locked(lock: IO[str], how: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
