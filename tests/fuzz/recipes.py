"""What a recipe is: a public name, how its arguments are made as Python source, and which mistakes apply to each.

Sources are templates: $B examples, $L classes, $E widths, $D features of one example, $T positions, $f a number in
(0, 1), $seed a whole number. An argument may use those that stand before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

Oracle = Callable[[dict[str, Any], Any], str | None]

# What no call is meant to get anywhere.
ABSURD = ("None", "object()", "torch.nn.Linear(2, 2)", "{'a': 1}", "'words'", "1e300", "(i for i in [1])", "10**40")
NOT_NUMBERS = ("None", "object()", "torch.nn.Linear(2, 2)", "{'a': 1}", "[[]]", "print")


@dataclass(frozen=True)
class Slot:
    """One argument: right sources, plausible mistakes, absurd ones, and the words by which a message may name it."""

    right: tuple[str, ...]
    mistakes: tuple[str, ...] = ()
    absurd: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    def but(self, *mistakes: str) -> Slot:
        """With more mistakes."""
        return replace(self, mistakes=(*self.mistakes, *mistakes))


@dataclass(frozen=True, eq=False)
class Recipe:
    """How a public name is called.

    call     an expression over the slots.
    wrong    whole calls that are mistakes, each with the words of which its message has one.
    oracle   what is wrong with the result of a right call, None if nothing is.
    trains   a right call may move the running statistics of a model, as training does.
    draws    a right call may move torch's global random state: it is given no generator, or builds weights.
    share    how often it is drawn as a right call, next to the others.
    errors   what else than TypeError and ValueError it may refuse with.
    """

    name: str
    slots: dict[str, Slot]
    call: str
    oracle: Oracle
    wrong: tuple[tuple[str, str], ...] = ()
    trains: bool = False
    draws: bool = False
    share: float = 1.0
    errors: tuple[type[Exception], ...] = field(default=())


def number(*right: str, mistakes: tuple[str, ...] = (), words: tuple[str, ...] = ()) -> Slot:
    """A finite number; what is below 0 is a mistake where `mistakes` says so."""
    wrong = ("float('nan')", "float('inf')", "'0.5'", "True", "torch.tensor([0.5, 0.5])", *mistakes)
    return Slot(right, wrong, NOT_NUMBERS, words)


def whole(*right: str, mistakes: tuple[str, ...] = ("-1",), words: tuple[str, ...] = (), none: bool = False) -> Slot:
    """A whole number, with None where that is allowed."""
    absurd = tuple(each for each in NOT_NUMBERS if not (none and each == "None"))
    return Slot(right, ("2.5", "'2'", "float('nan')", "True", "[2]", *mistakes), absurd, words)


def switch(words: tuple[str, ...] = ()) -> Slot:
    return Slot(("True", "False"), ("'yes'", "2", "None"), ("object()", "torch.nn.Linear(2, 2)"), words)


def choice(*right: str) -> Slot:
    """One of a few words."""
    return Slot(
        tuple(map(repr, right)), (repr(right[0] + "s"), repr(right[0].upper()), "''", "0", "None"), ("object()", "[[]]")
    )
