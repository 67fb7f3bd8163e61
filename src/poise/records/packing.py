"""Pack the documents of finished runs: one file per experiment replaces thousands of small ones.

These go into <experiment>/runs.jsonl.gz, whose format poise.io.documents describes:

    a finished run      record.json and the JSON files beside it, such as recipe.json and exhibits
    a trial of a sweep  trial.json and experiment.json, in the pack of the sweep
    an evaluation       evaluation.json and comparisons.json, in the pack beside a published.json

All other files stay: experiment.json and sweep.json beside the pack, weights and their recipes, fleets, figures, locks,
unfinished runs, and damaged files.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from poise.errors import RecordError
from poise.io.documents import HOMES, MOST, MOST_PER_LINE, PACK, PUBLISHED, is_name, is_proved, packs_line, read_pack
from poise.io.files import held, new_file, regular, wait_lock_alone
from poise.records.schema import EXPERIMENT, RECORD, SWEEP, TRIAL, fault_of_record

_NO_RUNS = ("fleets", "figures")  # folders of an experiment without runs
_EVALUATIONS = ("evaluation.json", "comparisons.json")


@dataclass(frozen=True)
class PackResult:
    """The documents and bytes of a pack, the number of files that were added, and the files that are damaged."""

    path: Path
    documents: int
    bytes: int
    taken: int
    damaged: tuple[Path, ...] = ()


@dataclass(frozen=True)
class _File:
    """A file to pack: the digest of its bytes, to notice later changes, and its content as JSON."""

    path: Path
    digest: bytes
    content: bytes


def pack(folder: Path) -> Iterator[PackResult]:
    """Pack each experiment, sweep and leaderboard in or below a folder.

    Files are removed last, after the pack was read back: a killed process loses nothing, and the next one continues.
    """
    homes = _homes(folder)
    for home in homes:
        with wait_lock_alone(home):
            yield _pack(home, [other for other in homes if other != home and other.is_relative_to(home)])


def _homes(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise RecordError(f"{folder} is {'a file, not a folder' if folder.exists() else 'not there'}")
    around = [each for each in folder.absolute().parents if (each / SWEEP).is_file()]
    if around:
        raise RecordError(f"{folder} is part of a sweep: pack {around[-1]}")
    found = {path.parent for name in HOMES for path in folder.rglob(name)}
    sweeps = {home for home in found if (home / SWEEP).is_file()}
    homes = sorted(home for home in found if sweeps.isdisjoint(home.parents))
    if not homes:
        raise RecordError(
            f"{folder} has no {EXPERIMENT}, {SWEEP} or {PUBLISHED}: there are no runs or evaluations to pack"
        )
    return homes


def _pack(home: Path, inner: list[Path]) -> PackResult:
    path = home / PACK
    before = read_pack(path) if path.exists() else {}
    loose, damaged = _read_all(home, _candidates(home, inner, before))
    if loose:
        after = {**before, **{name: each.content for name, each in loose.items()}}
        _write(path, after)
        _compare(path, after)
        for each in loose.values():
            _remove(each, home)
    size = path.stat().st_size if path.exists() else 0
    return PackResult(path, len(before.keys() | loose.keys()), size, len(loose), tuple(damaged))


def _candidates(home: Path, inner: list[Path], before: Mapping[str, bytes]) -> Iterator[Path]:
    """The files to pack."""
    finished = {home / name for name in before} | set(home.rglob(RECORD))
    runs = {path.parent for path in finished if path.name == RECORD} - {home}
    for path in sorted(home.rglob("*.json")):
        parts = path.relative_to(home).parts
        if parts[0] in _NO_RUNS or any(path.is_relative_to(other) for other in inner):
            continue
        of_run = path.parent in runs and not path.with_suffix(".safetensors").exists()
        evaluation = path.name in _EVALUATIONS and (home / PUBLISHED).exists()
        if (of_run or evaluation or path.name == TRIAL or _is_of_trial(home, parts)) and not held(path.parent):
            yield path


def _is_of_trial(home: Path, parts: tuple[str, ...]) -> bool:
    return (home / SWEEP).exists() and len(parts) == 3 and (parts[0], parts[2]) == ("trials", EXPERIMENT)


def _read_all(home: Path, paths: Iterator[Path]) -> tuple[dict[str, _File], list[Path]]:
    """The documents to pack by name, and the files that cannot be packed."""
    found: dict[str, _File] = {}
    damaged = []
    for path in paths:
        name, read = path.relative_to(home).as_posix(), _read(path)
        if read is None or not is_name(name) or len(packs_line(name, read.content)) > MOST_PER_LINE:
            damaged.append(path)
        else:
            found[name] = read
    return found, damaged


def _read(path: Path) -> _File | None:
    """Read a file; None if it is damaged or is not a JSON object."""
    data = regular(path).read_bytes()
    try:
        content = json.loads(data.decode(), object_pairs_hook=_object)
        whole = isinstance(content, dict) and is_proved(content)
        if whole and path.name == RECORD and fault_of_record(content):
            return None
    except (ValueError, RecursionError):
        return None
    return _File(path, sha256(data).digest(), json.dumps(content).encode()) if whole else None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("an object has a name twice")
    return content


def _write(path: Path, documents: Mapping[str, bytes]) -> None:
    """Write a pack; the same documents always give the same bytes."""
    lines = [packs_line(name, document) for name, document in sorted(documents.items())]
    if sum(map(len, lines)) > MOST:
        raise RecordError(f"{path} would hold more than {MOST >> 20} MiB: divide the experiment into several folders")
    with new_file(path) as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as stream:
        stream.writelines(lines)


def _compare(path: Path, expected: Mapping[str, bytes]) -> None:
    """Raise RecordError unless the pack on disk has the expected documents."""
    if read_pack(path) != expected:
        raise RecordError(f"{path} reads back with other content: check the disk; no file was removed")


def _remove(each: _File, home: Path) -> None:
    """Remove a file, unless it has changed since it was read, and the folders that are then empty."""
    with suppress(FileNotFoundError):
        if sha256(each.path.read_bytes()).digest() != each.digest:
            return
        each.path.unlink()
    for folder in each.path.parents:
        if folder == home:
            return
        with suppress(OSError):
            folder.rmdir()
