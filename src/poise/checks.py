"""Checks of arguments and settings: choices, names, numbers and callables; and how to install a missing package."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from inspect import signature
from math import inf, isfinite
from numbers import Integral, Real
from typing import Any

TORCH = "needs PyTorch, which is not installed: pip install torch (see https://pytorch.org/get-started)"


def is_torch(error: ModuleNotFoundError) -> bool:
    """Whether the missing module is torch."""
    return (error.name or "").partition(".")[0] == "torch"


def install(extra: str) -> str:
    """How to install the packages of an extra."""
    return f'pip install ".[{extra}]" in a clone of Poise'


def require_choice(name: str, value: str, *allowed: str) -> None:
    """ValueError unless `value` is one of the allowed strings."""
    if value not in allowed:
        raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, allowed))}")


def require_known(kind: str, name: str, names: Iterable[str]) -> None:
    """ValueError, with the closest match, unless `name` is one of the names."""
    if name not in (known := list(names)):
        lowered = {each.lower(): each for each in reversed(known)}
        near = lowered[get_close_matches(str(name).lower(), lowered, n=1, cutoff=0)[0]]
        every = ", ".join(map(repr, known))
        raise ValueError(f"no {kind} is called {name!r}: did you mean {near!r}? There are {every}")


def require_folder_name(kind: str, name: str) -> None:
    """ValueError unless `name` can be the name of one folder."""
    if not name.strip(". ") or any(letter in name for letter in "/\\\0"):
        raise ValueError(f"{kind} is called {name!r}: choose a valid folder name, without / or \\")


def is_whole(value: Any) -> bool:
    """Whether `value` is an int, Python's or numpy's; False for True, 3.0 and None."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def require_whole(name: str, value: Any, least: int | None = None) -> None:
    """ValueError unless `value` is an int and at least `least`."""
    if not is_whole(value) or (least is not None and value < least):
        bound = "" if least is None else f" of {least} or more"
        raise ValueError(f"{name}={value!r} must be a whole number{bound}")


def require_number(name: str, value: Any, least: float = -inf, above: float = -inf, most: float = inf) -> None:
    """TypeError unless `value` is a number, ValueError unless it is finite and within these bounds."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r} must be a number, not a {type(value).__name__}")
    if not (isfinite(value) and least <= float(value) <= most and float(value) > above):
        bounds = {"of {:g} or more": least, "above {:g}": above, "of {:g} or less": most}
        words = " and ".join(bound.format(end) for bound, end in bounds.items() if isfinite(end))
        raise ValueError(f"{name}={value!r} must be a finite number" + (f" {words}" if words else ""))


def require_part(name: str, value: Any, *methods: str) -> None:
    """TypeError unless `value` is a callable object, not a class, with these methods."""
    if isinstance(value, type):
        raise TypeError(f"{name} is the class {value.__name__}: create an object, {value.__name__}(...)")
    if not callable(value) or not all(hasattr(value, method) for method in methods):
        also = "".join(f" and has {method}(...)" for method in methods)
        raise TypeError(f"{name}={value!r} must be an object that can be called{also}, not a {type(value).__name__}")


def require_taking(name: str, value: Any, *arguments: str) -> None:
    """TypeError unless `value` can be called with these arguments; callables without a signature pass."""
    with suppress(ValueError):
        try:
            signature(value).bind(*arguments)
        except TypeError:
            call = f"{name}({', '.join(arguments)})"
            raise TypeError(
                f"{name}={value!r} is called as {call}, but a {type(value).__name__} does not accept these arguments"
            ) from None


def require_several(name: str, value: Any) -> None:
    """TypeError for a single string or an object without items."""
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        raise TypeError(f"{name}={value!r} must be a list, such as [{value!r}], not a {type(value).__name__}")


def require_wholes(name: str, values: Any, count: int, least: int) -> None:
    """TypeError or ValueError unless `values` holds exactly `count` ints, each at least `least`."""
    require_several(name, values)
    if not hasattr(values, "__len__") or len(values) != count:
        raise ValueError(f"{name}={values!r} must be {count} whole numbers")
    for place in range(count):
        require_whole(f"{name}[{place}]", values[place], least)


def require_switch(name: str, value: Any) -> None:
    """TypeError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name}={value!r} must be True or False")
