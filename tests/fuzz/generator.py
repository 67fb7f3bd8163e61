"""Calls from a seed: one number makes one call, whatever came before it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random
from string import Template

from fuzz.recipes import Recipe

RIGHT, MISTAKE, ABSURD = "right", "mistake", "absurd"
_TURNS = (RIGHT, MISTAKE, MISTAKE, RIGHT, MISTAKE, ABSURD, MISTAKE, RIGHT, MISTAKE, MISTAKE)
_STRIDE = 7919  # a prime, so that neighbours are of different names and a round meets all of them


@dataclass(frozen=True)
class Call:
    """A call as source: its arguments one after the other, what is wrong last, and the expression.

    words  by which a message may name what is wrong, as a pattern.
    """

    seed: int
    kind: str
    recipe: Recipe
    arguments: tuple[tuple[str, str], ...]
    expression: str
    words: str = ""

    def __str__(self) -> str:
        """Python that can be pasted, with src and tests on the path."""
        lines = ["from fuzz.pieces import *", f"torch.manual_seed({self.seed})"]
        lines += [f"{name} = {source}" for name, source in self.arguments]
        return "\n".join([*lines, self.expression])


@dataclass(frozen=True)
class Plot:
    """Which of the mistakes a call makes: the wrong source of one slot, or a wrong expression."""

    recipe: Recipe
    slot: str = ""
    source: str = ""
    expression: str = ""
    words: str = ""


def plots(recipes: tuple[Recipe, ...], kind: str) -> list[Plot]:
    """Every mistake, or every absurdity, of the recipes."""
    found = []
    for recipe in recipes:
        for name, slot in recipe.slots.items():
            words = "|".join((name, *slot.words))
            sources = slot.mistakes if kind == MISTAKE else slot.absurd
            found += [Plot(recipe, name, source, recipe.call, words) for source in sources]
        if kind == MISTAKE:
            found += [Plot(recipe, expression=expression, words=words) for expression, words in recipe.wrong]
    return found


_plots = cache(plots)


def make(seed: int, recipes: tuple[Recipe, ...]) -> Call:
    """The call of a seed. Mistakes come in turn, so that as many seeds as there are mistakes meet every one."""
    kind = _TURNS[seed % len(_TURNS)]
    random = Random(f"poise/{seed}")
    if kind == RIGHT:
        (recipe,) = random.choices(recipes, [each.share for each in recipes])
        return _filled(seed, kind, Plot(recipe, expression=recipe.call), random)
    return _filled(seed, kind, plot_of(seed, recipes), random)


def plot_of(seed: int, recipes: tuple[Recipe, ...]) -> Plot:
    """The mistake or absurdity whose turn it is."""
    place = seed % len(_TURNS)
    kind = _TURNS[place]
    turn = seed // len(_TURNS) * _TURNS.count(kind) + _TURNS[:place].count(kind)
    every = _plots(recipes, kind)
    return every[turn * _STRIDE % len(every)]


def _filled(seed: int, kind: str, plot: Plot, random: Random) -> Call:
    """The templates filled in with sizes and numbers."""
    sizes = {
        "B": random.randint(2, 5),
        "L": random.randint(2, 5),
        "E": random.randint(2, 6),
        "D": random.randint(4, 9),
        "T": random.randint(4, 8),
        "f": round(random.uniform(0.05, 0.95), 3),
        "seed": random.randrange(1000),
    }
    sizes["more"] = sizes["B"] + 1
    chosen = [(name, random.choice(slot.right)) for name, slot in plot.recipe.slots.items()]
    chosen += [(plot.slot, plot.source)] if plot.slot else []  # last: others are made to fit what is right
    arguments = tuple((name, Template(source).substitute(sizes)) for name, source in chosen)
    return Call(seed, kind, plot.recipe, arguments, Template(plot.expression).substitute(sizes), plot.words)
