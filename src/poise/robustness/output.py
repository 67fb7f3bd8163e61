"""A folder that a corrupted set is written to: claimed by what is written, so that nothing is mixed or overwritten."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from poise.choices import require_whole
from poise.corruptions.corrupt import Corruption, corrupt
from poise.corruptions.jpeg import Jpeg
from poise.protocols import CORRUPTIONS, SEVERITIES
from poise.whole import is_part, new_file, sweep

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
    libraries: str = "2018"
    jpeg: int | None = None

    def __post_init__(self) -> None:
        if not self.corruptions or not self.severities:
            raise ValueError("corruptions and severities must name at least one each")
        require_whole("seed", self.seed)
        if self.jpeg is not None:
            Jpeg(self.jpeg)
        for name in self.corruptions:
            for severity in self.severities:
                Corruption(name, self.profile, self.libraries).at(severity)

    def require_size(self, height: int, width: int) -> None:
        """ValueError for images that one of the corruptions cannot take."""
        for name in self.corruptions:
            Corruption(name, self.profile, self.libraries).require_size(height, width)

    def of(
        self, images: Tensor, name: str, severity: int, index: Tensor | Sequence[int] | int, jpeg: bool = True
    ) -> Tensor:
        """The images under one of the corruptions; `jpeg=False` leaves the second pass to a file that is saved so."""
        quality = self.jpeg if jpeg else None
        return corrupt(
            images, name, severity, self.profile, seed=self.seed, index=index, libraries=self.libraries, jpeg=quality
        )


def silent(what: str, done: int, total: int) -> None:
    """No progress shown."""


def claim(out: Path, making: Making, source: dict[str, Any]) -> None:
    """Make the folder, or go on in one that was begun with the same source and settings; else an OutputError.

    Corruptions may come later: each has files of its own. What a killed run left half written is removed.
    """
    facts = json.loads(json.dumps({**source, **asdict(making)}, default=int))
    del facts["corruptions"]
    manifest = out / _MANIFEST
    if manifest.exists():
        _require_same(out, _read(manifest), facts)
    elif out.exists() and (not out.is_dir() or not all(map(is_part, out.iterdir()))):
        raise OutputError(f"{out} holds something else: choose an empty or a new folder")
    out.mkdir(parents=True, exist_ok=True)
    sweep(out)
    if not manifest.exists():
        with new_file(manifest, within=out) as stream:
            stream.write(json.dumps(facts, indent=1).encode())


def device_for(name: str) -> torch.device:
    """A device that is there and can do it: the corruptions need float64, which not every kind has."""
    if not re.fullmatch(r"(cpu|cuda)(:\d+)?", name):
        raise ValueError(f"device {name!r}: the corruptions run on cpu and cuda")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device {name!r}: there is none here, use cpu")
    return device


def _require_same(out: Path, held: dict[str, Any], facts: dict[str, Any]) -> None:
    for key, now in facts.items():
        was = held.get(key)
        if was != now:
            raise OutputError(
                f"{out} holds a set that differs in its {key} ({_short(was)}, not {_short(now)}): choose another folder"
            )


def _short(value: Any) -> Any:
    """Twelve letters of a digest."""
    return f"{value[:12]}…" if isinstance(value, str) and len(value) == 64 else value


def _read(manifest: Path) -> dict[str, Any]:
    try:
        held = json.loads(manifest.read_text())
    except (OSError, ValueError):
        held = None
    if not isinstance(held, dict):
        raise OutputError(f"{manifest} cannot be read: choose another folder, or remove this one")
    return held
