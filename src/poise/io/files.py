"""Files that appear whole, or not at all; sets of them that appear together; and files that can be read to their end.

Each is written under a name of its own, locked by its writer, and moved into its place while it is locked. The system
takes the lock back from a process that dies, so that what it left can be told and swept.
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

_WHOLE = "whole"  # in a part: the folder of a set that is written, and moves
_WINDOWS = os.name == "nt"  # there an open file cannot be moved, and parts are not swept


@contextmanager
def new_file(path: Path, within: Path | None = None) -> Iterator[BinaryIO]:
    """A stream to a file; an OSError on the way names that file. A link is followed; a pipe or a device, such as
    /dev/stdout, is written to as it stands.

    within  the folder of an output of many files. What is unfinished lies at its top, folders on the way to the file
            are made, and the disk is not waited for: whoever goes on there proves what it finds, and sweeps.
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
        else:
            sweep(path.parent)
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

    If one cannot be written, none appears; what `home` held stays. If the process is killed between two moves, the next
    sweep makes the others. An OSError names the file by its place in `home`.
    """
    missing = _missing(home)
    try:
        home.mkdir(parents=True, exist_ok=True)
        sweep(home)
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
    """A new folder among the parts of `home`, locked; it goes at the end, unless it holds a whole set."""
    while True:
        part = home / f".poise-{uuid4().hex}.part"
        part.mkdir()
        with _held(part):
            if not part.exists():  # another process swept it before it was locked
                continue
            try:
                yield part
            finally:
                if not (part / _WHOLE).exists():
                    rmtree(part, ignore_errors=True)
            return


def _move(whole: Path, home: Path, last: str = "") -> None:
    """All files of a set to their places, also where Ctrl-C comes between; then its folder goes."""
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
    """Whether some files of a set are in their places, and others are not."""
    return any(home.glob(f".poise-*.part/{_WHOLE}"))


def _discard(home: Path) -> None:
    """Remove the sets of the dead that could not be moved: another set takes their place."""
    for whole in home.glob(f".poise-*.part/{_WHOLE}"):
        with _held(whole.parent) as ours:
            if ours:
                rmtree(whole.parent)


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
    """Remove the parts that no living process writes; the rest of a whole set moves to its place."""
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


@contextmanager
def _held(part: Path) -> Iterator[bool]:
    """Whether a file or a folder is locked for us while we are inside; False where it cannot be."""
    with ExitStack() as stack:
        ours = False
        with suppress(OSError):
            number = os.open(part, os.O_RDONLY if part.is_dir() else os.O_RDWR)
            stack.callback(os.close, number)
            ours = _lock(number)
        yield ours


def _lock(file: BinaryIO | int) -> bool:
    """Lock a file; False if another process has, or where files cannot be locked."""
    with suppress(ImportError, OSError):
        import fcntl  # not on Windows

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
