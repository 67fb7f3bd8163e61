"""`poise data get` killed at every file operation; then once more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from torture.forks import forked
from torture.getting import getting
from torture.operations import count, die_at
from torture.row import Row, Subjects
from torture.serving import body, serving

_Ways = tuple[tuple[object, ...], tuple[tuple[str, ...], ...]]


def cases(work: Path, subjects: Subjects) -> list[str]:
    found = []
    for way in ("folder", "archive", "address", "again"):
        home = work / "get" / way
        with _prepared(way, home) as (words, addresses):
            end = forked(getting(home / "cache", *words, addresses=addresses, before=partial(count, home / "cache")))
        found += [f"{way} {number}" for number in range(len(end.value))]
    return found


def judge(case: str, work: Path, home: Path) -> str:
    """The right set, and the files of a set that nobody killed."""
    way, number = case.split()
    cache = home / "cache"
    with _prepared(way, home) as (words, addresses):
        forked(getting(cache, *words, addresses=addresses, before=lambda: die_at(cache, int(number))))
        again = forked(getting(cache, *words, addresses=addresses))
    right = forked(getting(cache, "check", "mnist"))
    left = sorted(_files(cache) - _files(work / "get" / way / "cache"))
    wrong = (again.code and again.said) or (right.code and right.said)
    return str(wrong or (f"{', '.join(left)} is left" if left else ""))


@contextmanager
def _prepared(way: str, home: Path) -> Iterator[_Ways]:
    """The words after `poise data` and the addresses of a way to MNIST in small."""
    from data_sets import digits, idx_files, tar_bytes, write_folder

    files = idx_files(digits())
    home.mkdir(parents=True, exist_ok=True)
    if way == "address":
        with serving(body(tar_bytes(files))) as url:
            yield ("get", "mnist"), ((f"{url}/mnist.tar.gz",),)
        return
    source = home / "mnist.tar.gz" if way == "archive" else write_folder(files, home / "source")
    if way == "archive":
        source.write_bytes(tar_bytes(files))
    words = ("get", "mnist", "--from", source)
    if way == "again":
        forked(getting(home / "cache", *words))
    yield (*words, "--again") if way == "again" else words, ()


def _files(cache: Path) -> set[str]:
    return {str(path.relative_to(cache)) for path in cache.rglob("*")}


ROWS = (Row("get", "`data get` killed", cases, judge),)
