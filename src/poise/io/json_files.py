"""JSON files with a checksum, written atomically. Errors name the file.

Reading verifies the checksum, so a bit flipped on disk is detected:

    checksum = SHA-256 of the content without it, as JSON with sorted keys and no spaces
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from poise.errors import RecordError as RecordError
from poise.io.files import new_file, regular
from poise.io.packs import place_of, text_of

CHECKSUM = "checksum"


def with_checksum(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content and its checksum."""
    read_back = json.loads(json.dumps(content))  # as a reader gets it: lists for tuples, words for keys
    return {**content, CHECKSUM: _checksum(read_back)}


def is_intact(content: Mapping[str, Any]) -> bool:
    """Whether it has a checksum, and it is that of the content."""
    return content.get(CHECKSUM) == _checksum(content)


def is_proved(content: Mapping[str, Any], since: int = 2) -> bool:
    """Like is_intact; versions of a format before `since` had no checksum, and need none."""
    version = content.get("version", 1)
    before = isinstance(version, int) and version < since
    return is_intact(content) if CHECKSUM in content else before


def _checksum(content: Mapping[str, Any]) -> str:
    rest = {name: each for name, each in content.items() if name != CHECKSUM}
    return sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


VERSION = 1  # without a checksum, as audits and the records of earlier versions are
PROVED = 2


def write_whole(path: Path, content: str) -> None:
    """A text that appears whole, or not at all."""
    with new_file(path) as stream:
        stream.write(content.encode())


def write_json(path: Path, content: Mapping[str, Any], indent: int | None = 1) -> None:
    """Atomically, with its folder; numbers that are not finite are a ValueError."""
    words = json.dumps(content, indent=indent, ensure_ascii=False, allow_nan=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():  # a pipe or a device would be written to
        regular(path)
    write_whole(path, words)


def write_proved(path: Path, content: Mapping[str, Any], indent: int | None = 1) -> None:
    """Like write_json, with a checksum that read_json verifies."""
    write_json(path, with_checksum({**content, "version": PROVED}), indent)


def read_json(path: Path, kind: str) -> dict[str, Any]:
    """An object of our versions whose checksum is right, loose or packed, or a RecordError that says why not."""
    try:
        content = json.loads(text_of(path))
        proved = isinstance(content, dict) and is_proved(content, since=PROVED)
        shown: dict[str, Any] = _shown(content)
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{place_of(path)} is damaged or cut short: {error}{remedy(kind)}") from None
    if not isinstance(content, dict) or "version" not in content:
        raise RecordError(f"{path} is not a Poise {kind}: it has no version")
    version = content["version"]
    if version not in (VERSION, PROVED) or isinstance(version, bool):
        raise RecordError(f"{path} has version {version!r:.40} of the format; this Poise reads {VERSION} and {PROVED}")
    if not proved:
        raise RecordError(f"{place_of(path)} is damaged: its content is not that of its checksum{remedy(kind)}")
    return shown


def remedy(kind: str) -> str:
    """What mends a file of a run; nothing for others."""
    again = "; the command that wrote it (`poise run` or `poise reproduce`) writes it again"
    return again if kind in ("record", "experiment") else ""


def _shown(content: Any) -> Any:
    """The same, with every word fit to be shown."""
    if isinstance(content, str):
        return printable(content)
    if isinstance(content, dict):
        return {printable(name): _shown(value) for name, value in content.items()}
    return [_shown(value) for value in content] if isinstance(content, list) else content


def require(path: Path, content: dict[str, Any], kind: str, **kinds: type) -> None:
    """Fields that must be there, by kind."""
    for name, wanted in kinds.items():
        if not isinstance(content.get(name), wanted) or isinstance(content[name], bool):
            raise RecordError(f"{path} is not a Poise {kind}: its {name!r} is not a {wanted.__name__}")


# Escapes of a terminal, what XML forbids, and what turns the direction of writing.
_CONTROLS = [
    *range(9),
    *range(11, 32),
    *range(0x7F, 0xA0),
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
    *range(0xD800, 0xE000),
    0xFFFE,
    0xFFFF,
]


_SHOWN = dict.fromkeys(_CONTROLS, "\N{REPLACEMENT CHARACTER}")


def printable(words: str) -> str:
    """Words from outside without characters that would do something to a terminal or a page."""
    return words.translate(_SHOWN)
