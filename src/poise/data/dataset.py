"""What a set of the catalogue is, and the readers that turn its files into items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import TypeAlias
from urllib.parse import urlparse

import numpy as np

from poise.data.cache import Item
from poise.data.errors import DataMismatch
from poise.data.files import Files, Folder, first
from poise.data.layouts import Layout, in_canonical_order, read_npy
from poise.data.packages import Package
from poise.protocols import CORRUPTIONS, SEVERITIES

Reader: TypeAlias = Callable[[Files], Iterator[tuple[str, Item]]]


@dataclass(frozen=True)
class DataSet:
    """One set: `read` turns files in any known layout into items, and `digests` prove them.

    md5      that of the official archive, where no digests of what is in it are known.
    folders  what the folders are called in which the set is found beside others.
    require  what else must hold of the stored folder, where not all of it has a digest.
    """

    name: str
    about: str
    licence: str
    megabytes: int
    read: Reader = field(repr=False)
    digests: dict[str, str] = field(repr=False)
    addresses: tuple[tuple[str, ...], ...] = ()
    packages: tuple[Package, ...] = ()
    md5: str | None = None
    folders: tuple[str, ...] = ()
    require: Callable[[Path], None] | None = field(default=None, repr=False)

    @property
    def archives(self) -> list[str]:
        """The names of the official archives, such as cifar-10-python.tar.gz."""
        names = [PurePosixPath(urlparse(address).path).name for way in self.addresses for address in way]
        return [name for name in names if name.endswith((".zip", ".tar", ".tar.gz"))]


@dataclass(frozen=True)
class FolderSet:
    """A set that stays in a folder of the user's: `look` checks its layout and counts."""

    name: str
    about: str
    licence: str
    megabytes: int
    look: Callable[[Path], dict[str, int]] = field(repr=False)


def images(*layouts: Layout, canonical: bool = False) -> Reader:
    """The arrays of the first layout that fits."""

    def read(files: Files) -> Iterator[tuple[str, Item]]:
        for layout in layouts:
            arrays = layout(files)
            if arrays is not None:
                _require_pictures(arrays)
                yield from (in_canonical_order(arrays) if canonical else arrays).items()
                return
        known = ", ".join(layout.__name__ for layout in layouts)
        raise DataMismatch(f"no known layout ({known}) among {_some(files)}")

    return read


def _require_pictures(arrays: dict[str, np.ndarray]) -> None:
    """Bytes can be right and shapes wrong: every part must be pictures with one label each."""
    for part in ("train", "test"):
        x, y = arrays[f"{part}_x"], arrays[f"{part}_y"]
        right = x.dtype == y.dtype == np.uint8 and x.shape[1:] in ((28, 28), (32, 32, 3)) and y.shape == (len(x),)
        if not right:
            raise DataMismatch(f"{part} has {x.dtype} {x.shape} and {y.dtype} {y.shape}, not pictures and labels")


def named_files(wanted: dict[str, tuple[str, ...]], optional: dict[str, tuple[str, ...]] | None = None) -> Reader:
    """Files as they are: {name in the cache: endings of the name in the source}."""

    def read(files: Files) -> Iterator[tuple[str, Item]]:
        for name, ends in wanted.items():
            found = first(files, *ends)
            if found is None:
                raise DataMismatch(f"{ends[0]} is missing among {_some(files)}")
            yield name, files.read(found)
        for name, ends in (optional or {}).items():
            found = first(files, *ends)
            if found is not None:
                yield name, files.read(found)

    return read


def corrupted(num_classes: int, num_images: int = 10_000) -> Reader:
    """One array of 5 x 10,000 pictures per corruption, severity-major, no two alike, and the labels."""
    count = len(SEVERITIES) * num_images

    def read(files: Files) -> Iterator[tuple[str, Item]]:
        if made := first(files, "corruption.json"):
            raise DataMismatch(f"{made} says that these were made by  poise corrupt: they are not the published files")
        found = {item: first(files, f"{item}.npy") for item in ("labels", *CORRUPTIONS)}
        _require_all([item for item, name in found.items() if name is not None], files)
        seen: dict[bytes, str] = {}
        for item, name in found.items():
            array = read_npy(str(name), files.read(str(name)))
            if item == "labels":
                array = array.astype(np.uint8)
                if array.shape != (count,) or set(np.bincount(array, minlength=num_classes)) != {count // num_classes}:
                    raise DataMismatch(f"{name} does not hold {count:,} labels of {num_classes} classes")
            elif array.shape != (count, 32, 32, 3) or array.dtype != np.uint8:
                raise DataMismatch(f"{name} is {array.dtype} {array.shape}, not uint8 {(count, 32, 32, 3)}")
            else:
                twin = seen.setdefault(sha256(array.tobytes()).digest(), item)
                if twin != item:
                    raise DataMismatch(f"{name} holds the pictures of {twin}.npy: one of them is a copy")
            yield item, array

    return read


def all_corruptions(folder: Path) -> None:
    """All of them are there, and the labels."""
    _require_all([path.stem for path in folder.glob("*.npy")], Folder(folder))


def _require_all(found: list[str], files: Files) -> None:
    if missing := [item for item in ("labels", *CORRUPTIONS) if item not in found]:
        number = f"{len(set(found) & set(CORRUPTIONS))} of {len(CORRUPTIONS)} corruptions"
        raise DataMismatch(f"{number} among {_some(files)}, without {', '.join(f'{item}.npy' for item in missing)}")


def _some(files: Files) -> str:
    names = files.names()
    return f"{len(names)} files ({', '.join(names[:4])}{', …' if len(names) > 4 else ''})"
