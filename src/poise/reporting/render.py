"""Pages from templates: one file that loads nothing and runs no script, well formed as HTML and as XML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from poise.io.documents import printable
from poise.reporting.captions import meaning_of


@dataclass(frozen=True)
class Cell:
    """A cell of a sheet.

    paper  the paper's number, which is shown below ours.
    tone   good or bad.
    below  any other text below the number.
    """

    text: str
    bold: bool = False
    paper: str = ""
    tone: str = ""
    below: str = ""


@dataclass(frozen=True)
class Sheet:
    """A table on a page: names of columns, rows that begin with a header cell, and the rows with a rule above them."""

    head: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    rules: frozenset[int] = frozenset()


def render(template: str, **content: object) -> str:
    """The page that a template makes of `content`; text is escaped, Markup is inserted as it is."""
    return _environment().get_template(f"{template}.html.j2").render(content)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("poise.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["meaning_of"] = meaning_of
    return environment


def _finalize(value: object) -> str:
    return value if isinstance(value, Markup) else printable(str(value))
