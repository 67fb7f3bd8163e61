"""Packs: the JSON documents of an experiment in one file, read as if each were a file of its own.

<experiment>/runs.jsonl.gz    a line {"file": "xe/seed-03/record.json", "content": {...}} for each, sorted by file

A pack counts beside an experiment.json or a sweep.json. A loose file wins over a packed one of its name, and of two
packs that of the inner folder does.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from poise.errors import RecordError
from poise.io.files import regular

PACK = "runs.jsonl.gz"
HOMES = ("experiment.json", "sweep.json")

# Bytes, more than ten times those of the largest record and the largest experiment so far. A larger pack may be a bomb.
MOST_PER_LINE = 16 * 2**20
MOST = 256 * 2**20


def text_of(path: Path) -> str:
    """The text of a document, loose or packed; an OSError or a ValueError as of a file."""
    try:
        return regular(path).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        packed = _packed(path)
        if packed is None:
            raise
        return packed[1].decode()


def is_there(path: Path) -> bool:
    """Whether there is such a document, loose or packed."""
    return path.exists() or _packed(path) is not None


def place_of(path: Path) -> str:
    """The path of a document, and where it lies if it is no file."""
    packed = None if path.exists() else _packed(path)
    return str(path) if packed is None else f"{path}, packed in {packed[0].name},"


def documents(folder: Path, pattern: str) -> list[Path]:
    """The documents in or below a folder, loose or packed, whose path from there has a pattern of Path.glob, such as
    "*/seed-*/record.json" or "**/record.json"."""
    found, top, parts = set(folder.glob(pattern)), _absolute(folder), pattern.split("/")
    for pack in [*_above(top / PACK), *_inside(top, parts)]:
        for name in _names(pack, _version(pack)):
            path = pack.parent / name
            if path.is_relative_to(top) and _fits(path.relative_to(top).parts, parts):
                found.add(folder / path.relative_to(top))
    return sorted(found)


def read_pack(path: Path) -> Mapping[str, bytes]:
    """The documents of a pack by name, as JSON; a RecordError if it is damaged or holds what no pack does."""
    return _read(path, _version(path))


def packs_line(name: str, document: bytes) -> bytes:
    """A line of a pack."""
    return b'{"file": %s, "content": %s}\n' % (json.dumps(name).encode(), document)


def _packed(path: Path) -> tuple[Path, bytes] | None:
    """The pack that has a document, the nearest one, and the document."""
    path = _absolute(path)
    for pack in _above(path):
        document = read_pack(pack).get(path.relative_to(pack.parent).as_posix())
        if document is not None:
            return pack, document
    return None


def _above(path: Path) -> Iterator[Path]:
    """The packs in the folders on the way to a path, the nearest first."""
    return (folder / PACK for folder in path.parents if _counts(folder / PACK))


def _inside(top: Path, pattern: list[str]) -> Iterator[Path]:
    """The packs below a folder that can have documents of a pattern."""
    for depth in range(1, len(pattern)):
        yield from (
            path for path in top.glob("/".join([*pattern[:depth], PACK])) if path.parent != top and _counts(path)
        )


def _counts(pack: Path) -> bool:
    return os.path.exists(pack) and any(os.path.exists(pack.parent / name) for name in HOMES)


def _absolute(path: Path) -> Path:
    """Without "..", also where its folder was packed and is no more."""
    return Path(os.path.abspath(path))


def _fits(parts: tuple[str, ...], pattern: list[str]) -> bool:
    if pattern[0] == "**":
        return any(_fits(parts[start:], pattern[1:]) for start in range(len(parts)))
    return len(parts) == len(pattern) and all(map(fnmatchcase, parts, pattern))


def _version(path: Path) -> tuple[int, ...]:
    """Another one when the file was written again."""
    try:
        found = path.stat()
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror or error}") from None
    return found.st_ino, found.st_size, found.st_mtime_ns


@lru_cache(maxsize=1000)
def _names(path: Path, version: tuple[int, ...]) -> tuple[str, ...]:
    """Of a pack: many of these fit into memory, but only few packs."""
    return tuple(_read(path, version))


@lru_cache(maxsize=2)
def _read(path: Path, version: tuple[int, ...]) -> Mapping[str, bytes]:
    found: dict[str, bytes] = {}
    try:
        with regular(path).open("rb") as stream, gzip.open(stream) as lines:
            for line in _lines(lines):  # type: ignore[arg-type]
                name, document = _document(line)
                if name in found:
                    raise ValueError(f"it has {name!r:.200} twice")
                found[name] = document
        if not found:
            raise EOFError("it holds no document")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise RecordError(f"{path} is damaged or cut short: {error}") from None
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} is not a pack of Poise, or damaged: {error}") from None
    return found


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Never more than the limits, whatever the file unpacks to."""
    left = MOST
    while line := stream.readline(MOST_PER_LINE + 1):
        if len(line) > MOST_PER_LINE:
            raise ValueError(f"it has a line of more than {MOST_PER_LINE >> 20} MiB")
        if (left := left - len(line)) < 0:
            raise ValueError(f"it unpacks to more than {MOST >> 20} MiB")
        yield line


def _document(line: bytes) -> tuple[str, bytes]:
    held = json.loads(line)
    if not isinstance(held, dict) or held.keys() != {"file", "content"} or not isinstance(held["content"], dict):
        raise ValueError("it has a line that is not an object with file and content")
    name = held["file"]
    if not isinstance(name, str) or not is_name(name):
        raise ValueError(f"it has a file that cannot be below its folder: {name!r:.200}")
    return name, json.dumps(held["content"]).encode()


def is_name(name: str) -> bool:
    """Whether a document can be called that: a plain path to a .json file below the folder of its pack."""
    path = PurePosixPath(name)
    plain = name.isprintable() and "\\" not in name and ":" not in name and len(name) <= 1000
    return plain and not path.is_absolute() and ".." not in path.parts and str(path) == name and path.suffix == ".json"
