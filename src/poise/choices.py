"""Named choices: a setting that is one of a few words."""

from __future__ import annotations


def require_choice(name: str, value: str, *allowed: str) -> None:
    """ValueError unless `value` is one of the allowed words."""
    if value not in allowed:
        raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, allowed))}")
