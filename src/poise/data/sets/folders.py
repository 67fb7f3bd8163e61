"""ImageNet and ImageNet-C in the user's folders, which are too large to copy: their images, labels and layout checks.

    ImageNet     train/<wnid>/*.JPEG, and val/<wnid>/*.JPEG or val/*.JPEG with a file of labels; also the top folder of
                 Kaggle's archive, which has them further down
    ImageNet-C   [<group>/]<corruption>/<severity>/<wnid>/*.JPEG

A wnid is a class of ImageNet: n and eight digits. Other folders among them are ignored.

If all validation images are in one folder, their labels come from one of these files, which is searched in that folder,
beside it, in a development kit beside it, and in the folders above:

    LOC_val_solution.csv                          ILSVRC2012_val_00000001,n01751748 111 108 431 323    (Kaggle)
    imagenet_2012_validation_synset_labels.txt    one wnid per line, in the order of the images
    ILSVRC2012_validation_ground_truth.txt        one number per line; map_clsloc.txt or meta.mat in the development kit
                                                  maps numbers to wnids

`Drawn` makes pictures in ImageNet's layout by code, for miniatures and benchmarks without ImageNet.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from math import pi
from multiprocessing import get_context
from pathlib import Path
from typing import Literal
from uuid import uuid4

import numpy as np

from poise.errors import DataMismatch, DataNotFound
from poise.io.files import regular
from poise.random import Stream

PICTURES = (".jpeg", ".jpg", ".png")
KAGGLE = Path("ILSVRC/Data/CLS-LOC")


@dataclass(frozen=True)
class Listing:
    """Paths of images with their labels; a label is the index of its class in `classes`."""

    classes: tuple[str, ...]
    pictures: tuple[tuple[Path, int], ...]


class PackedListing:
    """A listing as three arrays, a `Source`.

    Forked workers share arrays. A million Python paths would be copied page by page, since reading an object changes
    its reference count.
    """

    def __init__(self, listing: Listing) -> None:
        paths = [os.fsencode(path) for path, _ in listing.pictures]
        self.classes = listing.classes
        self.labels = np.array([label for _, label in listing.pictures], np.int64)
        self._names = np.frombuffer(b"".join(paths), np.uint8)
        self._ends = np.cumsum([len(path) for path in paths])

    def __len__(self) -> int:
        return len(self.labels)

    def name(self, index: int) -> Path:
        first = self._ends[index - 1] if index else 0
        return Path(os.fsdecode(self._names[first : self._ends[index]].tobytes()))

    def read(self, index: int) -> bytes:
        return regular(self.name(index)).read_bytes()

    def order(self, seed: int, epoch: int) -> np.ndarray:
        """A random permutation of all images."""
        return Stream(seed, "order", epoch).permutation(len(self))


def in_class_folders(folder: Path, wnids: bool = False) -> Listing:
    """List <class>/*.JPEG, with classes in order of their names; `wnids` ignores folders that are not wnids."""
    classes = [p for p in _subfolders(folder) if not wnids or WNID.fullmatch(p.name)] if folder.is_dir() else []
    pictures = tuple((path, label) for label, place in enumerate(classes) for path in _pictures(place))
    if not pictures:
        raise DataNotFound(f"{folder} has no class folders with images")
    return Listing(tuple(place.name for place in classes), pictures)


def imagenet_part(path: Path, part: Literal["train", "val"]) -> Listing:
    """List ImageNet's images for training or validation, in any known layout."""
    folder = _folder(_home(path) / part)
    if part == "train" or _classes(folder):
        return in_class_folders(folder, wnids=True)
    pictures = _pictures(folder)
    if not pictures:
        raise DataNotFound(f"{folder} has neither class folders such as n01440764 nor images")
    labels = val_labels(folder)
    classes = tuple(sorted(set(labels.values())))
    places = {wnid: place for place, wnid in enumerate(classes)}
    if lost := [picture.name for picture in pictures if picture.stem not in labels]:
        raise DataMismatch(f"{len(lost)} of the {len(pictures)} images in {folder} have no label, such as {lost[0]}")
    return Listing(classes, tuple((picture, places[labels[picture.stem]]) for picture in pictures))


def imagenet_folders(path: Path, num_classes: int = 1000) -> dict[str, int]:
    """Check that a folder has ImageNet's layout, and return the numbers of classes and images."""
    place = _home(path) / "train"
    train = _classes(_folder(place))
    if len(train) != num_classes:
        raise DataMismatch(f"{place} has {len(train)} class folders such as n01440764, not {num_classes}")
    val = imagenet_part(path, "val")
    if val.classes != tuple(folder.name for folder in train):
        raise DataMismatch(f"{_home(path) / 'val'} has {len(val.classes)} classes, not the {num_classes} of {place}")
    return {"classes": num_classes, "train": sum(len(_pictures(p)) for p in train), "val": len(val.pictures)}


def imagenet_c(path: Path) -> dict[str, int]:
    """Check that a folder has ImageNet-C's layout, with severities 1 to 5, and return the number of corruptions."""
    severities = [p for p in [*_folder(path).glob("*/[1-5]"), *path.glob("*/*/[1-5]")] if p.is_dir() and _classes(p)]
    corruptions: dict[str, set[str]] = {}
    for place in severities:
        corruptions.setdefault(place.parent.name, set()).add(place.name)
    partial = sorted(name for name, found in corruptions.items() if found != set("12345"))
    if not corruptions or partial:
        raise DataMismatch(f"{path} lacks severities 1 to 5 of {', '.join(partial) or 'any corruption'}")
    return {"corruptions": len(corruptions)}


def imagenet_c_part(path: Path, corruption: str, severity: int) -> Listing | None:
    """List the images of a corruption at a severity; None if the folder does not have them."""
    places = [path / corruption / str(severity), *sorted(path.glob(f"*/{corruption}/{severity}"))]
    found = next((place for place in places if place.is_dir()), None)
    return None if found is None else in_class_folders(found, wnids=True)


