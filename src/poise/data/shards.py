"""Tar shards, as WebDataset has them: few large files in the place of a million small ones.

    train-000000.tar     0000000-n01440764_10026.jpeg, 0000000-n01440764_10026.cls, ...: a picture, its label, and so on
    train-000000.json    names, offsets, sizes and labels: a picture is one read; without it, the tar is looked through
    shards.json          the classes, and the number of pictures

The order of an epoch is a function of (seed, epoch): shards in random order, and the pictures of sixteen shards at
a time mixed, so that few files are read at once. `poise data shard` makes them; others' are read as well.
"""

from __future__ import annotations

import json
import tarfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from poise.data.errors import DataMismatch, DataNotFound
from poise.data.folders import PICTURES, Packed, imagenet_part
from poise.data.folders import imagenet as imagenet_folders
from poise.data.stream import Stream

if TYPE_CHECKING:
    from poise.data.imagenet import Source  # which needs torch, and the command line begins without it

INDEX = "shards.json"
_TOGETHER = 16


@dataclass(frozen=True)
class Shard:
    """What a tar holds, picture by picture."""

    names: list[str]
    offsets: list[int]
    sizes: list[int]
    labels: list[int]

    def __post_init__(self) -> None:
        numbers = [self.offsets, self.sizes, self.labels]
        whole = all(isinstance(value, int) and value >= 0 for column in numbers for value in column)
        if not whole or {len(column) for column in numbers} != {len(self.names)}:
            raise ValueError("names, offsets, sizes and labels do not fit")

    @property
    def end(self) -> int:
        """Where the last picture ends: a file that is shorter is cut."""
        return max((at + size for at, size in zip(self.offsets, self.sizes, strict=True)), default=0)

    def as_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()


class Shards:
    """The pictures of a part, in the order of the shards."""

    def __init__(self, folder: Path, part: str) -> None:
        self._paths = sorted(folder.glob(f"{part}-*.tar"))
        if not self._paths:
            raise DataNotFound(f"{folder} has no shards such as {part}-000000.tar")
        shards = [read_shard(path) for path in self._paths]
        self._names = np.array([name.encode() for shard in shards for name in shard.names])
        self._offsets, self._sizes, self.labels = (
            np.array([value for shard in shards for value in getattr(shard, column)], np.int64)
            for column in ("offsets", "sizes", "labels")
        )
        self._counts = [len(shard.names) for shard in shards]
        self.cut = [path for path, shard in zip(self._paths, shards, strict=True) if path.stat().st_size < shard.end]
        self._shard = np.repeat(np.arange(len(shards)), self._counts)
        self.classes = _classes(folder, part, self.labels)

    def __len__(self) -> int:
        return len(self.labels)

    def name(self, index: int) -> Path:
        return Path(self._paths[self._shard[index]], self._names[index].decode())

    def read(self, index: int) -> bytes:
        with self._paths[self._shard[index]].open("rb") as stream:
            stream.seek(int(self._offsets[index]))
            content: bytes = stream.read(int(self._sizes[index]))
            return content

    def order(self, seed: int, epoch: int) -> np.ndarray:
        """Shards in random order, the pictures of a few of them at a time mixed."""
        first = np.cumsum([0, *self._counts])
        shards = Stream(seed, "shards", epoch).permutation(len(self._counts))
        mixed = []
        for number, at in enumerate(range(0, len(shards), _TOGETHER)):
            near = np.concatenate([np.arange(first[s], first[s + 1]) for s in shards[at : at + _TOGETHER]])
            mixed.append(near[Stream(seed, "order", epoch, number).permutation(len(near))])
        return np.concatenate(mixed)


def open_part(path: Path, part: Literal["train", "val"]) -> Source:
    """ImageNet's pictures for training or validation, from folders or shards."""
    return Shards(path, part) if _sharded(path) else Packed(imagenet_part(path, part))


