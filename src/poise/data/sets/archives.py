"""Files: a folder or an archive as names and bytes, so that a layout need not know which it reads.

Nothing is unpacked to disk, so no member of an archive can leave its folder; a name that tries to is refused all the
same, and so are links.
"""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Protocol
from weakref import finalize

from poise.errors import DataMismatch, DataNotFound, DataUnsafe

ARCHIVES = (".zip", ".whl", ".tar", ".tar.gz", ".tgz")
LARGEST = 512 * 2**20  # no member of any set is larger; what is, would only fill the memory


def given(path: Path | str) -> Path:
    """A path as a user writes it, with its ~; one that cannot be is told apart from one where nothing is."""
    try:
        if str(path) == "":
            raise ValueError("it is empty")
        place = Path(path).expanduser()
        place.exists()
    except (ValueError, RuntimeError, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise DataNotFound(f"{_short(str(path))!r} cannot be used as a path: {reason}") from None
    return place


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:40]}…{text[-19:]}"


def refuse_large(place: str, sizes: dict[str, int]) -> None:
    """Before any of it is read."""
    for name, size in sizes.items():
        if size > LARGEST:
            raise DataUnsafe(f"{place} holds {name!r} of {size} bytes: no set has such a file")


class Files(Protocol):
    """Names with forward slashes, relative to the folder or archive, and the bytes behind each."""

    def names(self) -> list[str]: ...

    def read(self, name: str) -> bytes: ...


class Folder:
    """The files below a folder, or one file alone."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self) -> list[str]:
        if self.path.is_file():
            return [self.path.name]
        return sorted(p.relative_to(self.path).as_posix() for p in self.path.rglob("*") if p.is_file())

    def read(self, name: str) -> bytes:
        path = self.path if self.path.is_file() else self.path / name
        refuse_large(self.path.name, {name: path.stat().st_size})
        return path.read_bytes()


class Archive:
    """The members of a zip (a wheel is one) or tar archive, compressed or not."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: Callable[[str], bytes]
        try:
            self._names = self._open_zip() if _starts_as_zip(path) else self._open_tar()
        except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError, zlib.error) as error:
            reason = str(error).partition("\n")[0].rstrip(":")
            raise DataMismatch(f"{path.name} is damaged or not a whole archive: {reason}") from None
        for name in self._names:
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                raise DataUnsafe(f"{path.name} holds {name!r}, which leads out of the archive")

    def names(self) -> list[str]:
        return self._names

    def read(self, name: str) -> bytes:
        try:
            return self._read(name)
        except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
            raise DataMismatch(f"{self.path.name} is damaged at {name}: {error}") from None

    def _open_zip(self) -> list[str]:
        archive = zipfile.ZipFile(self.path)
        self._read = archive.read
        members = [info for info in archive.infolist() if not info.is_dir()]
        for info in members:
            mode = info.external_attr >> 16  # 0 where the zip was not made on Unix
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                raise self._no_file(info.filename)
        refuse_large(self.path.name, {info.filename: info.file_size for info in members})
        return [info.filename for info in members]

    def _no_file(self, name: str) -> DataUnsafe:
        return DataUnsafe(f"{self.path.name} holds {name!r}, which is a link or a device, not a file")

    def _open_tar(self) -> list[str]:
        archive = tarfile.open(self.path)  # noqa: SIM115, it is read from as long as we live
        finalize(self, archive.close)
        members = {member.name: member for member in archive.getmembers() if not member.isdir()}
        for name, member in members.items():
            if not member.isfile():
                raise self._no_file(name)
        refuse_large(self.path.name, {name: member.size for name, member in members.items()})

        def read(name: str) -> bytes:
            stream = archive.extractfile(members[name])
            if stream is None:
                raise self._no_file(name)
            return stream.read()

        self._read = read
        return list(members)


class Several:
    """The files of several places as one; of equal names the first place has it."""

    def __init__(self, parts: list[Files]) -> None:
        self._where: dict[str, Files] = {}
        for part in parts:
            for name in part.names():
                self._where.setdefault(name, part)

    def names(self) -> list[str]:
        return list(self._where)

    def read(self, name: str) -> bytes:
        return self._where[name].read(name)


class Watched:
    """The files, with `told` called with the number of bytes read so far."""

    def __init__(self, files: Files, told: Callable[[int], None]) -> None:
        self._files, self._told, self._done = files, told, 0

    def names(self) -> list[str]:
        return self._files.names()

    def read(self, name: str) -> bytes:
        data = self._files.read(name)
        self._done += len(data)
        self._told(self._done)
        return data


def open_files(path: Path) -> Files:
    """A folder, an archive, or a single file."""
    if not path.exists():
        raise DataNotFound(f"{path} does not exist")
    if not path.is_file() or path.suffix == ".npz":
        return Folder(path)
    named = path.name.lower().endswith(ARCHIVES)  # a damaged one may be known by its name alone
    return Archive(path) if named or _starts_as_zip(path) or tarfile.is_tarfile(path) else Folder(path)


def _starts_as_zip(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(4) == b"PK\x03\x04" or zipfile.is_zipfile(stream)


def open_together(paths: list[Path]) -> Files:
    """Several of those as one."""
    return open_files(paths[0]) if len(paths) == 1 else Several([open_files(path) for path in paths])


def ending(files: Files, *ends: str) -> Iterator[str]:
    """The names that end so at the border of a path part: "raw/a.gz" finds x/raw/a.gz and not x/xraw/a.gz."""
    for name in files.names():
        if any(("/" + name).endswith("/" + end) for end in ends):
            yield name


def first(files: Files, *ends: str) -> str | None:
    """The name that ends with the first of these that is there."""
    return next((name for end in ends for name in ending(files, end)), None)


def unzipped(data: bytes) -> bytes:
    """The bytes, without gzip around them if there is one."""
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        content = gzip.GzipFile(fileobj=io.BytesIO(data)).read(LARGEST + 1)
    except (EOFError, OSError, zlib.error) as error:
        raise DataMismatch(f"a gzip file is damaged: {error}") from None
    if len(content) > LARGEST:
        raise DataUnsafe(f"a gzip file holds more than {LARGEST} bytes: no set has such a file")
    return content
