"""What to install where a package is missing."""

from __future__ import annotations


def install(extra: str) -> str:
    """How the packages of an extra are had."""
    return f'pip install ".[{extra}]" in a clone of Poise'
