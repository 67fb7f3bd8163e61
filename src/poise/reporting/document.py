"""The frame of every page: one file that loads nothing, well-formed as HTML and as XML."""

from __future__ import annotations

from importlib.resources import files

from poise.reporting.markup import Markup, element

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
