"""Elements of HTML and SVG as strings, well formed, with everything escaped that is not an element itself."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_EMPTY = {"img", "meta", "link", "br"}
# Escapes of a terminal, what XML forbids, and what turns the direction of writing.
_CONTROLS = [*range(9), *range(11, 32), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_SHOWN = dict.fromkeys(_CONTROLS, "\N{REPLACEMENT CHARACTER}")


def printable(words: str) -> str:
    """Words from outside without characters that would do something to a terminal or a page."""
    return words.translate(_SHOWN)


class Markup(str):
    """A string that is markup already; any other string is text, and is escaped."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: object) -> Markup:
    """`<name attributes>children</name>`; `class_` is class, `stroke_width` is stroke-width, None leaves one out."""
    words = [
        f' {key.rstrip("_").replace("_", "-")}="{escape(printable(str(value)))}"'
        for key, value in attributes.items()
        if value is not None
    ]
    if name in _EMPTY:
        return Markup(f"<{name}{''.join(words)}/>")
    return Markup(f"<{name}{''.join(words)}>{join(children)}</{name}>")


def join(children: Sequence[str]) -> Markup:
    """Children one after the other, text escaped."""
    return Markup("".join(child if isinstance(child, Markup) else _text(child) for child in children))


def _text(words: object) -> str:
    return escape(printable(str(words)), quote=False)
