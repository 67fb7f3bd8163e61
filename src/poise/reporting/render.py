"""Pages from templates: one file that loads nothing and runs no script, well formed as HTML and as XML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from poise.io.documents import printable

ABBREVIATIONS = {
    "XE": "cross-entropy",
    "FCL": "feature contrastive learning",
    "CL+Gaussian": "a contrast with noise on all features",
    "XE+Gaussian": "a second cross-entropy, of noisy inputs",
    "PG": "Patch Gaussian: noise inside a square of the image",
    "GN": "Gaussian noise on half of the images",
    "BAL": "the balanced test set, without noise",
    "UN": "uniform noise: some pixels become a random grey",
    "NUN": "non-uniform noise: pixels that vary much are chosen more often",
    "mCE": "mean corruption error, relative to AlexNet's; lower is better",
    "adjusted": "the loss adds the logarithm of each class's frequency to its logit",
    "recommended": "adjusted logits, and a contrast with noise on random features",
    "random": "a contrast with noise on random features",
}
_WORD = re.compile(
    "|".join(rf"(?<![\w+]){re.escape(name)}(?!\w)" for name in sorted(ABBREVIATIONS, key=len, reverse=True))
)


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


def meaning_of(name: str) -> str:
    """What the abbreviations in the name of a column or a method mean: `UN: uniform noise: ...`; "" if it has none."""
    held = dict.fromkeys(found[0] for found in _WORD.finditer(re.sub(r"\+(?!Gaussian)", " ", name)))
    return "; ".join(f"{word}: {ABBREVIATIONS[word]}" for word in held)


def _finalize(value: object) -> str:
    return value if isinstance(value, Markup) else printable(str(value))
