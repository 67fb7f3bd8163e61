"""Bytes from an address.

A download goes into `<file>.part` and goes on from there when it is interrupted. Whatever arrives is proved by whoever
asked for it; here only what cannot be data is refused (an HTML page, a body that ends early).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import TypeAlias
from urllib.error import HTTPError, URLError
from urllib.parse import urlparse
from urllib.request import Request, urlopen

from poise.data.errors import DataMismatch, DataNotFound

Progress: TypeAlias = Callable[[str, int, "int | None"], None]
"""progress(what, bytes so far, bytes in all or None)."""

CHUNK = 1 << 20


def silent(what: str, done: int, total: int | None) -> None:
    """No progress."""


def download(address: str, folder: Path, progress: Progress = silent, timeout: float = 30, tries: int = 3) -> Path:
    """The file behind an http(s) address, in `folder` under its own name."""
    target = folder / Path(urlparse(address).path).name
    part = target.with_name(target.name + ".part")
    if target.exists():  # of several files, this one arrived before the interruption
        return target
    for attempt in range(1, tries + 1):
        try:
            _fetch(address, part, progress, timeout)
            part.replace(target)
            return target
        except HTTPError as error:
            if error.code != 416 and error.code < 500:
                raise DataNotFound(f"{address} answers {error.code} {error.reason}") from None
            part.unlink(missing_ok=True)
            reason: object = f"{error.code} {error.reason}"
        except (URLError, HTTPException, TimeoutError, ConnectionError) as error:
            reason = getattr(error, "reason", error)
        if attempt < tries:
            time.sleep(0.5 * attempt)
    raise DataNotFound(f"{address} cannot be reached: {reason}")


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
        with part.open("ab" if resumed else "wb") as out:
            while chunk := response.read(CHUNK):
                out.write(chunk)
                done += len(chunk)
                progress(part.stem, done, total)
    if total is not None and done < total:
        raise ConnectionError(f"{done} of {total} bytes arrived")
