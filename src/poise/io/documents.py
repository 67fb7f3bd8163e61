"""JSON documents: written atomically with a checksum, and read from files or from packs.

    checksum = SHA-256 of the content without it, as JSON with sorted keys and no spaces

Reading verifies the checksum, so a bit that flipped on disk is detected. Errors name the file.

A pack holds the documents of an experiment in one file, each readable as if it were a file of its own:

    <experiment>/runs.jsonl.gz    one line {"file": "xe/seed-03/record.json", "content": {...}} per document, by name

A pack is only read beside an experiment.json, a sweep.json or the published.json of a leaderboard. If a document exists
twice, a file takes precedence over a pack, and an inner pack over an outer one.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from poise.errors import RecordError
from poise.io.files import new_file, regular

CHECKSUM = "checksum"
VERSION = 1  # without a checksum: audits, and the records of earlier versions
PROVED = 2

PACK = "runs.jsonl.gz"
PUBLISHED = "published.json"  # results of others, in a folder of evaluations
HOMES = ("experiment.json", "sweep.json", PUBLISHED)
MOST_PER_LINE = 16 * 2**20  # bytes, more than ten times the largest record: a longer line may be a decompression bomb
MOST = 256 * 2**20  # the same for a whole pack

# Terminal escapes, characters that XML forbids, and those that change the direction of text.
_CONTROLS = (
    *(*range(9), *range(11, 32), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)),
    *(*range(0xD800, 0xE000), 0xFFFE, 0xFFFF),
)
_REPLACED = dict.fromkeys(_CONTROLS, "\N{REPLACEMENT CHARACTER}")


def with_checksum(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content with its checksum added."""
    read_back = json.loads(json.dumps(content))  # as a reader gets it: lists for tuples, strings for keys
    return {**content, CHECKSUM: _checksum(read_back)}


def is_intact(content: Mapping[str, Any]) -> bool:
    """Whether the content has a checksum that matches."""
    return content.get(CHECKSUM) == _checksum(content)


def is_proved(content: Mapping[str, Any], since: int = PROVED) -> bool:
    """Whether the checksum matches; formats before version `since` need none."""
    version = content.get("version", VERSION)
    return is_intact(content) if CHECKSUM in content else isinstance(version, int) and version < since


def _checksum(content: Mapping[str, Any]) -> str:
    rest = {name: each for name, each in content.items() if name != CHECKSUM}
    return sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def write_whole(path: Path, content: str) -> None:
    """Write a text file atomically."""
    with new_file(path) as stream:
        stream.write(content.encode())


