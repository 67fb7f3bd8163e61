"""Which seeds a command is about: how many, or from one to another."""

from __future__ import annotations

import re
from typing import Annotated

import typer


def seeds_of(word: str) -> range:
    """`5` are 0 to 4, `3-4` are 3 and 4."""
    if written := re.fullmatch(r"(?:(\d+)-)?(\d+)", word):
        first, last = written.groups()
        found = range(int(last)) if first is None else range(int(first), int(last) + 1)
        if found:
            return found
    raise typer.BadParameter(f"{word!r}: give how many, such as 5, or which, such as 3-4")


Seeds = Annotated[
    range | None,
    typer.Option(
        parser=seeds_of, metavar="N|FROM-TO", help="How many seeds, from 0 on, or which. By default the recipe's."
    ),
]