def _home(path: Path) -> Path:
    """The folder that contains train and val, also below the top folder of Kaggle's archive."""
    return path / KAGGLE if (path / KAGGLE).is_dir() else path


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise DataNotFound(f"{path} is not a folder")
    return path


def _subfolders(path: Path) -> list[Path]:
    return sorted(p for p in path.iterdir() if p.is_dir())


def _classes(path: Path) -> list[Path]:
    return [p for p in _subfolders(path) if WNID.fullmatch(p.name)]


def _pictures(path: Path) -> list[Path]:
    names = (name for name in os.listdir(path) if name.lower().endswith(PICTURES) and not name.startswith("."))
    return [path / name for name in sorted(names)]


WNID = re.compile(r"n\d{8}")


def val_labels(val: Path) -> dict[str, str]:
    """The labels of validation images in one folder: {name of an image without its ending: wnid}."""
    for name, read in READERS.items():
        for place in _places(val):
            if (place / name).is_file():
                return _sound(read(place / name), place / name)
    raise DataNotFound(
        f"{val} has images without class folders, and their labels were not found: none of {', '.join(READERS)}"
    )


def _places(val: Path) -> Iterator[Path]:
    yield from (val, val.parent)
    yield from sorted(val.parent.glob("*devkit*/data"))
    yield from val.parent.parents[:3]


def _kaggle(path: Path) -> dict[str, str]:
    rows = (line.partition(",") for line in _lines(path)[1:])
    return {name: prediction.split(" ")[0] for name, _, prediction in rows}


def _in_order(path: Path) -> dict[str, str]:
    return _numbered(_lines(path))


def _ground_truth(path: Path) -> dict[str, str]:
    wnids = _wnids_of_numbers(path.parent)
    return _numbered([wnids.get(line, line) for line in _lines(path)])


def _wnids_of_numbers(folder: Path) -> dict[str, str]:
    if (folder / "map_clsloc.txt").is_file():
        rows = [line.split(" ") for line in _lines(folder / "map_clsloc.txt")]
        return {row[1]: row[0] for row in rows if len(row) > 1}
    if (folder / "meta.mat").is_file():
        return _from_matlab(folder / "meta.mat")
    raise DataNotFound(
        f"{folder} has neither map_clsloc.txt nor meta.mat, which map the numbers of the ground truth to classes"
    )


