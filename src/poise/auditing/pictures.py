"""Pictures by a word: a set of the cache, a folder of class folders, an .npz or .npy; drawn at random, read as needed.

Axes: N examples, H rows, W columns, C channels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from poise.auditing.batches import Batch
from poise.auditing.errors import AuditError
from poise.auditing.rows import Columns, read_rows
from poise.corruptions.rgb import as_rgb
from poise.data.cache import load
from poise.data.errors import DataNotFound
from poise.data.folders import in_class_folders
from poise.data.synthetic_mnist import SyntheticMNIST

SETS = ("mnist", "cifar10", "cifar100", "synthetic-mnist")
_BATCH = 16
_SIZE = 224  # of pictures of many sizes
_IMAGES, _LABELS = ("x", "images", "image", "data", "arr_0"), ("y", "labels", "label", "targets", "arr_1")


@dataclass(frozen=True, eq=False)
class Pictures:
    """labels [N], columns, and how the pictures of some rows are read [B, C, H, W] in [0, 1]."""

    name: str
    labels: np.ndarray
    columns: Columns
    classes: Sequence[str]
    read: Callable[[Sequence[int]], Tensor]
    rare: Sequence[int] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def batches(self, rows: Sequence[int], size: int = _BATCH) -> Iterator[Batch]:
        """These rows, in this order."""
        for start in range(0, len(rows), size):
            part = list(rows[start : start + size])
            columns = {name: [values[row] for row in part] for name, values in self.columns.items()}
            yield Batch(self.read(part), torch.from_numpy(self.labels[part].astype(np.int64)), columns)


def open_pictures(source: str, labels: Path | None, metadata: Path | None, size: int | None) -> Pictures:
    """What the word means; an AuditError says what it could have been."""
    path = Path(source)
    if source in SETS:
        found = _set(source)
    elif path.is_dir():
        found = _folder(path, size)
    elif path.suffix in (".npz", ".npy"):
        found = _arrays(path, labels)
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
        raise AuditError(f"{metadata} has {next(iter(counts.values()))} rows for {len(found)} pictures, in their order")
    return Pictures(found.name, found.labels, {**found.columns, **columns}, found.classes, found.read, found.rare)


def _set(name: str) -> Pictures:
    if name != "synthetic-mnist":
        return _from_array(f"{name} (test)", load(name, "test_x"), load(name, "test_y"))
    parts = ("train_x", "train_y", "test_x", "test_y")
    digits = SyntheticMNIST()({part: load("mnist", part) for part in parts})["test"]
    columns = {"corner": [("none", "digit")[int(corner >= 0)] for corner in digits.corner]}
    return _from_array("synthetic MNIST (test)", digits.x, digits.y, columns, rare=range(10, 15))


def _from_array(
    name: str,
    images: np.ndarray,
    labels: np.ndarray,
    columns: Columns | None = None,
    rare: Sequence[int] | None = None,
) -> Pictures:
    """uint8 or floats in [0, 1], [N, H, W], [N, H, W, C], or [N, C, H, W] if only that has 1 or 3 channels."""
    if images.ndim == 4 and images.shape[3] not in (1, 3) and images.shape[1] in (1, 3):
        images = images.transpose(0, 2, 3, 1)
    if images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] not in (1, 3)):
        raise AuditError(f"{name} holds {images.dtype} {list(images.shape)}, not pictures [N, H, W] or [N, H, W, 3]")
    if labels.shape != (len(images),) or labels.dtype.kind not in "iu":
        raise AuditError(f"{name} needs one whole number as label per picture, got {labels.dtype} {list(labels.shape)}")

    def read(rows: Sequence[int]) -> Tensor:
        part = torch.from_numpy(np.array(images[list(rows)]))
        part = part[:, None] if part.ndim == 3 else part.permute(0, 3, 1, 2).contiguous()
        return part.float() / 255 if part.dtype == torch.uint8 else part.float()

    classes = [str(label) for label in range(int(labels.max(initial=0)) + 1)]
    return Pictures(name, np.asarray(labels), columns or {}, classes, read, rare)


def _arrays(path: Path, labels: Path | None) -> Pictures:
    """An .npz with images, labels and columns beside them; or an .npy with its labels in another."""
    try:
        if path.suffix == ".npy":
            if labels is None:
                raise AuditError(f"{path} holds pictures alone: give their labels with --labels FILE.npy")
            return _from_array(path.name, np.load(path, mmap_mode="r"), np.load(labels))
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError) as error:
        raise AuditError(f"{path} cannot be read: {error}") from None
    x, y = (next((name for name in names if name in arrays), None) for names in (_IMAGES, _LABELS))
    if x is None or y is None:
        raise AuditError(f"{path} holds {', '.join(arrays)}: call the pictures x and the labels y")
    rest = {n: [str(v) for v in a] for n, a in arrays.items() if n not in (x, y) and a.shape == arrays[y].shape}
    return _from_array(path.name, arrays[x], arrays[y], rest)


def _folder(path: Path, size: int | None) -> Pictures:
    """Class folders. Without a size, pictures that are all of one are left as they are; others become 224 x 224."""
    try:
        listing = in_class_folders(path)
    except DataNotFound as error:
        raise AuditError(f"{error}: it needs the layout <class>/<picture>") from None
    labels = np.array([label for _, label in listing.pictures])
    wanted = size or (None if _all_of_one_size([picture for picture, _ in listing.pictures]) else _SIZE)

    def read(rows: Sequence[int]) -> Tensor:
        return torch.stack([_picture(listing.pictures[row][0], wanted) for row in rows])

    return Pictures(path.name, labels, {}, listing.classes, read)


def _all_of_one_size(paths: Sequence[Path]) -> bool:
    """Whether they are, as far as some hundreds of them tell; what cannot be read is named when its turn comes."""
    sizes = set()
    for path in paths[:: max(1, len(paths) // 500)]:
        with suppress(Exception), Image.open(path) as opened:
            sizes.add(opened.size)
    return len(sizes) == 1


def _cut(picture: Image.Image, size: int) -> Image.Image:
    """Scaled by the short side and cut from the middle, as for ImageNet."""
    short, target = min(picture.size), round(size * 256 / 224)
    width, height = (max(size, round(side * target / short)) for side in picture.size)
    left, top = (width - size) // 2, (height - size) // 2
    scaled = picture.resize((width, height), Image.Resampling.BILINEAR)
    return scaled.crop((left, top, left + size, top + size))


def _picture(path: Path, size: int | None) -> Tensor:
    try:
        with Image.open(path) as opened:
            picture = as_rgb(opened)
            pixels = np.asarray(picture if size is None else _cut(picture, size))
    except Exception as error:  # whatever a damaged file makes a decoder raise
        raise AuditError(f"{path} cannot be read as a picture: {error}") from None
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255
