"""Docstrings as reStructuredText: they are written to be read in the terminal, with formulas and aligned lists.

an indented block                        a literal block
lines "name  what it is"                 a list of definitions
>>> an example                           a doctest block
everything else                          a paragraph, with `names` as code
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_ENTRY = re.compile(r"(?P<name>\S+(?: [^\s]+)*?) {2,}(?P<words>\S.*)")
_CODE = re.compile(r"`([^`]+)`")
_MARKS = re.compile(r"([*|_\\])")


def as_rst(app: Any, what: str, name: str, held: object, options: object, lines: list[str]) -> None:
    """Sphinx's event autodoc-process-docstring."""
    lines[:] = list(converted(lines))


def converted(lines: list[str]) -> Iterator[str]:
    for block in blocks(lines):
        if block[0].lstrip().startswith(">>>"):
            yield from (line.strip() if line.lstrip().startswith((">>>", "...")) else line for line in block)
        elif all(line.startswith("    ") for line in block):
            yield from ["::", "", *block]
        elif _ENTRY.fullmatch(block[0]):
            yield from _definitions(block)
        else:
            yield from map(escaped, map(str.strip, block))
        yield ""


def blocks(lines: list[str]) -> Iterator[list[str]]:
    """Lines between empty ones; a list that follows its paragraph without an empty line is a block of its own."""
    block: list[str] = []
    for line in [*lines, ""]:
        begins = bool(block) and bool(_ENTRY.fullmatch(line)) and not _ENTRY.fullmatch(block[0])
        if block and (not line.strip() or (begins and not block[0].startswith(" "))):
            yield block
            block = []
        if line.strip():
            block.append(line.rstrip())


def _definitions(block: list[str]) -> Iterator[str]:
    for line in block:
        found = None if line.startswith(" ") else _ENTRY.fullmatch(line)
        if found:
            yield from ["", f"``{found['name']}``", f"    {escaped(found['words'])}"]
        else:
            yield f"    {escaped(line.strip())}"


def escaped(line: str) -> str:
    """Without markup, but for code between backticks."""
    parts = _CODE.split(line)
    return "".join(f"``{part}``" if n % 2 else _MARKS.sub(r"\\\1", part) for n, part in enumerate(parts))