def _from_matlab(path: Path) -> dict[str, str]:
    try:
        matlab = import_module("scipy.io")
    except ModuleNotFoundError:
        raise DataNotFound(f"reading {path} requires scipy: pip install scipy") from None
    try:
        rows = matlab.loadmat(path, squeeze_me=True)["synsets"]
        return {str(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in rows}
    except Exception as error:  # the reader may raise anything for a damaged file
        raise DataMismatch(f"{path} is not the development kit's meta.mat: {error}") from None


def _numbered(wnids: list[str]) -> dict[str, str]:
    return {f"ILSVRC2012_val_{number:08d}": wnid for number, wnid in enumerate(wnids, start=1)}


def _sound(labels: dict[str, str], path: Path) -> dict[str, str]:
    wrong = [wnid for wnid in labels.values() if not WNID.fullmatch(wnid)]
    if wrong or not labels:
        found = f"found {wrong[0][:60]!r}" if wrong else "it is empty"
        raise DataMismatch(f"{path} does not label images with classes such as n01440764: {found}")
    return labels


def _lines(path: Path) -> list[str]:
    try:
        return [line for line in path.read_text(encoding="utf8").splitlines() if line]
    except UnicodeDecodeError:
        raise DataMismatch(f"{path} is not UTF-8 text") from None


READERS: dict[str, Callable[[Path], dict[str, str]]] = {
    "LOC_val_solution.csv": _kaggle,
    "imagenet_2012_validation_synset_labels.txt": _in_order,
    "ILSVRC2012_validation_ground_truth.txt": _ground_truth,
}


@dataclass(frozen=True)
class Drawn:
    """Settings of drawn pictures: JPEGs in ImageNet's layout. The same settings give the same files on every machine.

    classes     number of classes: folders n00000000, n00000001, ...
    train, val  images of each class.
    sizes       (width, height) of successive images, repeated.
    quality     JPEG quality.
    """

    classes: int = 100
    train: int = 20
    val: int = 2
    sizes: tuple[tuple[int, int], ...] = ((80, 64), (64, 64), (72, 96))
    quality: int = 90

    def write(self, parent: Path, processes: int = 1) -> Path:
        """Draw the set, unless it exists, and return its folder in `parent`, with train/ and val/."""
        folder = parent / f"drawn-{sha256(repr(self).encode()).hexdigest()[:12]}"
        if folder.is_dir():
            return folder
        scratch = folder.with_name(f".{folder.name}-{uuid4().hex}")
        try:
            tasks = [(scratch, part, label) for part in ("train", "val") for label in range(self.classes)]
            if processes > 1:
                with get_context("fork").Pool(processes) as pool:
                    pool.starmap(self._write_class, tasks)
            else:
                for task in tasks:
                    self._write_class(*task)
            with suppress(OSError):  # another process has finished first
                scratch.rename(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return folder

    def _write_class(self, home: Path, part: str, label: int) -> None:
        from PIL import Image

        folder = home / part / f"n{label:08d}"
        folder.mkdir(parents=True)
        for number in range(self.train if part == "train" else self.val):
            size = self.sizes[(label + number) % len(self.sizes)]
            picture = Image.fromarray(draw(label, size, Stream(0, part, label, number)))
            picture.save(folder / f"{part}_{label:04d}_{number:05d}.JPEG", "JPEG", quality=self.quality)


def draw(label: int, size: tuple[int, int], stream: Stream) -> np.ndarray:
    """Draw an image of a class, uint8 [H, W, 3].

    A class has a colour, a direction and a width of its stripes, and a place for a disc. An image has its own
    brightness, phase and noise.
    """
    width, height = size
    colour, turn, pitch, left, top = np.split(Stream(0, "class", label).uniform(7), [3, 4, 5, 6])
    light, phase = stream.uniform(2)
    y, x = np.mgrid[0:height, 0:width] / min(size)
    angle = pi * turn
    stripes = 0.5 + 0.5 * np.sin(2 * pi * ((3 + 9 * pitch) * (x * np.cos(angle) + y * np.sin(angle)) + phase))
    disc = (x - 0.2 - 0.6 * left) ** 2 + (y - 0.2 - 0.6 * top) ** 2 < 0.03
    flat = np.where(disc, 1 - stripes, stripes)[:, :, None] * colour + 0.3 * (1 - colour)
    noise = stream.uniform(height * width).reshape(height, width, 1) - 0.5
    pixels: np.ndarray = 255 * np.clip((0.6 + 0.6 * light) * flat + 0.15 * noise, 0, 1)
    return pixels.astype(np.uint8)