def imagenet(path: Path, num_classes: int = 1000) -> dict[str, int]:
    """The numbers of classes and pictures, if the folder holds ImageNet in its folders or in shards."""
    if not _sharded(path):
        return imagenet_folders(path, num_classes)
    train, val = Shards(path, "train"), Shards(path, "val")
    for part, held in (("train", train), ("val", val)):
        if held.cut:
            raise DataMismatch(f"{held.cut[0]} is cut short: copy it again, or make it again with  poise data shard")
        if (found := len(np.unique(held.labels))) != num_classes:
            raise DataMismatch(f"the {part} shards in {path} have pictures of {found} classes, not {num_classes}")
    return {"classes": num_classes, "train": len(train), "val": len(val)}


def read_shard(path: Path) -> Shard:
    """What a tar holds, from the file beside it if it is there and about this tar."""
    beside = path.with_suffix(".json")
    if beside.is_file():
        try:
            return Shard(**json.loads(beside.read_text(encoding="utf8")))
        except (ValueError, TypeError) as error:
            raise DataMismatch(f"{beside} is damaged ({error}): remove it, and the tar is looked through") from None
    return look_through(path)


def look_through(path: Path) -> Shard:
    """What a tar holds, from its own headers: a picture counts if a label of the same name comes with it."""
    pictures: dict[str, tuple[str, int, int]] = {}
    labels: dict[str, int] = {}
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                folder, slash, name = member.name.rpartition("/")  # which may have dots: ./, v1.0/
                stem, _, ending = name.partition(".")
                key = folder + slash + stem
                if member.isfile() and f".{ending.lower()}" in PICTURES:
                    pictures[key] = (member.name, member.offset_data, member.size)
                elif member.isfile() and ending == "cls":
                    labels[key] = _label(tar, member)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise DataMismatch(f"{path} is not a whole shard ({type(error).__name__}: {error})") from None
    if not pictures or pictures.keys() != labels.keys():
        odd = next(iter(pictures.keys() ^ labels.keys()), "it is empty")
        raise DataMismatch(f"{path} does not hold pictures with a .cls each: {odd}")
    columns: Any = zip(*pictures.values(), strict=True)
    names, offsets, sizes = (list(column) for column in columns)
    return Shard(names, offsets, sizes, [labels[key] for key in pictures])


def _label(tar: tarfile.TarFile, member: tarfile.TarInfo) -> int:
    stream = tar.extractfile(member)
    text = b"" if stream is None else stream.read(20)
    if not text.strip().isdigit():
        raise ValueError(f"{member.name} is {text!r}, not the number of a class")
    return int(text)


def _sharded(path: Path) -> bool:
    return any(path.glob("train-*.tar"))


def read_index(folder: Path) -> dict[str, Any] | None:
    """What `poise data shard` says of a folder; shards of others have no index."""
    path = folder / INDEX
    if not path.is_file():
        return None
    try:
        index = json.loads(path.read_text(encoding="utf8"))
        facts = {"whole": bool(index["whole"]), "each": int(index["each"]), "pictures": dict(index["pictures"] or {})}
        return {"classes": tuple(map(str, index["classes"])), **facts}
    except (ValueError, TypeError, KeyError) as error:
        raise DataMismatch(f"{path} is damaged ({type(error).__name__}: {error})") from None


def _classes(folder: Path, part: str, labels: np.ndarray) -> tuple[str, ...]:
    index = read_index(folder)
    if index is None:
        return tuple(str(label) for label in range(int(labels.max()) + 1))
    if not index["whole"]:
        raise DataMismatch(f"{folder} is not finished: run the same  poise data shard  again to continue")
    if len(labels) != (count := index["pictures"].get(part)):
        raise DataMismatch(
            f"{folder} has {len(labels)} {part} pictures, not the {count} that were packed: copy it again"
        )
    classes: tuple[str, ...] = index["classes"]
    if labels.max() >= len(classes):
        raise DataMismatch(f"{folder} names {len(classes)} classes, and a picture is of class {labels.max()}")
    return classes
