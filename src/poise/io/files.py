"""Files that appear whole, or not at all; sets of them that appear together; and files that can be read to their end.

Each is written under a name of its own, locked by its writer, and moved into its place while it is locked. The system
takes the lock back from a process that dies, so that what it left can be told and swept.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import BinaryIO
from uuid import uuid4

_WINDOWS = os.name == "nt"  # there an open file cannot be moved, and parts are not swept


@contextmanager
def new_file(path: Path, within: Path | None = None) -> Iterator[BinaryIO]:
    """A stream to a file; an OSError on the way names that file. A link is followed; a pipe or a device, such as
    /dev/stdout, is written to as it stands.

    within  the folder of an output of many files. What is unfinished lies at its top, folders on the way to the file
            are made, and the disk is not waited for: whoever goes on there proves what it finds.
    """
    part = None
    try:
        if within is None and _stands(path):
            with path.open("ab") as as_it_stands:
                yield as_it_stands
            return
        path = Path(os.path.realpath(path)) if within is None and path.is_symlink() else path
        if within is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
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
    """The path, for reading; an OSError where a pipe, a socket or a device lies, whose reading may never end.

    A link is followed. A folder is left to the reader, which says that it is one.
    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        kind = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}.get(stat.S_IFMT(mode), "a device")
        raise OSError(errno.EINVAL, f"it is {kind}, not a file", str(path))
    return path


def _stands(path: Path) -> bool:
    """Whether it is a pipe or a device, or a stream of ours, which may have been redirected to a file."""
    stream = path.is_symlink() and path.is_relative_to("/dev")
    return stream or (path.exists() and not path.is_file() and not path.is_dir())


@contextmanager
def together(home: Path, last: str) -> Iterator[Path]:
    """A folder for a set of files, which move to `home` when all of them are written, that called `last` at the end.

    If one cannot be written, none appears; what `home` held stays. An OSError names the file by its place in `home`.
    """
    missing = _missing(home)
    try:
        home.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".poise-", suffix=".part", dir=home) as name:
            stage = Path(name)
            try:
                yield stage
                for file in sorted(stage.rglob("*"), key=lambda path: path == stage / last):
                    place = home / file.relative_to(stage)
                    place.mkdir(exist_ok=True) if file.is_dir() else file.replace(place)
            except OSError as error:
                if error.errno is None:
                    raise
                named = str(error.filename or home).replace(name, str(home))
                raise OSError(error.errno, error.strerror, named) from None
    finally:
        _remove_empty(missing)


def require_writable(folder: Path) -> None:
    """An OSError that names the folder where a file could not be written into it; nothing is left there."""
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
    """The folder and those on the way to it that are not there, the innermost first."""
    return [each for each in (folder, *folder.parents) if not each.exists()]


def _remove_empty(folders: list[Path]) -> None:
    for each in folders:
        with suppress(OSError):
            each.rmdir()


def sweep(folder: Path) -> None:
    """Remove the parts that no living process writes."""
    for part in folder.glob(".poise-*.part"):
        with suppress(OSError), part.open("r+b") as stream:
            if _lock(stream):
                part.unlink()


def is_part(path: Path) -> bool:
    """Whether it is a file in the making."""
    return path.name.startswith(".poise-") and path.suffix == ".part"


def _open(folder: Path) -> tuple[Path, BinaryIO]:
    """A new part, locked; another process may sweep one between these two, which then is gone."""
    while True:
        part = folder / f".poise-{uuid4().hex}.part"
        stream = part.open("xb")
        _lock(stream)
        if part.exists():
            return part, stream
        stream.close()


def _lock(stream: BinaryIO) -> bool:
    """Lock the stream's file; False if another process has, or where files cannot be locked."""
    with suppress(ImportError, OSError):
        import fcntl  # not on Windows

        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
