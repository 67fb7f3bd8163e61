"""Atomic writes of single files and of sets of files, and folder locks.

A file is written to a temporary file, a part, and renamed to its final name when it is complete. The writer holds a
lock on the part until then, so a later process recognizes the parts of a dead one and removes them.

A folder lock lets one process at a time work in a folder. The operating system releases all locks of a process that
ends, however it ends. A forked child, such as a worker that decodes images, does not inherit the folder locks of its
parent (`filelock` resets them).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryFile
from typing import BinaryIO
from uuid import uuid4

from filelock import FileLock, Timeout

_WHOLE = "whole"  # in a part: the folder of a set that is complete and being moved
_WINDOWS = os.name == "nt"  # an open file cannot be renamed on Windows, and parts are not locked
_POLL = 0.01  # seconds between two attempts to lock a folder
_ATTEMPT = 0.1  # seconds before an attempt fails: longer than `held` keeps the lock
_PROBE = 0.03  # seconds before `held` reports a lock: longer than another `held` keeps it


@contextmanager
def new_file(path: Path, within: Path | None = None) -> Iterator[BinaryIO]:
    """Open a stream whose content replaces a file when the block ends without an error.

    An OSError names the file. Links are followed. A pipe or a device, such as /dev/stdout, is written to directly.

    within  the top folder of an output of many files. Parts are placed in it, missing folders are created, and the file
            is not synced to disk: a process that continues the output verifies its files and removes parts.
    """
    part = None
    try:
        if within is None and _is_stream(path):
            with path.open("ab") as existing:
                yield existing
            return
        path = Path(os.path.realpath(path)) if within is None and path.is_symlink() else path
        if within is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        else:
            remove_parts(path.parent)
        part, stream = _open(within or path.parent)
        with stream:
            yield stream
            stream.flush()
            if within is None:
                os.fsync(stream.fileno())
            if not _WINDOWS:
                part.replace(path)
        if _WINDOWS:
            part.replace(path)
    except OSError as error:
        if error.errno is None:
            raise OSError(f"{path}: {error}") from None
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        if part is not None:
            with suppress(OSError):
                part.unlink()


def regular(path: Path) -> Path:
    """Return the path, for reading; raises OSError for a pipe, a socket or a device, where reading may never end.

    Links are followed. A folder passes: opening it raises a clear error.
    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        kind = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}.get(stat.S_IFMT(mode), "a device")
        raise OSError(errno.EINVAL, f"it is {kind}, not a file", str(path))
    return path


def _is_stream(path: Path) -> bool:
    """Whether a path is a pipe, a device, or one of this process's streams, which may be redirected to a file."""
    stream = path.is_symlink() and path.is_relative_to("/dev")
    return stream or (path.exists() and not path.is_file() and not path.is_dir())


@contextmanager
def new_files(home: Path, last: str) -> Iterator[Path]:
    """Yield a folder for a set of files. When the block ends, they move to `home`, the file `last` after all others.

    If a file cannot be written, none of them moves and `home` is unchanged. If the process is killed between two moves,
    the next `remove_parts` completes them. An OSError names the file by its path in `home`.
    """
    missing = _missing(home)
    try:
        home.mkdir(parents=True, exist_ok=True)
        remove_parts(home)
        with _part_of(home) as part:
            stage = part / "stage"
            stage.mkdir()
            try:
                yield stage
                _discard(home)
                _move(stage.rename(part / _WHOLE), home, last)
            except OSError as error:
                if error.errno is None:
                    raise
                named = (
                    str(error.filename or home).replace(str(stage), str(home)).replace(str(part / _WHOLE), str(home))
                )
                raise OSError(error.errno, error.strerror, named) from None
    finally:
        _remove_empty(missing)


@contextmanager
def _part_of(home: Path) -> Iterator[Path]:
    """Create and lock a folder among the parts of `home`; removes it at the end unless it holds a complete set."""
    while True:
        part = home / f".poise-{uuid4().hex}.part"
        part.mkdir()
        with _held(part):
            if not part.exists():  # another process removed it before it was locked
                continue
            try:
                yield part
            finally:
                if not (part / _WHOLE).exists():
                    rmtree(part, ignore_errors=True)
            return


def _move(whole: Path, home: Path, last: str = "") -> None:
    """Move all files of a set to their places, also if interrupted by Ctrl-C; then remove the folder."""
    try:
        _replace(whole, home, last)
    except OSError:
        raise
    except BaseException:
        _replace(whole, home, last)
        rmtree(whole)
        raise
    rmtree(whole)


def _replace(whole: Path, home: Path, last: str) -> None:
    for file in sorted(whole.rglob("*"), key=lambda path: path == whole / last):
        place = home / file.relative_to(whole)
        place.mkdir(exist_ok=True) if file.is_dir() else file.replace(place)


def is_mixed(home: Path) -> bool:
    """Whether the move of a set was interrupted, so that only some of its files are in place."""
    return any(home.glob(f".poise-*.part/{_WHOLE}"))


def _discard(home: Path) -> None:
    """Remove complete sets that dead processes did not move: a newer set replaces them."""
    for whole in home.glob(f".poise-*.part/{_WHOLE}"):
        with _held(whole.parent) as ours:
            if ours:
                rmtree(whole.parent)


def require_writable(folder: Path) -> None:
    """Raise an OSError that names the folder unless a file can be written into it; leaves nothing behind."""
    missing = _missing(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder) as stream:
            stream.write(b"0")
            stream.flush()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from None
    finally:
        _remove_empty(missing)


def _missing(folder: Path) -> list[Path]:
    """The folder and its parents that do not exist, innermost first."""
    return [each for each in (folder, *folder.parents) if not each.exists()]


def _remove_empty(folders: list[Path]) -> None:
    for each in folders:
        with suppress(OSError):
            each.rmdir()


def remove_parts(folder: Path) -> None:
    """Remove the parts of dead processes; first complete the move of a complete set."""
    with suppress(OSError):
        for part in list(folder.glob(".poise-*.part")):
            with suppress(OSError), _held(part) as ours:
                if ours:
                    _clear(part, folder)


def _clear(part: Path, home: Path) -> None:
    if not part.is_dir():
        part.unlink()
        return
    if (part / _WHOLE).exists():
        _move(part / _WHOLE, home)
    rmtree(part)


def is_part(path: Path) -> bool:
    """Whether a path is an unfinished file."""
    return path.name.startswith(".poise-") and path.suffix == ".part"


def _open(folder: Path) -> tuple[Path, BinaryIO]:
    """Create and lock a part. Another process may remove it before it is locked: then create another one."""
    while True:
        part = folder / f".poise-{uuid4().hex}.part"
        stream = part.open("xb")
        _lock(stream)
        if part.exists():
            return part, stream
        stream.close()


@contextmanager
def _held(part: Path) -> Iterator[bool]:
    """Lock a file or folder for the block; yields False if it cannot be locked."""
    with ExitStack() as stack:
        ours = False
        with suppress(OSError):
            number = os.open(part, os.O_RDONLY if part.is_dir() else os.O_RDWR)
            stack.callback(os.close, number)
            ours = _lock(number)
        yield ours


def _lock(file: BinaryIO | int) -> bool:
    """Lock a file; False if another process holds the lock or the system has no such locks."""
    with suppress(ImportError, OSError):
        import fcntl  # not on Windows

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


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
    """Like wait_lock, for commands that run in one process; does not import torch."""
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
