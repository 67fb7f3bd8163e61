"""Elements of HTML and SVG as strings, well formed, with everything escaped that is not an element itself.

The frame of every page: one file that loads nothing, well-formed as HTML and as XML.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from poise.io.json_files import printable

# No script, nothing loaded; styles and pictures are in the page itself.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def document(title: str, *parts: str, source: str = "the records of finished runs") -> str:
    """A page of these parts; `source` is what it was made from."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{title} · Poise"),
        element("style", Markup(_style())),
    )
    footer = element("footer", f"Made from {source}; nothing on this page is loaded from elsewhere.")
    return f"<!DOCTYPE html>\n{element('html', head, element('body', element('main', *parts), footer), lang='en')}\n"


def _style() -> str:
    return files("poise.reporting").joinpath("page.css").read_text(encoding="utf-8")


_EMPTY = {"img", "meta", "link", "br"}


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
