"""Files, devices and counts that a benchmark is given: what is wrong with them is said before anything is measured."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch


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


def present(word: str) -> str:
    """A device of this machine."""
    try:
        torch.empty(1, device=word).cpu()
    except (RuntimeError, AssertionError, NotImplementedError):
        raise argparse.ArgumentTypeError(f"{word} is no device of this machine") from None
    return word


def some(word: str) -> int:
    """A whole number from 1 on."""
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"{word} is no whole number from 1 on")
    return int(word)
