"""Damage to files: bits flipped, ends cut, fields of JSON changed."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

_ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2.5,
    1e308,
    10**400,
    float("nan"),
    float("inf"),
    "",
    "XE [/x]",
    "\x1b[2J",
    "\ud800",
    "=1+1",
    "a" * 5000,
    "../..",
    [],
    {},
    [[]],
    {"mean": "x"},
    [None],
    "nan",
)


def flip(path: Path, draw: random.Random) -> str:
    """Another bit somewhere."""
    content = bytearray(path.read_bytes())
    bit = draw.randrange(8 * len(content))
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
    return f"bit {bit} of {path.name} flipped"


def cut(path: Path, draw: random.Random) -> str:
    """A shorter file."""
    content = path.read_bytes()
    size = draw.randrange(len(content))
    path.write_bytes(content[:size])
    return f"{path.name} cut to {size} of {len(content)} bytes"


def change(path: Path, draw: random.Random) -> str:
    """A number of a JSON file, a little; a word or a list, a little shorter."""
    content = json.loads(path.read_text())
    names = draw.choice([each for each in leaves(content) if each[0] not in ("sha256", "digest", "proof")])
    before = _at(content, names)
    path.write_text(json.dumps(_put(content, names, _changed(before, draw))))
    return f"{path.name}: {'.'.join(map(str, names))}: {before!r:.40} changed"


def oddity(path: Path, draw: random.Random) -> str:
    """An odd value at some place of a JSON file, or a place less."""
    content = json.loads(path.read_text())
    names = draw.choice(list(leaves(content, inner=True)))
    value = draw.choice(_ODD)
    path.write_text(json.dumps(_put(content, names, value)), errors="surrogatepass")
    return f"{path.name}: {'.'.join(map(str, names))} is {value!r:.40}"


def leaves(value: Any, inner: bool = False, names: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of a JSON document; with those that hold others, where they are asked for."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [each for name, part in parts for each in leaves(part, inner, (*names, name))]
    return [*([names] if names and (inner or not found) else []), *found]


def _changed(value: Any, draw: random.Random) -> Any:
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return value + 1 if draw.random() < 0.5 or not value else value * 2
    return value[:-1] if value else "x"


def _at(content: Any, names: tuple[Any, ...]) -> Any:
    for name in names:
        content = content[name]
    return content


def _put(content: Any, names: tuple[Any, ...], value: Any) -> Any:
    _at(content, names[:-1])[names[-1]] = value
    return content
