"""The cache of data sets: one folder per set, written atomically, read as memory-mapped arrays.

    <root>/<set>/manifest.json   the items, their source, the digest of each
    <root>/<set>/train_x.npy     arrays; other items keep their own names

The root is POISE_DATA, or `poise` in the platform's cache folder. A set is written to a temporary folder and renamed
when it is complete. A lock lets one process at a time get a set while others wait.

Headers of .npy files must match the size of the file exactly: numpy accepts longer files, and so reads a changed header
as another array.
"""

from __future__ import annotations

import errno
import io
import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from filelock import FileLock, Timeout

from poise.errors import CacheError, DataError, DataMismatch, DataNotFound
from poise.io.files import regular

LONGEST_HEADER = 2**16
Item: TypeAlias = "np.ndarray | bytes"
_POLL = 0.1  # seconds between two attempts to lock a set
_COMPARED: set[tuple[Path, int]] = set()  # verified files, with their modification times


def root() -> Path:
    """The folder of the cache."""
    if place := os.environ.get("POISE_DATA"):
        try:
            return given(place)
        except DataNotFound as error:
            raise CacheError(f"POISE_DATA must name a folder: {error}") from None
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", "~")).expanduser() / "poise" / "Cache"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/poise").expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "poise"


def manifest_of(name: str) -> dict[str, Any] | None:
    """The manifest of a set; None if the set is missing, incomplete or damaged."""
    try:
        manifest: dict[str, Any] = json.loads(regular(root() / name / "manifest.json").read_text())
        sound = isinstance(manifest["way"], str) and isinstance(manifest["digests"], dict)
        whole = all((root() / name / file).stat().st_size == size for file, size in manifest["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return manifest if whole and sound else None


def store(
    name: str,
    items: Iterable[tuple[str, Item]],
    way: str,
    expected: dict[str, str],
    require: Callable[[Path], None] | None = None,
    **facts: Any,
) -> None:
    """Write a set, verify the digests of its items and call `require` on the folder, then move it to its place."""
    with writing(root()):
        root().mkdir(parents=True, exist_ok=True)
        folder = scratch(name)
    try:
        digests = {}
        for item, value in items:
            with writing(root()):
                _write(folder, item, value)
            digests[item] = digest(value)
            _prove(name, item, digests[item], expected)
        if missing := expected.keys() - digests.keys():
            raise DataMismatch(f"{name} lacks {', '.join(sorted(missing))}")
        if require is not None:
            require(folder)
        with writing(root()):
            files = {p.relative_to(folder).as_posix(): p.stat().st_size for p in folder.rglob("*") if p.is_file()}
            manifest = {"name": name, "way": way, "digests": digests, "files": files, **facts}
            (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))
            _put(folder, root() / name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def scratch(name: str, use: Literal["", "-package"] = "") -> Path:
    """Create an empty folder beside the set's place; call it while holding the set's lock."""
    folder = Path(tempfile.mkdtemp(prefix=f".{name}{use}@", dir=root()))
    folder.chmod(0o755)
    return folder


def load(name: str, item: str) -> np.ndarray:
    """One array of a stored set, memory-mapped and read-only. Its digest is verified once per process."""
    array, path = _opened(name, item), root() / name / f"{item}.npy"
    _compare_once(name, item, path, lambda: array)
    return array


def _opened(name: str, item: str) -> np.ndarray:
    path = root() / name / f"{item}.npy"
    if not path.exists():
        raise _absent(name, item)
    try:
        return map_npy(path)
    except (ValueError, OSError) as error:
        raise DataMismatch(
            f"{item} of {name} is damaged ({error}): get it with  poise data get {name} --again"
        ) from None


def path_of(name: str, item: str) -> Path:
    """The file of one item of a stored set. Its digest is verified once per process."""
    path = _file(name, item)
    _compare_once(name, item, path, path.read_bytes)
    return path


def content_of(path: Path) -> bytes:
    """The bytes of a file; if it is in a stored set, its digest is verified."""
    content, home = regular(path).read_bytes(), root().resolve()
    if path.resolve().is_relative_to(home):
        name, *inside = path.resolve().relative_to(home).parts
        if (home / name / "manifest.json").exists():  # an unfinished set has none
            _compare(name, "/".join(inside), content)
    return content


def _compare_once(name: str, item: str, path: Path, read: Callable[[], Item]) -> None:
    if (seen := (path, path.stat().st_mtime_ns)) not in _COMPARED:
        _compare(name, item, read())
        _COMPARED.add(seen)


def _compare(name: str, item: str, value: Item) -> None:
    manifest = manifest_of(name)
    if manifest is None:
        raise _not_whole(name)
    if manifest["digests"].get(item) != digest(value):
        raise DataMismatch(f"{item} of {name} has changed on disk: get it with  poise data get {name} --again")


def _file(name: str, item: str) -> Path:
    path = root() / name / item
    if not path.is_file():
        raise _absent(name, item)
    return path


def verify(name: str, expected: dict[str, str]) -> None:
    """Verify every item of a stored set against `expected`, or if that has no digest, against the manifest."""
    if not (root() / name).exists():
        raise DataNotFound(f"{name} is not in {root()}: get it with  poise data get {name}")
    manifest = manifest_of(name)
    if manifest is None:
        raise _not_whole(name)
    for item, stored in {**manifest["digests"], **expected}.items():
        array = (root() / name / f"{item}.npy").exists()
        value: Item = _opened(name, item) if array else _file(name, item).read_bytes()
        try:
            _prove(name, item, digest(value), {item: stored})
        except DataMismatch as error:
            raise DataMismatch(f"{error}: get it with  poise data get {name} --again") from None


def digest(value: Item) -> str:
    """sha256 of the raw bytes, arrays in C order."""
    return sha256(value if isinstance(value, bytes) else np.ascontiguousarray(value).data).hexdigest()


@contextmanager
def lock(name: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Lock a set for the block; calls `waiting` once if another process holds the lock.

    The operating system releases the lock of a process that ends, however it ends.
    """
    held = FileLock(root() / f".{name}.lock", poll_interval=_POLL)
    with writing(root()):
        root().mkdir(parents=True, exist_ok=True)
        try:
            held.acquire(blocking=False)
        except Timeout:
            waiting()
            held.acquire()
    try:
        with writing(root()):
            _mend(name)
        yield
    finally:
        held.release()


@contextmanager
def writing(place: Path) -> Iterator[None]:
    """Turn the OSError of a disk that is full, read-only or forbidden into a CacheError with a remedy."""
    reasons = {
        errno.ENOSPC: "is full: free some space, or set POISE_DATA to another folder",
        errno.EDQUOT: "is over its quota: free some space, or set POISE_DATA to another folder",
        errno.EROFS: "is read-only: set POISE_DATA to a writable folder",
        errno.EACCES: "is not writable: set POISE_DATA to a folder of your own",
        errno.EPERM: "is not writable: set POISE_DATA to a folder of your own",
        errno.ENOTDIR: "is not a folder: set POISE_DATA to one",
        errno.EEXIST: "is not a folder: set POISE_DATA to one",
        errno.ENOENT: "cannot be created: set POISE_DATA to another folder",
    }
    try:
        yield
    except DataError:
        raise
    except OSError as error:
        reason = reasons.get(error.errno or 0, f"cannot be used: {error.strerror or error}")
        raise CacheError(f"{place} {reason}") from None


def _write(folder: Path, item: str, value: Item) -> None:
    path = folder / (item if isinstance(value, bytes) else f"{item}.npy")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        if isinstance(value, np.ndarray):
            value = np.ascontiguousarray(value)
            np.lib.format.write_array_header_1_0(out, np.lib.format.header_data_from_array_1_0(value))
            out.write(value.data)  # not numpy's tofile, whose error does not say that the disk is full
        else:
            out.write(value)


def _absent(name: str, item: str) -> DataNotFound:
    return DataNotFound(f"{item} of {name} is not in {root()}: get it with  poise data get {name}")


def _not_whole(name: str) -> DataMismatch:
    return DataMismatch(f"{name} is incomplete in {root()}: get it with  poise data get {name} --again")


def _prove(name: str, item: str, got: str, expected: dict[str, str]) -> None:
    if item in expected and got != expected[item]:
        raise DataMismatch(f"{item} of {name} has the wrong content: expected sha256 {expected[item]}, got {got}")


def _put(folder: Path, place: Path) -> None:
    """Move a finished folder to its place, replacing an older one."""
    if place.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{place.name}-old-", dir=place.parent))
        place.rename(old / "set")
        folder.rename(place)
        shutil.rmtree(old, ignore_errors=True)
    else:
        folder.rename(place)


def _mend(name: str) -> None:
    """Clean up after a killed process: restore the older set if it was not replaced, remove unfinished folders."""
    for old in root().glob(f".{name}-old-*"):
        if (old / "set").exists() and not (root() / name).exists():
            (old / "set").rename(root() / name)
        shutil.rmtree(old, ignore_errors=True)
    for old in leftovers(name):
        shutil.rmtree(old, ignore_errors=True)


def leftovers(name: str) -> list[Path]:
    """The temporary folders of a set, of running or killed processes."""
    return [path for kind in ("@", "-package@", "-old-") for path in root().glob(f".{name}{kind}*")]


def given(path: Path | str) -> Path:
    """A path as given by a user, with ~ expanded; raises DataNotFound for a string that cannot be a path."""
    try:
        if str(path) == "":
            raise ValueError("it is empty")
        place = Path(path).expanduser()
        place.exists()
    except (ValueError, RuntimeError, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise DataNotFound(f"{str(path)[:60]!r} cannot be used as a path: {reason}") from None
    return place


def map_npy(path: Path) -> np.ndarray:
    """Map the array of a file into memory, read-only; raises ValueError for a damaged file."""
    with regular(path).open("rb") as stream:
        header = _read_header(stream.read(LONGEST_HEADER), os.fstat(stream.fileno()).st_size)
        if 0 in header.shape:  # an empty array cannot be mapped
            return np.zeros(header.shape, header.dtype)
        return np.memmap(stream, header.dtype, "r", header.end, header.shape, header.order)


def npy_from(data: bytes) -> np.ndarray:
    """The array in these bytes, which it shares; raises ValueError for damaged bytes."""
    header = _read_header(data[:LONGEST_HEADER], len(data))
    values = np.frombuffer(data, header.dtype, math.prod(header.shape), header.end)
    return values.reshape(header.shape, order=header.order)


class _Header(NamedTuple):
    dtype: np.dtype
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    end: int


def _read_header(start: bytes, size: int) -> _Header:
    """Read the header of a file of `size` bytes."""
    stream = io.BytesIO(start)
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(stream)
        announced = math.prod(shape) * dtype.itemsize
    except Exception:  # numpy may raise anything for a damaged header
        raise ValueError("its header is damaged") from None
    if dtype.hasobject:
        raise ValueError("it contains Python objects, not numbers")
    if min(shape, default=0) < 0 or announced != size - stream.tell():
        raise ValueError(f"{dtype} {shape} needs {announced} bytes, but the file has {size - stream.tell()}")
    return _Header(dtype, shape, "F" if fortran else "C", stream.tell())
