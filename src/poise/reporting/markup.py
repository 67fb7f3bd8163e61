"""Elements of HTML and SVG as strings, well formed, with everything escaped that is not an element itself."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_EMPTY = {"img", "meta", "link", "br"}


class Markup(str):
    """A string that is markup already; any other string is text, and is escaped."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: object) -> Markup:
    """`<name attributes>children</name>`; `class_` is class, `stroke_width` is stroke-width, None leaves one out."""
    words = [
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    ]
    if name in _EMPTY:
        return Markup(f"<{name}{''.join(words)}/>")
    return Markup(f"<{name}{''.join(words)}>{join(children)}</{name}>")


def join(children: Sequence[str]) -> Markup:
    """Children one after the other, text escaped."""
    return Markup(
        "".join(child if isinstance(child, Markup) else escape(str(child), quote=False) for child in children)
    )
