"""Bytes from an address.

A download goes into `<file>.part` and goes on from there when it is interrupted. Whatever arrives is proved by whoever
asked for it; here only what cannot be data is refused (an HTML page, a body that ends early).

A failure of the network is worth another try, or another address; one of the disk (a CacheError) ends it all. Both are
OSErrors, of any number, so they are told apart by where they arise.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from http.client import HTTPException
from io import FileIO
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.error import HTTPError
from urllib.parse import urlparse
from urllib.request import Request, urlopen

from poise.data.cache import writing
from poise.data.errors import DataMismatch, DataNotFound

Progress: TypeAlias = Callable[[str, int, "int | None"], None]
"""progress(what, bytes so far, bytes in all or None)."""

CHUNK = 1 << 20
AGAIN = {408, 416, 429, *range(500, 600)}  # answers that another try may change
REDIRECTS = range(300, 400)
LONGEST_PAUSE = 60.0  # seconds; a server may ask for a day


def silent(what: str, done: int, total: int | None) -> None:
    """No progress."""


def download(address: str, folder: Path, progress: Progress = silent, timeout: float = 30, tries: int = 3) -> Path:
    """The file behind an http(s) address, in `folder` under its own name."""
    target = folder / Path(urlparse(address).path).name
    part = target.with_name(target.name + ".part")
    if target.exists():  # of several files, this one arrived before the interruption
        return target
    for attempt in range(1, tries + 1):
        pause = 0.5 * attempt
        try:
            _fetch(address, part, progress, timeout)
            with writing(folder):
                part.replace(target)
            return target
        except HTTPError as error:
            error.close()
            reason: object = _told(error)
            if error.code not in AGAIN:
                raise DataNotFound(f"{address} answers {reason}") from None
            pause = _asked_pause(error, pause)
            if error.code == 416:  # what we have is longer than the file: it is of another one
                part.unlink(missing_ok=True)
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
        if attempt < tries:
            time.sleep(pause)
    if part.exists() and part.stat().st_size == 0:
        part.unlink()
    raise DataNotFound(f"{address} cannot be reached: {reason}")


def _told(error: HTTPError) -> str:
    """What a server answered, in one line; of a circle of redirects Python tells in three."""
    if error.code in REDIRECTS:
        return f"{error.code}, redirects that lead nowhere"
    return f"{error.code} {error.reason}"


def _asked_pause(error: HTTPError, otherwise: float) -> float:
    """The seconds that a busy server asks us to wait, within reason; it may also give a date, which we do not read."""
    asked = error.headers.get("Retry-After", "")
    return min(float(asked), LONGEST_PAUSE) if asked.isdigit() else otherwise


def _fetch(address: str, part: Path, progress: Progress, timeout: float) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = Request(address, headers={"Range": f"bytes={have}-"} if have else {})
    with urlopen(request, timeout=timeout) as response:
        if response.headers.get_content_type() == "text/html":
            raise DataMismatch(f"{address} gave a web page, not data")
        resumed = have > 0 and response.status == 206
        done = have if resumed else 0
        length = response.headers.get("Content-Length")
        total = done + int(length) if length and length.isdigit() else None
        with _opened(part, "ab" if resumed else "wb") as out:
            while chunk := response.read1(CHUNK):  # what has arrived, so that a stall or a kill loses none of it
                _write(out, chunk, part)
                done += len(chunk)
                progress(part.stem, done, total)
    if total is not None and done < total:
        raise ConnectionError(f"{done} of {total} bytes arrived")


def _opened(part: Path, mode: Literal["ab", "wb"]) -> FileIO:
    """A file without a buffer, so that nothing is left to be written when it is closed."""
    with writing(part.parent):
        return FileIO(part, mode)


def _write(out: FileIO, chunk: bytes, part: Path) -> None:
    with writing(part.parent):
        while chunk:  # without a buffer, a disk may take less than it is given
            chunk = chunk[out.write(chunk) :]