def write_json(path: Path, content: Mapping[str, Any], indent: int | None = 1) -> None:
    """Write JSON atomically and create its folder. Raises ValueError for numbers that are not finite."""
    text = json.dumps(content, indent=indent, ensure_ascii=False, allow_nan=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():  # new_file would write into a pipe or a device
        regular(path)
    write_whole(path, text)


def write_proved(path: Path, content: Mapping[str, Any], indent: int | None = 1) -> None:
    """Like write_json, with a checksum that read_json verifies."""
    write_json(path, with_checksum({**content, "version": PROVED}), indent)


def read_json(path: Path, kind: str) -> dict[str, Any]:
    """Read a document, from a file or a pack, and verify its version and checksum; raises RecordError."""
    try:
        content = json.loads(text_of(path))
        proved = isinstance(content, dict) and is_proved(content)
        shown: dict[str, Any] = _printable(content)
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{place_of(path)} is damaged or cut short: {error}{how_to_restore(kind)}") from None
    if not isinstance(content, dict) or "version" not in content:
        raise RecordError(f"{path} is not a Poise {kind}: it has no version")
    version = content["version"]
    if version not in (VERSION, PROVED) or isinstance(version, bool):
        raise RecordError(f"{path} has version {version!r:.40} of the format; this Poise reads {VERSION} and {PROVED}")
    if not proved:
        raise RecordError(f"{place_of(path)} is damaged: its content does not match its checksum{how_to_restore(kind)}")
    return shown


def how_to_restore(kind: str) -> str:
    """How to restore a damaged file of a run; empty for other files."""
    again = "; run the command that wrote it (`poise run` or `poise reproduce`) again"
    return again if kind in ("record", "experiment") else ""


def require(path: Path, content: dict[str, Any], kind: str, **kinds: type) -> None:
    """Raise RecordError unless the content has fields of these types."""
    for name, wanted in kinds.items():
        if not isinstance(content.get(name), wanted) or isinstance(content[name], bool):
            raise RecordError(f"{path} is not a Poise {kind}: its {name!r} is not a {wanted.__name__}")


def printable(text: str) -> str:
    """Text without the characters that would control a terminal or a page."""
    return text.translate(_REPLACED)


def _printable(content: Any) -> Any:
    """JSON with all its strings made printable."""
    if isinstance(content, str):
        return printable(content)
    if isinstance(content, dict):
        return {printable(name): _printable(value) for name, value in content.items()}
    return [_printable(value) for value in content] if isinstance(content, list) else content


def text_of(path: Path) -> str:
    """The text of a document in a file or a pack. Raises OSError or ValueError, as reading a file does."""
    try:
        return regular(path).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        packed = _packed(path)
        if packed is None:
            raise
        return packed[1].decode()


def is_there(path: Path) -> bool:
    """Whether a document exists, in a file or a pack."""
    return path.exists() or _packed(path) is not None


def place_of(path: Path) -> str:
    """The path of a document, for messages; it also names the pack that contains it."""
    packed = None if path.exists() else _packed(path)
    return str(path) if packed is None else f"{path}, packed in {packed[0].name},"


def documents(folder: Path, pattern: str) -> list[Path]:
    """The documents in a folder, in files or packs, that match a pattern of Path.glob, such as "**/record.json"."""
    found, top, parts = set(folder.glob(pattern)), _absolute(folder), pattern.split("/")
    for pack in [*_packs_above(top / PACK), *_packs_inside(top, parts)]:
        for name in _names(pack, _version(pack)):
            path = pack.parent / name
            if path.is_relative_to(top) and _matches(path.relative_to(top).parts, parts):
                found.add(folder / path.relative_to(top))
    return sorted(found)


def read_pack(path: Path) -> Mapping[str, bytes]:
    """The documents of a pack as JSON, by name; raises RecordError if it is damaged or not a pack."""
    return _read(path, _version(path))


def packs_line(name: str, document: bytes) -> bytes:
    """The line of a document in a pack."""
    return b'{"file": %s, "content": %s}\n' % (json.dumps(name).encode(), document)


def is_name(name: str) -> bool:
    """Whether a name is valid in a pack: a plain relative path to a .json file."""
    path = PurePosixPath(name)
    plain = name.isprintable() and "\\" not in name and ":" not in name and len(name) <= 1000
    return plain and not path.is_absolute() and ".." not in path.parts and str(path) == name and path.suffix == ".json"


def _packed(path: Path) -> tuple[Path, bytes] | None:
    """The nearest pack that contains a document, and the document."""
    path = _absolute(path)
    for pack in _packs_above(path):
        document = read_pack(pack).get(path.relative_to(pack.parent).as_posix())
        if document is not None:
            return pack, document
    return None


def _packs_above(path: Path) -> Iterator[Path]:
    """The packs in the parents of a path, the nearest first."""
    return (folder / PACK for folder in path.parents if _counts(folder / PACK))


def _packs_inside(top: Path, pattern: list[str]) -> Iterator[Path]:
    """The packs below a folder that may contain documents matching a pattern."""
    for depth in range(1, len(pattern)):
        packs = top.glob("/".join([*pattern[:depth], PACK]))
        yield from (path for path in packs if path.parent != top and _counts(path))


def _counts(pack: Path) -> bool:
    return os.path.exists(pack) and any(os.path.exists(pack.parent / name) for name in HOMES)


def _absolute(path: Path) -> Path:
    """The absolute path without "..", also for a folder that only exists in a pack."""
    return Path(os.path.abspath(path))


def _matches(parts: tuple[str, ...], pattern: list[str]) -> bool:
    if pattern[0] == "**":
        return any(_matches(parts[start:], pattern[1:]) for start in range(len(parts)))
    return len(parts) == len(pattern) and all(map(fnmatchcase, parts, pattern))


def _version(path: Path) -> tuple[int, ...]:
    """Changes when the file is written again; the key of the caches below."""
    try:
        found = path.stat()
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror or error}") from None
    return found.st_ino, found.st_size, found.st_mtime_ns


@lru_cache(maxsize=1000)
def _names(path: Path, version: tuple[int, ...]) -> tuple[str, ...]:
    """The names in a pack. Names of many packs fit into memory, but only few packs do."""
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
            raise EOFError("it has no documents")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise RecordError(f"{path} is damaged or cut short: {error}") from None
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} is damaged or not a Poise pack: {error}") from None
    return found


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """The lines of a pack; raises ValueError once they exceed the limits."""
    left = MOST
    while line := stream.readline(MOST_PER_LINE + 1):
        if len(line) > MOST_PER_LINE:
            raise ValueError(f"it has a line of more than {MOST_PER_LINE >> 20} MiB")
        if (left := left - len(line)) < 0:
            raise ValueError(f"it unpacks to more than {MOST >> 20} MiB")
        yield line


def _document(line: bytes) -> tuple[str, bytes]:
    """The name and the content in a line of a pack."""
    held = json.loads(line)
    if not isinstance(held, dict) or held.keys() != {"file", "content"} or not isinstance(held["content"], dict):
        raise ValueError("it has a line that is not an object with file and content")
    name = held["file"]
    if not isinstance(name, str) or not is_name(name):
        raise ValueError(f"it has a document with an invalid name: {name!r:.200}")
    return name, json.dumps(held["content"]).encode()
