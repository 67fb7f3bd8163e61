"""Pictures by a word: a set of the cache, a folder of class folders, an .npz or .npy, which may hold a table."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from poise.auditing.arrays import from_array, open_arrays
from poise.auditing.errors import AuditError
from poise.auditing.examples import Damaged, Examples
from poise.auditing.rows import read_rows
from poise.corruptions.rgb import as_rgb
from poise.data.cache import load
from poise.data.classes import CLASS_NAMES
from poise.data.decoding import open_picture
from poise.data.errors import DataNotFound
from poise.data.folders import in_class_folders
from poise.data.synthetic_mnist import SyntheticMNIST

SETS = ("mnist", "cifar10", "cifar100", "synthetic-mnist")
_SIZE = 224  # of pictures of many sizes


def open_pictures(
    source: str, labels: Path | None, metadata: Path | None, size: int | None, grey: bool = False
) -> Examples:
    """What the word means; an AuditError says what it could have been. Pictures of a folder are RGB, or `grey`."""
    path = Path(source)
    if source in SETS:
        found = _set(source)
    elif path.is_dir():
        found = _folder(path, size, grey)
    elif path.suffix in (".npz", ".npy"):
        found = open_arrays(path, labels)
    else:
        raise AuditError(
            f"no data are found under {source!r}: name {', '.join(SETS)}, a folder of class folders, an .npz or .npy, "
            "or sentences as .tsv, .csv or .jsonl"
        )
    if metadata is None:
        return found
    columns = read_rows(metadata)
    counts = {name: len(values) for name, values in columns.items() if len(values) != len(found)}
    if counts:
        raise AuditError(f"{metadata} has {next(iter(counts.values()))} rows for {len(found)} examples, in their order")
    return replace(found, columns={**found.columns, **columns})


def _set(name: str) -> Examples:
    if name != "synthetic-mnist":
        found = from_array(f"{name} (test)", load(name, "test_x"), load(name, "test_y"))
        return replace(found, called=CLASS_NAMES.get(name, ()))
    parts = ("train_x", "train_y", "test_x", "test_y")
    digits = SyntheticMNIST()({part: load("mnist", part) for part in parts})["test"]
    columns = {"corner": [("none", "digit")[int(corner >= 0)] for corner in digits.corner]}
    return replace(from_array("synthetic MNIST (test)", digits.x, digits.y, columns), rare=range(10, 15))


def _folder(path: Path, size: int | None, grey: bool) -> Examples:
    """Class folders. Without a size, pictures that are all of one are left as they are; others become 224 x 224."""
    try:
        listing = in_class_folders(path)
    except DataNotFound as error:
        raise AuditError(f"{error}: it needs the layout <class>/<picture>") from None
    labels = np.array([label for _, label in listing.pictures])
    common = None if size is not None else _common_size([picture for picture, _ in listing.pictures])
    wanted = size or (None if common is not None else _SIZE)

    def read(rows: Sequence[int]) -> Tensor:
        return torch.stack([_picture(listing.pictures[row][0], wanted, common, grey) for row in rows])

    def source(row: int) -> str:
        return listing.pictures[row][0].relative_to(path).as_posix()

    return Examples(path.name, labels, {}, listing.classes, read, source)


def _common_size(paths: Sequence[Path]) -> tuple[int, int] | None:
    """That of all of them, as far as some hundreds tell; what cannot be read is named when its turn comes."""
    sizes = set()
    for path in paths[:: max(1, len(paths) // 500)]:
        with suppress(Exception), open_picture(path) as opened:
            sizes.add(opened.size)
    return sizes.pop() if len(sizes) == 1 else None


def _cut(picture: Image.Image, size: int) -> Image.Image:
    """Scaled by the short side and cut from the middle, as for ImageNet."""
    short, target = min(picture.size), round(size * 256 / 224)
    width, height = (max(size, round(side * target / short)) for side in picture.size)
    left, top = (width - size) // 2, (height - size) // 2
    scaled = picture.resize((width, height), Image.Resampling.BILINEAR)
    return scaled.crop((left, top, left + size, top + size))


def _picture(path: Path, size: int | None, common: tuple[int, int] | None, grey: bool) -> Tensor:
    try:
        with open_picture(path) as opened:
            picture = as_rgb(opened).convert("L" if grey else "RGB")
            pixels = np.asarray(picture if size is None else _cut(picture, size))
    except Exception as error:  # whatever a damaged file makes a decoder raise
        raise Damaged(f"{path} cannot be read as a picture: {error}") from None
    if common is not None and picture.size != common:
        raise AuditError(f"{path} is {picture.size[0]} x {picture.size[1]}, others are not: say --size")
    return torch.from_numpy(pixels.copy()).reshape(*pixels.shape[:2], -1).permute(2, 0, 1).float() / 255
