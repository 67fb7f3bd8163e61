"""Folder locks: one process at a time works in a folder.

The operating system releases the lock of a process that ends, however it ends. A forked child, such as a worker that
decodes images, does not inherit the locks of its parent (`filelock` resets them).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

_POLL = 0.01  # seconds between two attempts
_ATTEMPT = 0.1  # seconds before an attempt fails: longer than `held` keeps the lock
_PROBE = 0.03  # seconds before `held` reports a lock: longer than another `held` keeps it


class Busy(Exception):
    """Another process has locked the folder."""


@contextmanager
def try_lock(folder: Path, seconds: float = _ATTEMPT) -> Iterator[bool]:
    """Lock a folder for the block; yields False if another process holds it for the next `seconds`.

    In distributed training the first process locks it for all; call it in every process.
    """
    from poise.distributed import rank, share  # the other locks need no torch

    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")
    try:
        yield share(_acquired(lock, seconds) if rank() == 0 else False)
    finally:
        lock.release()


@contextmanager
def wait_lock(folder: Path, pause: float = 0.5) -> Iterator[None]:
    """Lock a folder for the block, waiting for as long as other processes hold it.

    pause  seconds of an attempt, after which all processes of a distributed run meet.
    """
    while True:
        with try_lock(folder, pause) as locked:
            if locked:
                yield
                return


@contextmanager
def wait_lock_alone(folder: Path) -> Iterator[None]:
    """Like wait_lock, for commands that are always one process: it needs no torch."""
    with FileLock(folder / ".lock"):
        yield


@contextmanager
def require_lock(folder: Path) -> Iterator[None]:
    """Lock a folder for the block; raises Busy if another process holds it."""
    with try_lock(folder) as locked:
        if not locked:
            raise Busy
        yield


def held(folder: Path) -> bool:
    """Whether a process holds the lock of a folder. A missing folder is not created.

    Takes the lock for an instant, so an attempt of another process at that moment succeeds a little later.
    """
    lock = FileLock(folder / ".lock")
    try:
        return Path(lock.lock_file).exists() and not _acquired(lock, _PROBE)
    except (FileNotFoundError, PermissionError):  # removed meanwhile, or the file of another user
        return False
    finally:
        lock.release()


def _acquired(lock: FileLock, seconds: float) -> bool:
    try:
        lock.acquire(timeout=seconds, poll_interval=_POLL)
    except Timeout:
        return False
    return True
