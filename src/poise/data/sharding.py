"""Writing tar shards (`shards.py`): the same pictures give the same bytes, and what is written already is left.

Training pictures are mixed first, so that every shard has many classes; those for validation keep their order.
"""

from __future__ import annotations

import io
import json
import logging
import tarfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from poise.data.errors import DataMismatch
from poise.data.folders import Packed, imagenet_part
from poise.data.shards import INDEX, look_through, read_index, read_shard
from poise.data.stream import Stream
from poise.whole import is_part, new_file, sweep

LOG = logging.getLogger("poise")
Progress = Callable[[str, int, int], None]


def write_shards(
    source: Path, out: Path, pictures: int = 1000, progress: Progress = lambda what, done, total: None
) -> dict[str, int]:
    """Shards of so many pictures each, of ImageNet's folders; {part: pictures}.

    Files that cannot be read are left out and named. A run that stopped goes on where it was; a shard that does not
    hold what the folders do is written again.
    """
    if pictures < 1:
        raise ValueError(f"pictures={pictures} must be at least 1")
    parts = {"train": Packed(imagenet_part(source, "train")), "val": Packed(imagenet_part(source, "val"))}
    if parts["train"].classes != parts["val"].classes:
        raise DataMismatch(f"{source} has other classes in val than in train")
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
    """An empty folder, or one in which this very thing was begun."""
    out.mkdir(parents=True, exist_ok=True)
    sweep(out)
    strange = [path.name for path in out.iterdir() if not is_part(path) and not _ours(path)]
    begun = read_index(out)
    if strange or (begun is None and any(out.glob("*.tar"))):
        raise DataMismatch(f"{out} holds something else: choose an empty or a new folder")
    if begun is not None and (begun["classes"], begun["each"]) != (classes, pictures):
        raise DataMismatch(
            f"{out} holds shards of {begun['each']} pictures of {len(begun['classes'])} classes: choose another folder"
        )
    if begun is None:
        _write_index(out, classes, pictures, None)


def _write_index(out: Path, classes: tuple[str, ...], each: int, counts: dict[str, int] | None) -> None:
    index = {"version": 1, "whole": counts is not None, "each": each, "pictures": counts, "classes": classes}
    with new_file(out / INDEX) as stream:
        stream.write(json.dumps(index).encode())


def _ours(path: Path) -> bool:
    return path.name == INDEX or (path.stem.startswith(("train-", "val-")) and path.suffix in (".tar", ".json"))


def _remove_further(out: Path, part: str, count: int) -> None:
    """Shards that an earlier source had more."""
    for path in out.glob(f"{part}-*"):
        number = path.stem.removeprefix(f"{part}-")
        if number.isdigit() and int(number) >= count:
            path.unlink()


def _write(path: Path, held: Packed, indices: Sequence[int], first: int) -> int:
    """One shard, and what it holds beside it; how many pictures that is."""
    if (there := _written(path, held, indices, first)) is not None:
        return there
    with new_file(path) as stream, tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for place, index in enumerate(indices):
            _add_example(tar, held, index, first + place)
    shard = look_through(path)
    with new_file(path.with_suffix(".json")) as stream:
        stream.write(shard.as_json())
    return len(shard.names)


def _written(path: Path, held: Packed, indices: Sequence[int], first: int) -> int | None:
    """How many pictures a whole shard of these has, if there is one: by their names, sizes and labels."""
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
    """What both members of an example are called, and the picture."""
    key = f"{number:07d}-{path.stem.replace('.', '_')[:60]}"
    return key, f"{key}{path.suffix.lower()}"


def _add_example(tar: tarfile.TarFile, held: Packed, index: int, number: int) -> None:
    path = held.name(index)
    key, picture = _key(path, number)
    try:
        content = held.read(index)
    except OSError as error:
        LOG.warning("%s cannot be read and is left out (%s)", path, error.strerror or error)
        return
    _add(tar, picture, content)
    _add(tar, f"{key}.cls", str(int(held.labels[index])).encode())


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))
