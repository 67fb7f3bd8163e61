"""A folder that a corrupted set is written to: claimed by what is written, so that nothing is mixed or overwritten."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch

from poise.corruptions.corrupt import Corruption
from poise.protocols import CORRUPTIONS, SEVERITIES

Progress = Callable[[str, int, int], None]
_MANIFEST = "corruption.json"


class OutputError(Exception):
    """The folder cannot take what is to be written."""


@dataclass(frozen=True)
class Making:
    """What is made of a set of images; the device changes nothing but the time."""

    corruptions: tuple[str, ...] = CORRUPTIONS
    severities: tuple[int, ...] = SEVERITIES
    profile: str = "cifar"
    seed: int = 0
    rounding: str = "nearest"
    jpeg: int | None = None

    def __post_init__(self) -> None:
        for name in self.corruptions:
            for severity in self.severities:
                Corruption(name, self.profile, self.rounding).at(severity)


def silent(what: str, done: int, total: int) -> None:
    """No progress shown."""


def claim(out: Path, making: Making, source: dict[str, Any]) -> None:
    """Make the folder, or go on in one that was begun with the same images and settings; else an OutputError.

    Corruptions may come later: each has files of its own.
    """
    facts = json.loads(json.dumps({"source": source, **asdict(making)}))
    del facts["corruptions"]
    manifest = out / _MANIFEST
    if manifest.exists():
        held = _read(manifest)
        different = [key for key in facts if held.get(key) != facts[key]]
        if different:
            was, now = (record.get(different[0]) for record in (held, facts))
            raise OutputError(
                f"{out} holds a set with another {different[0]} ({was}, not {now}): choose another folder"
            )
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise OutputError(f"{out} holds something else: choose an empty or a new folder")
    out.mkdir(parents=True, exist_ok=True)
    with new_file(manifest) as stream:
        stream.write(json.dumps(facts, indent=1).encode())


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file that appears whole, or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as stream:
            yield stream
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def device_for(name: str) -> torch.device:
    """A device that is there."""
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError("device 'cuda': there is none here, use cpu")
    return device


def _read(manifest: Path) -> dict[str, Any]:
    try:
        held = json.loads(manifest.read_text())
    except (OSError, ValueError):
        held = None
    if not isinstance(held, dict):
        raise OutputError(f"{manifest} cannot be read: choose another folder, or remove this one")
    return held
