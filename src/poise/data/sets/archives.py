"""Read files from folders and archives through one interface: names and bytes.

Archives may be hostile: nothing is unpacked to disk, names that lead out of the archive and links are refused, and
sizes are limited before anything is read.
"""

from __future__ import annotations

import bz2
import gzip
import io
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol, cast
from weakref import finalize

from poise.errors import DataError, DataMismatch, DataNotFound, DataUnsafe
from poise.io.files import regular

ARCHIVES = (".zip", ".whl", ".tar", ".tar.gz", ".tgz")

# Limits that no data set exceeds, to protect the memory.
LARGEST = 512 * 2**20  # bytes of a file
MOST_BYTES = 4 * 2**30  # bytes of an archive
MOST_FILES = 100_000  # files in an archive; CIFAR-100 has 60,000 as images
MOST_IN_FOLDER = 2_000_000  # files in a folder, which may hold other sets as well
LONGEST_NAME = 4096
LONGEST_HEADER = 2**17  # bytes of the headers of one member of a tar, with long names and extended headers
MOST_HEADERS = 1000  # extended headers for all members of a tar
LONGEST_LIST = 2**24  # bytes of the list of members of a zip

_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # other methods cannot be unpacked in limited pieces
_PIECE = 2**20


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:40]}…{text[-19:]}"


def refuse_large(place: str, sizes: dict[str, int]) -> None:
    """Raise DataUnsafe for files that are too large, before any of them is read."""
    for name, size in sizes.items():
        if size > LARGEST:
            raise DataUnsafe(f"{place} contains {_short(name)!r} of {size} bytes: larger than any file of a data set")


class Files(Protocol):
    """A collection of files: names with forward slashes, relative to the folder or archive, and their bytes."""

    def names(self) -> list[str]: ...

    def read(self, name: str) -> bytes: ...


class Folder:
    """The files below a folder, or a single file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self) -> list[str]:
        if self.path.is_file():
            return [self.path.name]
        files = (p.relative_to(self.path).as_posix() for p in self.path.rglob("*") if p.is_file())
        names = sorted(islice(files, MOST_IN_FOLDER + 1))
        if len(names) > MOST_IN_FOLDER:
            raise DataUnsafe(f"{self.path} has more than {MOST_IN_FOLDER:,} files: give the folder of the set itself")
        return names

    def read(self, name: str) -> bytes:
        path = self.path if self.path.is_file() else self.path / name
        try:
            size = regular(path).stat().st_size
            refuse_large(self.path.name, {name: size})
            with path.open("rb") as stream:
                content = stream.read(size + 1)
        except OSError as error:
            raise DataMismatch(f"{path} cannot be read: {error.strerror or error}") from None
        if len(content) != size:
            raise DataMismatch(f"{path} changed while it was read: it had {size} bytes")
        return content


class Archive:
    """The members of a zip (such as a wheel) or tar archive; limits are checked while members are listed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: Callable[[str], bytes]
        try:
            self._names = self._open_zip() if _starts_as_zip(path) else self._open_tar()
        except DataError:
            raise
        except Exception as error:  # a library may raise anything for a damaged or hostile archive
            reason = str(error).partition("\n")[0].rstrip(":")
            raise DataMismatch(f"{path.name} is damaged or not a complete archive: {reason}") from None

    def names(self) -> list[str]:
        return self._names

    def read(self, name: str) -> bytes:
        try:
            return self._read(name)
        except Exception as error:  # as above
            raise DataMismatch(f"{self.path.name} is damaged at {name}: {error}") from None

    def _open_zip(self) -> list[str]:
        stream = self.path.open("rb")
        finalize(self, stream.close)
        archive = open_zip(self.path.name, stream)
        self._read = lambda name: read_member(archive, name)
        tally, members = _Tally(self.path.name), [info for info in archive.infolist() if not info.is_dir()]
        for info in members:
            mode = info.external_attr >> 16  # 0 if the zip was not made on Unix
            tally.add(info.filename, info.file_size, stat.S_IFMT(mode) in (0, stat.S_IFREG))
        return [info.filename for info in members]

    def _open_tar(self) -> list[str]:
        stream = _unpacked(self.path)
        finalize(self, stream.close)
        places = _list_tar(self.path.name, stream)

        def read(name: str) -> bytes:
            start, size = places[name]
            stream.seek(start)
            content = stream.read(size)
            if len(content) < size:
                raise EOFError("it ends early")
            return content

        self._read = read
        return list(places)


