"""Tar shards in WebDataset's format: a few large files instead of a million small ones.

    train-000000.tar     0000000-n01440764_10026.jpeg, 0000000-n01440764_10026.cls, ...: an image, its label, and so on
    train-000000.json    names, offsets, sizes and labels, to get an image with one read; without it, the tar is scanned
    shards.json          the classes, and the number of images

The order of an epoch is a function of (seed, epoch): shards in random order, with the images of sixteen shards at a
time mixed, so that few files are read at once.

`poise data shard` writes shards, and those of other tools can be read. The same images give the same bytes. Training
images are shuffled first, so every shard has many classes; validation images keep their order. If interrupted, the
command skips shards that are complete.
"""

from __future__ import annotations

import io
import json
import logging
import tarfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np

from poise.data.sets.archives import limited_members
from poise.data.sets.folders import PICTURES, PackedListing, imagenet_folders, imagenet_part
from poise.errors import DataMismatch, DataNotFound
from poise.io.files import is_part, new_file, regular, remove_parts
from poise.random import Stream

if TYPE_CHECKING:
    from poise.data.loading.pictures import Source

LOG = logging.getLogger("poise")
Progress = Callable[[str, int, int], None]
INDEX = "shards.json"
MOST_CLASSES = 2**20
LONGEST_NAME = 1024  # all names take as much memory as the longest
_TOGETHER = 16


@dataclass(frozen=True)
class Shard:
    """The contents of a tar: one entry per image."""

    names: list[str]
    offsets: list[int]
    sizes: list[int]
    labels: list[int]

    def __post_init__(self) -> None:
        numbers = [self.offsets, self.sizes, self.labels]
        whole = all(isinstance(value, int) and 0 <= value < 2**63 for column in numbers for value in column)
        named = all(isinstance(name, str) and len(name) <= LONGEST_NAME for name in self.names)
        if not (whole and named) or {len(column) for column in numbers} != {len(self.names)}:
            raise ValueError("invalid names, offsets, sizes or labels")
        if max(self.labels, default=0) >= MOST_CLASSES:
            raise ValueError(f"class {max(self.labels)} is too large")

    @property
    def end(self) -> int:
        """The offset at which the last image ends: a shorter file is truncated."""
        return max((at + size for at, size in zip(self.offsets, self.sizes, strict=True)), default=0)

    def as_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()


class Shards:
    """The images of a part, in the order of the shards; a `Source`.

    cut  the paths of truncated shards.
    """

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
        with regular(self._paths[self._shard[index]]).open("rb") as stream:
            stream.seek(int(self._offsets[index]))
            content: bytes = stream.read(int(self._sizes[index]))
            return content

    def order(self, seed: int, epoch: int) -> np.ndarray:
        """Shards in random order, with the images of a few of them at a time mixed."""
        first = np.cumsum([0, *self._counts])
        shards = Stream(seed, "shards", epoch).permutation(len(self._counts))
        mixed = []
        for number, at in enumerate(range(0, len(shards), _TOGETHER)):
            near = np.concatenate([np.arange(first[s], first[s + 1]) for s in shards[at : at + _TOGETHER]])
            mixed.append(near[Stream(seed, "order", epoch, number).permutation(len(near))])
        return np.concatenate(mixed)


def open_part(path: Path, part: Literal["train", "val"]) -> Source:
    """ImageNet's images for training or validation, from folders or shards."""
    return Shards(path, part) if _sharded(path) else PackedListing(imagenet_part(path, part))


def imagenet(path: Path, num_classes: int = 1000) -> dict[str, int]:
    """Check that a folder holds ImageNet, as folders or shards, and return the numbers of classes and images."""
    if not _sharded(path):
        return imagenet_folders(path, num_classes)
    train, val = Shards(path, "train"), Shards(path, "val")
    for part, held in (("train", train), ("val", val)):
        if held.cut:
            raise DataMismatch(f"{held.cut[0]} is truncated: copy it again, or write it again with  poise data shard")
        if (found := len(np.unique(held.labels))) != num_classes:
            raise DataMismatch(f"the {part} shards in {path} have {found} classes, not {num_classes}")
    return {"classes": num_classes, "train": len(train), "val": len(val)}


