"""Sets that stay where they are: folders of pictures too large to copy, checked for their layout.

ImageNet     train/<wnid>/*.JPEG, and val/<wnid>/*.JPEG or val/*.JPEG
ImageNet-C   [<group>/]<corruption>/<severity>/<wnid>/*.JPEG
"""

from __future__ import annotations

import re
from pathlib import Path

from poise.data.errors import DataMismatch, DataNotFound

WNID = re.compile(r"n\d{8}")
PICTURES = (".jpeg", ".jpg", ".png")


def imagenet(path: Path, num_classes: int = 1000) -> dict[str, int]:
    """The numbers of classes and pictures, if the folder is laid out as ImageNet."""
    train = _classes(_folder(path / "train"))
    val = _folder(path / "val")
    if len(train) != num_classes:
        raise DataMismatch(f"{path / 'train'} has {len(train)} class folders such as n01440764, not {num_classes}")
    classes = _classes(val)
    flat = 0 if classes else _pictures(val)
    if not flat and [c.name for c in classes] != [c.name for c in train]:
        raise DataMismatch(f"{val} has neither pictures nor the {num_classes} class folders of {path / 'train'}")
    counts = {"train": sum(_pictures(c) for c in train), "val": flat or sum(_pictures(c) for c in classes)}
    return {"classes": len(train), **counts}


def imagenet_c(path: Path) -> dict[str, int]:
    """The number of corruptions, if the folder is laid out as ImageNet-C; each must have severities 1 to 5."""
    severities = [p for p in [*_folder(path).glob("*/[1-5]"), *path.glob("*/*/[1-5]")] if p.is_dir() and _classes(p)]
    corruptions: dict[str, set[str]] = {}
    for place in severities:
        corruptions.setdefault(place.parent.name, set()).add(place.name)
    partial = sorted(name for name, found in corruptions.items() if found != set("12345"))
    if not corruptions or partial:
        raise DataMismatch(f"{path} lacks severities 1 to 5 of {', '.join(partial) or 'any corruption'}")
    return {"corruptions": len(corruptions)}


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise DataNotFound(f"{path} is not a folder")
    return path


def _classes(path: Path) -> list[Path]:
    return sorted(p for p in path.iterdir() if p.is_dir() and WNID.fullmatch(p.name))


def _pictures(path: Path) -> int:
    return sum(p.suffix.lower() in PICTURES for p in path.iterdir())