class _Tally:
    """Counts the members of an archive; raises DataUnsafe for the first that is unsafe or beyond the limits."""

    def __init__(self, place: str) -> None:
        self.place, self.count, self.size = place, 0, 0

    def add(self, name: str, size: int, is_file: bool) -> None:
        self.count, self.size = self.count + 1, self.size + size
        if len(name) > LONGEST_NAME:
            raise DataUnsafe(f"{self.place} contains a name of {len(name)} letters: longer than any of a data set")
        if not is_file:
            raise DataUnsafe(f"{self.place} contains {_short(name)!r}, which is a link or a device, not a file")
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise DataUnsafe(f"{self.place} contains {_short(name)!r}, which leads out of the archive")
        refuse_large(self.place, {name: size})
        if self.count > MOST_FILES:
            raise DataUnsafe(f"{self.place} contains more than {MOST_FILES:,} files, the limit for an archive")
        if self.size > MOST_BYTES:
            raise DataUnsafe(f"{self.place} contains more than {MOST_BYTES:,} bytes, the limit for an archive")


class _Limited:
    """A stream of which only `left` more bytes may be read; None removes the limit."""

    def __init__(self, stream: IO[bytes], place: str, left: int) -> None:
        self.stream, self.place = stream, place
        self.left: int | None = left

    def read(self, size: int = -1) -> bytes:
        if self.left is None:
            return self.stream.read(size)
        content = self.stream.read(self.left + 1 if size < 0 else min(size, self.left + 1))
        self.left -= len(content)
        if self.left < 0:
            raise DataUnsafe(f"{self.place} has longer headers than any data set, so it was not read")
        return content

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def open_zip(place: str, stream: IO[bytes]) -> zipfile.ZipFile:
    """Open a zip whose members can be read in pieces; raises DataUnsafe for other compression methods."""
    limited: Any = _Limited(stream, place, LONGEST_LIST)
    archive = zipfile.ZipFile(limited)
    limited.left = None
    if odd := [each for each in archive.infolist() if each.compress_type not in _PACKED]:
        raise DataUnsafe(
            f"{place} contains {odd[0].filename!r}, neither stored nor deflated: pack it again with deflate"
        )
    return archive


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Read a member of a zip in pieces: zipfile would unpack a member that is longer than announced into memory."""
    content = io.BytesIO()
    with archive.open(name) as stream:
        while piece := stream.read(_PIECE):
            content.write(piece)
    if content.tell() != archive.getinfo(name).file_size:
        raise zipfile.BadZipFile(f"{name} does not have the size in the archive's list")
    return content.getvalue()


def limited_members(place: str, stream: IO[bytes]) -> Iterator[tarfile.TarInfo]:
    """Iterate over the members of a tar without keeping them; raises DataUnsafe for headers beyond the limits."""
    limited: Any = _Limited(stream, place, LONGEST_HEADER)
    with tarfile.open(fileobj=limited, mode="r:") as archive:
        while (member := archive.next()) is not None:
            if member.size < 0 or len(archive.pax_headers) > MOST_HEADERS:
                raise DataUnsafe(f"{place} has headers that no data set has, so it was not read")
            yield member
            vars(archive)["members"].clear()  # tarfile keeps all members with their headers
            limited.left = LONGEST_HEADER


def _list_tar(place: str, stream: IO[bytes]) -> dict[str, tuple[int, int]]:
    """The offset and the size of each file of a tar."""
    tally, places = _Tally(place), {}
    for member in limited_members(place, stream):
        if member.issparse():
            raise DataUnsafe(f"{place} contains the sparse file {_short(member.name)!r}: pack it without  --sparse")
        tally.add(member.name, member.size, member.isdir() or member.isfile())
        if not member.isdir():
            places[member.name] = member.offset_data, member.size
    return places


def _unpacked(path: Path) -> IO[bytes]:
    """Open a tar, decompressing gzip or bzip2; refuses xz, which can use any amount of memory."""
    with path.open("rb") as stream:
        start = stream.read(6)
    if start == b"\xfd7zXZ\x00":
        raise DataUnsafe(f"{path.name} is compressed with xz, which can use any amount of memory: unpack it first")
    if start.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", gzip.open(path))
    return cast("IO[bytes]", bz2.open(path)) if start.startswith(b"BZh") else path.open("rb")


class Chosen:
    """A choice of files: each name with the collection that it is in."""

    def __init__(self, where: dict[str, Files]) -> None:
        self._where = where

    def names(self) -> list[str]:
        return list(self._where)

    def read(self, name: str) -> bytes:
        return self._where[name].read(name)


class Watched:
    """A collection of files that calls `report` with the number of bytes read so far."""

    def __init__(self, files: Files, report: Callable[[int], None]) -> None:
        self._files, self._report, self._done = files, report, 0

    def names(self) -> list[str]:
        return self._files.names()

    def read(self, name: str) -> bytes:
        data = self._files.read(name)
        self._done += len(data)
        self._report(self._done)
        return data


def open_files(path: Path) -> Files:
    """Open a folder, an archive, or a single file."""
    if not path.exists():
        raise DataNotFound(f"{path} does not exist")
    if not path.is_file() or path.suffix == ".npz":
        return Folder(path)
    named = path.name.lower().endswith(ARCHIVES)  # a damaged archive may be recognizable by its name only
    return Archive(path) if named or _starts_as_zip(path) or _starts_as_tar(path) else Folder(path)


def _starts_as_zip(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(4) == b"PK\x03\x04" or zipfile.is_zipfile(stream)


def _starts_as_tar(path: Path) -> bool:
    try:
        with _unpacked(path) as stream:
            tarfile.TarInfo.frombuf(stream.read(tarfile.BLOCKSIZE), tarfile.ENCODING, "surrogateescape")
        return True
    except (tarfile.HeaderError, OSError, EOFError, zlib.error):
        return False


def open_together(paths: list[Path]) -> Files:
    """Open several folders, archives or files as one collection; for equal names, the first of them counts."""
    if len(paths) == 1:
        return open_files(paths[0])
    where: dict[str, Files] = {}
    for part in map(open_files, paths):
        for name in part.names():
            where.setdefault(name, part)
    return Chosen(where)


def ending(files: Files, *ends: str) -> Iterator[str]:
    """The names that end with whole path parts: "raw/a.gz" finds x/raw/a.gz, but not x/xraw/a.gz."""
    for name in files.names():
        if any(("/" + name).endswith("/" + end) for end in ends):
            yield name


def first(files: Files, *ends: str) -> str | None:
    """The first name with one of these endings, tried in order; None if there is none."""
    return next((name for end in ends for name in ending(files, end)), None)


def unzipped(data: bytes) -> bytes:
    """Decompress the bytes if they are a gzip file."""
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        content = gzip.GzipFile(fileobj=io.BytesIO(data)).read(LARGEST + 1)
    except (EOFError, OSError, zlib.error) as error:
        raise DataMismatch(f"a gzip file is damaged: {error}") from None
    if len(content) > LARGEST:
        raise DataUnsafe(f"a gzip file contains more than {LARGEST} bytes: larger than any file of a data set")
    return content
