"""Hostile sources of data, on disk and over HTTP: none is accepted, none fills the memory or takes for ever."""

from __future__ import annotations

import socket
import time
from functools import partial
from pathlib import Path

from torture.forks import LIMIT, MEMORY, End, forked
from torture.getting import getting
from torture.row import Row, Subjects
from torture.serving import Answer, body, serving, without_end

_FASTER = 600  # the clock of a download: what takes an hour takes six seconds


def _folders(work: Path, subjects: Subjects) -> list[str]:
    from torture.hostile_files import FOLDERS

    return list(FOLDERS)


def judge_folder(case: str, work: Path, home: Path) -> str:
    """Made in another process, so that its memory is not that of the judge."""
    from torture.hostile_files import FOLDERS

    made = forked(lambda: FOLDERS[case](home))
    if made.code:
        return f"it cannot be made: {made.wrong or made.said}"
    name = case.split()[0]
    end = forked(getting(home / "cache", "get", name, "--from", made.value), memory=4 * MEMORY)
    return _judged(end, name, home)


def _answers(work: Path, subjects: Subjects) -> list[str]:
    return list(_server(Path()))


def judge_answer(case: str, work: Path, home: Path) -> str:
    """With a clock that goes faster, and little patience for a server that says nothing at all."""
    answers = _server(home)
    with serving(answers[case]) as url:
        address = ((f"{url}/mnist.tar.gz",),)
        end = forked(getting(home / "cache", "get", "mnist", addresses=address, before=_hurry), memory=4 * MEMORY)
    return "it took a gigabyte for a set of 55 MB" if (home / "taken").exists() else _judged(end, "mnist", home)


def _judged(end: End, name: str, home: Path) -> str:
    if (home / "ran").exists():
        return "code ran"
    if (home / "cache" / name / "manifest.json").exists() or end.code == 0:
        return "accepted"
    if end.peak > MEMORY:
        return f"it took {end.peak / 2**20:,.0f} MB of memory"
    return end.wrong


def _hurry() -> None:
    from poise.data.sets import download
    from poise.data.sets import fetch as sources

    clock, real, sleep = time.monotonic, download.download, time.sleep
    start = clock()
    time.monotonic = lambda: start + _FASTER * (clock() - start)  # type: ignore[assignment]
    time.sleep = lambda seconds: sleep(seconds / _FASTER)  # type: ignore[assignment]
    sources.download = partial(real, timeout=1.0, patience=download.Patience(grace=1.0, slowest=1e6))


def _server(home: Path) -> dict[str, Answer]:
    """What a server may do to who asks for mnist.tar.gz."""
    from torture.hostile_files import ARCHIVE

    whole = ARCHIVE()
    wrong = whole[:100] + bytes(8) + whole[108:]
    return {
        "nothing at all": lambda client, path: time.sleep(LIMIT),
        "a closed line": lambda client, path: None,
        "an empty body": body(b""),
        "other bytes": body(wrong),
        "half of it": body(whole[: len(whole) // 2]),
        "a web page": body(b"<html>", "Content-Type: text/html"),
        "a web page as data": body(b"<html>" * 1000),
        "text as status": _raw(b"hello\r\n\r\n"),
        "zeros as status": _raw(bytes(100_000)),
        "status 99999": _raw(b"HTTP/1.1 99999 no\r\n\r\n"),
        "not found": _raw(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
        "too many requests, for a day": _raw(b"HTTP/1.1 429 Wait\r\nRetry-After: 86400\r\nContent-Length: 0\r\n\r\n"),
        "too many requests, for ever": _raw(b"HTTP/1.1 429 Wait\r\nRetry-After: " + b"9" * 400 + b"\r\n\r\n"),
        "a circle": _raw(b"HTTP/1.1 302 Found\r\nLocation: /mnist.tar.gz\r\n\r\n"),
        "a chain without end": lambda client, path: client.sendall(
            f"HTTP/1.1 302 Found\r\nLocation: {path}x\r\n\r\n".encode()
        ),
        "a file of ours": _raw(b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n"),
        "a place that is none": _raw(b"HTTP/1.1 302 Found\r\nLocation: http://[::1\r\n\r\n"),
        "a port that is none": _raw(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:99999/\r\n\r\n"),
        "a name that is none": _raw(b"HTTP/1.1 302 Found\r\nLocation: http://" + b"a" * 300 + b"/\r\n\r\n"),
        "too short a length": _raw(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + whole),
        "too long a length": _raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n" + whole),
        "a length below zero": _raw(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n" + wrong),
        "a length in words": _raw(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n" + wrong),
        "a length of other digits": _raw("HTTP/1.1 200 OK\r\nContent-Length: ²\r\n\r\n".encode("latin-1") + wrong),
        "the wrong part": _raw(b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 9-10/11\r\n\r\n" + whole[:50]),
        "broken chunks": _raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx\r\n"),
        "headers without end": lambda client, path: _more(
            client, b"HTTP/1.1 200 OK\r\n", b"X: " + b"a" * 1000 + b"\r\n"
        ),
        "one header without end": lambda client, path: _more(client, b"HTTP/1.1 200 OK\r\nX: ", b"a" * 1000),
        "a body without end": lambda client, path: (
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n"),
            without_end(client, home / "taken"),
        )[-1],
        "a drip of headers": lambda client, path: _drip(client, b"HTTP/1.1 200 OK\r\nX: "),
        "a drip": lambda client, path: _drip(client, b"HTTP/1.1 200 OK\r\n\r\n"),
        "a drip with a length": lambda client, path: _drip(
            client, b"HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n"
        ),
    }


def _raw(content: bytes) -> Answer:
    return lambda client, path: client.sendall(content)


def _more(client: socket.socket, begin: bytes, part: bytes) -> None:
    client.sendall(begin)
    for _ in range(2**30 // len(part)):
        client.sendall(part)


def _drip(client: socket.socket, begin: bytes) -> None:
    client.sendall(begin)
    for _ in range(int(LIMIT / 0.05)):
        client.sendall(b"a")
        time.sleep(0.05)


ROWS = (
    Row("folders", "hostile sources: folders and archives", _folders, judge_folder),
    Row("http", "hostile sources: HTTP", _answers, judge_answer),
)
