"""Places: where a set may lie in a folder or an archive that holds several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath

from poise.data.files import Files


def places(files: Files, own: tuple[str, ...]) -> Iterator[Files]:
    """Where a set may lie among others: in folders of its own name, anywhere, in one of the folders with equal files.

    Folders have equal files if a file in one is called as a file in another: then only a digest knows which is meant.
    """
    names, homes = files.names(), {name.lower() for name in own}
    inside = [name for name in names if homes & {part.lower() for part in PurePosixPath(name).parts[:-1]}]
    if 0 < len(inside) < len(names):
        yield Chosen(files, inside)
    yield files
    folders: dict[str, list[str]] = {}
    for name in names:
        folders.setdefault(name.rpartition("/")[0], []).append(name)
    times = Counter(PurePosixPath(name).name for name in names)
    for _, some in sorted(folders.items()):
        if len(some) < len(names) and any(times[PurePosixPath(name).name] > 1 for name in some):
            yield Chosen(files, some)


class Chosen:
    """Some of the files, under the names they have."""

    def __init__(self, files: Files, names: list[str]) -> None:
        self._files, self._names = files, names

    def names(self) -> list[str]:
        return self._names

    def read(self, name: str) -> bytes:
        return self._files.read(name)