def read_shard(path: Path) -> Shard:
    """The contents of a tar, from the JSON file beside it, or by scanning the tar if there is none."""
    beside = path.with_suffix(".json")
    if beside.is_file():
        try:
            return Shard(**json.loads(beside.read_text(encoding="utf8")))
        except (ValueError, TypeError, RecursionError) as error:
            raise DataMismatch(f"{beside} is damaged ({error}): remove it to scan the tar instead") from None
    return scan(path)


def scan(path: Path) -> Shard:
    """The contents of a tar, from its own headers; every image needs a label of the same name."""
    pictures: dict[str, tuple[str, int, int]] = {}
    labels: dict[str, int] = {}
    try:
        with regular(path).open("rb") as stream:
            for member in limited_members(path.name, stream):
                folder, slash, name = member.name.rpartition("/")  # folder names may have dots: ./, v1.0/
                stem, _, ending = name.partition(".")
                key = folder + slash + stem
                if member.isfile() and f".{ending.lower()}" in PICTURES:
                    pictures[key] = (member.name, member.offset_data, member.size)
                elif member.isfile() and ending == "cls":
                    labels[key] = _label(stream, member)
    except (tarfile.TarError, EOFError, ValueError, RecursionError) as error:
        raise DataMismatch(f"{path} is truncated or damaged ({type(error).__name__}: {error})") from None
    if not pictures or pictures.keys() != labels.keys():
        odd = next(iter(pictures.keys() ^ labels.keys()), "it is empty")
        raise DataMismatch(f"{path} needs one .cls file for each image: {odd}")
    columns: Any = zip(*pictures.values(), strict=True)
    names, offsets, sizes = (list(column) for column in columns)
    try:
        return Shard(names, offsets, sizes, [labels[key] for key in pictures])
    except ValueError as error:
        raise DataMismatch(f"{path} is not a valid shard ({error})") from None


def _label(stream: IO[bytes], member: tarfile.TarInfo) -> int:
    stream.seek(member.offset_data)
    text = stream.read(min(member.size, 20))
    if not text.strip().isdigit():
        raise ValueError(f"{member.name} contains {text!r}, not a class number")
    return int(text)


def _sharded(path: Path) -> bool:
    return any(path.glob("train-*.tar"))


def read_index(folder: Path) -> dict[str, Any] | None:
    """The index that `poise data shard` writes; None for shards of other tools."""
    path = folder / INDEX
    if not path.is_file():
        return None
    try:
        index = json.loads(path.read_text(encoding="utf8"))
        facts = {"whole": bool(index["whole"]), "each": int(index["each"]), "pictures": dict(index["pictures"] or {})}
        return {"classes": tuple(map(str, index["classes"])), **facts}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataMismatch(f"{path} is damaged ({type(error).__name__}: {error})") from None


def _classes(folder: Path, part: str, labels: np.ndarray) -> tuple[str, ...]:
    index = read_index(folder)
    if index is None:
        return tuple(str(label) for label in range(int(labels.max()) + 1))
    if not index["whole"]:
        raise DataMismatch(f"{folder} is not finished: run the same  poise data shard  command to continue")
    if len(labels) != (count := index["pictures"].get(part)):
        raise DataMismatch(
            f"{folder} has {len(labels)} {part} images, not the {count} that were written: copy it again"
        )
    classes: tuple[str, ...] = index["classes"]
    if labels.max() >= len(classes):
        raise DataMismatch(f"{folder} has {len(classes)} classes, but an image has class {labels.max()}")
    return classes


