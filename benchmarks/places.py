"""Argument types of the benchmarks: files, devices and counts, checked before anything is measured."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch


def to_read(word: str) -> Path:
    """A path to an existing file."""
    path = Path(word)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"{word} is {'not a file' if path.exists() else 'not found'}")
    return path


def to_write(word: str) -> Path:
    """A path to a file in an existing folder."""
    path = Path(word)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(
            f"{word} is a folder: name a file" if path.is_dir() else f"{path.parent} is not a folder: create it first"
        )
    return path


def present(word: str) -> str:
    """A device that this machine has."""
    try:
        torch.empty(1, device=word).cpu()
    except (RuntimeError, AssertionError, NotImplementedError):
        raise argparse.ArgumentTypeError(f"{word} is not available on this machine") from None
    return word


def some(word: str) -> int:
    """A whole number of 1 or more."""
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"{word} must be a whole number of 1 or more")
    return int(word)
