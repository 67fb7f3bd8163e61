"""Settings that are one of a few words, or whole numbers."""

from __future__ import annotations

from numbers import Integral
from typing import Any


def require_choice(name: str, value: str, *allowed: str) -> None:
    """ValueError unless `value` is one of the allowed words."""
    if value not in allowed:
        raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, allowed))}")


def is_whole(value: Any) -> bool:
    """An int, Python's or numpy's; True, 3.0 and None are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def require_whole(name: str, value: Any, least: int | None = None) -> None:
    """ValueError unless `value` is an int, and not below `least`."""
    if not is_whole(value) or (least is not None and value < least):
        bound = "" if least is None else f" of {least} or more"
        raise ValueError(f"{name}={value!r} must be a whole number{bound}")