def write_shards(
    source: Path, out: Path, pictures: int = 1000, progress: Progress = lambda what, done, total: None
) -> dict[str, int]:
    """Write ImageNet's folders as shards of `pictures` images each; returns {part: number of images}.

    Files that cannot be read are skipped with a warning. If interrupted, the same call continues: it keeps complete
    shards and writes those again that differ from the folders.
    """
    if pictures < 1:
        raise ValueError(f"pictures={pictures} must be at least 1")
    parts = {"train": PackedListing(imagenet_part(source, "train")), "val": PackedListing(imagenet_part(source, "val"))}
    if parts["train"].classes != parts["val"].classes:
        raise DataMismatch(f"{source} has different classes in train and val")
    classes, counts = parts["train"].classes, {}
    _claim(out, classes, pictures)
    for part, held in parts.items():
        order = Stream(0, "shards").permutation(len(held)) if part == "train" else np.arange(len(held))
        counts[part] = 0
        for number, at in enumerate(range(0, len(held), pictures)):
            counts[part] += _write(out / f"{part}-{number:06d}.tar", held, order[at : at + pictures].tolist(), at)
            progress(part, min(at + pictures, len(held)), len(held))
        _remove_further(out, part, -(-len(held) // pictures))
    _write_index(out, classes, pictures, counts)
    return counts


def _claim(out: Path, classes: tuple[str, ...], pictures: int) -> None:
    """Prepare the output folder: it must be empty, or hold an unfinished output of the same call."""
    out.mkdir(parents=True, exist_ok=True)
    remove_parts(out)
    strange = [path.name for path in out.iterdir() if not is_part(path) and not _is_output(path)]
    begun = read_index(out)
    if strange or (begun is None and any(out.glob("*.tar"))):
        raise DataMismatch(f"{out} contains other files: choose an empty or a new folder")
    if begun is not None and (begun["classes"], begun["each"]) != (classes, pictures):
        raise DataMismatch(
            f"{out} has shards of {begun['each']} images of {len(begun['classes'])} classes: choose another folder"
        )
    if begun is None:
        _write_index(out, classes, pictures, None)


def _write_index(out: Path, classes: tuple[str, ...], each: int, counts: dict[str, int] | None) -> None:
    index = {"version": 1, "whole": counts is not None, "each": each, "pictures": counts, "classes": classes}
    with new_file(out / INDEX) as stream:
        stream.write(json.dumps(index).encode())


def _is_output(path: Path) -> bool:
    return path.name == INDEX or (path.stem.startswith(("train-", "val-")) and path.suffix in (".tar", ".json"))


def _remove_further(out: Path, part: str, count: int) -> None:
    """Remove the shards of an earlier, larger source from number `count` on."""
    for path in out.glob(f"{part}-*"):
        number = path.stem.removeprefix(f"{part}-")
        if number.isdigit() and int(number) >= count:
            path.unlink()


def _write(path: Path, held: PackedListing, indices: Sequence[int], first: int) -> int:
    """Write a shard and its JSON file, unless they exist; returns the number of images."""
    if (there := _written(path, held, indices, first)) is not None:
        return there
    with new_file(path) as stream, tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for place, index in enumerate(indices):
            _add_example(tar, held, index, first + place)
    shard = scan(path)
    with new_file(path.with_suffix(".json")) as stream:
        stream.write(shard.as_json())
    return len(shard.names)


def _written(path: Path, held: PackedListing, indices: Sequence[int], first: int) -> int | None:
    """The number of images in an existing, complete shard of these names, sizes and labels; None if there is none."""
    if not (path.is_file() and path.with_suffix(".json").is_file()):
        return None
    expected = []
    for place, index in enumerate(indices):
        with suppress(OSError):
            size = held.name(index).stat().st_size
            expected.append((_key(held.name(index), first + place)[1], size, int(held.labels[index])))
    try:
        shard = read_shard(path)
    except DataMismatch:
        return None
    same = list(zip(shard.names, shard.sizes, shard.labels, strict=True)) == expected
    return len(expected) if same and path.stat().st_size >= shard.end else None


def _key(path: Path, number: int) -> tuple[str, str]:
    """The name of an example without its ending, and the name of its image."""
    key = f"{number:07d}-{path.stem.replace('.', '_')[:60]}"
    return key, f"{key}{path.suffix.lower()}"


def _add_example(tar: tarfile.TarFile, held: PackedListing, index: int, number: int) -> None:
    path = held.name(index)
    key, picture = _key(path, number)
    try:
        content = held.read(index)
    except OSError as error:
        LOG.warning("skipping %s, which cannot be read (%s)", path, error.strerror or error)
        return
    _add(tar, picture, content)
    _add(tar, f"{key}.cls", str(int(held.labels[index])).encode())


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))
