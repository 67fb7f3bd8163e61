"""Files that a benchmark is given: what is wrong with them is said before anything is measured."""

from __future__ import annotations

import argparse
from pathlib import Path


def to_read(word: str) -> Path:
    """A file that is there."""
    path = Path(word)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"{word} is {'not a file' if path.exists() else 'not there'}")
    return path


def to_write(word: str) -> Path:
    """A file in a folder that is there."""
    path = Path(word)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(
            f"{word} is a folder: name a file" if path.is_dir() else f"{path.parent} is no folder: make it first"
        )
    return path
