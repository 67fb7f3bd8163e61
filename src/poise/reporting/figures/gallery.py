"""Figures side by side under a title, with their legend and notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from poise.reporting.render import Sheet

COLOURS = 12  # methods that the style sheet tells apart


@dataclass(frozen=True)
class Key:
    """An entry of a legend; `colour` is any CSS colour."""

    name: str
    colour: str


@dataclass(frozen=True)
class Gallery:
    """Figures and what is needed to read them.

    note    above the figures.
    below   a note below them.
    sheet   the same numbers as a table, folded away.
    folded  whether the figures themselves are folded away.
    """

    title: str
    figures: Sequence[Markup]
    legend: Sequence[Key] = ()
    note: str = ""
    below: str = ""
    sheet: Sheet | None = None
    folded: bool = False


def legend(names: Sequence[str]) -> list[Key]:
    """Methods in the colours that figures give them, by their place in the list."""
    return [Key(name, f"var(--c{place % COLOURS})") for place, name in enumerate(names)]
