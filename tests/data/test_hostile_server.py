"""A server on loopback that says anything: each time a sentence within a deadline, and the cache stays as it was."""

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from http.client import HTTPMessage
from io import BytesIO
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request

import pytest
from data_sets import digits, idx_files, offer, tar_bytes, write_folder
from deadlines import within

from poise.data.sets import catalogue
from poise.data.sets import fetch as sources
from poise.data.sets.download import Patience, _Redirects, download
from poise.errors import DataError, DataMismatch, DataNotFound

OK = b"HTTP/1.1 200 OK\r\n"
PATIENCE = Patience(grace=0.6, slowest=1e6)


class Raw:
    """Sends to every request the pieces of `answer`, one after the other, until the client hangs up."""

    def __init__(self) -> None:
        self.answer: Callable[[str], Iterator[bytes]] = lambda path: iter(())
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}"
        self.sent = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listening.accept()
                threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            path = client.recv(65536).split(b" ")[1].decode()
            for piece in self.answer(path):
                client.sendall(piece)
                self.sent += len(piece)


@pytest.fixture
def raw(monkeypatch: pytest.MonkeyPatch) -> Iterator[Raw]:
    running = Raw()
    patient = partial(download, timeout=0.5, patience=PATIENCE)
    monkeypatch.setattr(sources, "download", lambda *arguments: patient(*arguments))
    offer(monkeypatch, catalogue.MNIST, digits(), addresses=((f"{running.url}/mnist.tar.gz",),))
    yield running
    running.listening.close()


def whole(body: bytes, *headers: bytes) -> bytes:
    return OK + b"".join(header + b"\r\n" for header in (b"Content-Length: %d" % len(body), *headers)) + b"\r\n" + body


def drip(start: bytes, piece: bytes = b"x", pause: float = 0.02) -> Iterator[bytes]:
    yield start
    while True:
        time.sleep(pause)
        yield piece


def endless(start: bytes, piece: bytes = bytes(2**16)) -> Iterator[bytes]:
    yield start
    while True:
        yield piece


def redirect(place: bytes) -> bytes:
    return b"HTTP/1.1 302 Found\r\nLocation: " + place + b"\r\nContent-Length: 0\r\n\r\n"


RIGHT = tar_bytes(idx_files(digits()))
WRONG = tar_bytes(idx_files(digits(59)))
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
ANSWERS: dict[str, Callable[[], Iterator[bytes]]] = {
    "nothing": lambda: iter(()),
    "ends early": lambda: iter([whole(RIGHT)[:-100]]),
    "more than it announces": lambda: iter([whole(RIGHT[:-100]) + RIGHT[-100:]]),
    "a truncated gzip": lambda: iter([whole(RIGHT[:-100])]),
    "wrong pictures": lambda: iter([whole(WRONG)]),
    "no archive": lambda: iter([whole(bytes(1000))]),
    "a gzip bomb": lambda: iter([whole(gzip.compress(bytes(2**20)))]),
    "an empty body": lambda: iter([whole(b"")]),
    "garbage for chunks": lambda: iter([CHUNKED + b"zzz\r\nabc"]),
    "a negative chunk": lambda: iter([CHUNKED + b"-5\r\nabc\r\n" * 10]),
    "a chunk of any size": lambda: iter([CHUNKED + b"f" * 30 + b"\r\nabc"]),
    "a drip of a chunk's size": lambda: drip(CHUNKED, b"0"),
    "endless chunks": lambda: endless(CHUNKED, b"10000\r\n" + bytes(2**16) + b"\r\n"),
    "no HTTP": lambda: iter([b"SSH-2.0-OpenSSH_9.6\r\n\x1b[31m\x00" * 50]),
    "HTTP 0.9": lambda: iter([b"hello"]),
    "a status without a number": lambda: iter([b"HTTP/1.1 abc OK\r\n\r\n"]),
    "words for a terminal": lambda: iter([b"HTTP/1.1 404 \x1b[31mred\x07\r\n\r\n"]),
    "a long reason": lambda: iter([b"HTTP/1.1 404 " + b"a" * 60_000 + b"\r\n\r\n"]),
    "a long header": lambda: iter([OK + b"X: " + b"a" * 200_000 + b"\r\n\r\n"]),
    "many headers": lambda: iter([OK + b"X: a\r\n" * 10_000 + b"\r\n"]),
    "endless headers": lambda: endless(OK, b"X: a\r\n"),
    "a drip of a status": lambda: drip(b"HTTP/1.1 200 "),
    "a drip of a header": lambda: drip(OK + b"X: "),
    "a drip of a body": lambda: drip(OK + b"Content-Length: 100000\r\n\r\n"),
    "a drip without a length": lambda: drip(OK + b"\r\n"),
    "continue for ever": lambda: drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "silence": lambda: drip(b"", b"", 10),
    "too much announced": lambda: endless(OK + b"Content-Length: 9000000000000\r\n\r\n"),
    "too much": lambda: endless(OK + b"\r\n"),
    "a length that is no number": lambda: iter([OK + b"Content-Length: \xb2\r\n\r\nabc"]),
    "a length of many digits": lambda: iter([OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\nabc"]),
    "a pause that is no number": lambda: iter([b"HTTP/1.1 503 Busy\r\nRetry-After: \xb2\r\n\r\n"]),
    "a range that nobody asked for": lambda: iter([b"HTTP/1.1 206 Part\r\nContent-Length: 3\r\n\r\nabc"]),
    "no content": lambda: iter([b"HTTP/1.1 204 No Content\r\n\r\n"]),
    "a circle": lambda: iter([redirect(b"/mnist.tar.gz")]),
    "ever further": lambda: iter([redirect(b"/%d" % time.monotonic_ns())]),
    "a file": lambda: iter([redirect(b"file:///etc/passwd")]),
    "another protocol": lambda: iter([redirect(b"ftp://127.0.0.1/mnist.tar.gz")]),
    "data in an address": lambda: iter([redirect(b"data:text/plain,abc")]),
    "half an address": lambda: iter([redirect(b"http://[::1/x")]),
    "no port": lambda: iter([redirect(b"http://127.0.0.1:port/x")]),
    "a host of any length": lambda: iter([redirect(b"http://" + b"a" * 300 + b"/x")]),
    "control letters": lambda: iter([redirect(b"http://127.0.0.1/\x01 x")]),
    "an endless redirect": lambda: endless(b"HTTP/1.1 302 Found\r\nLocation: /other\r\n\r\n"),
    "a web page": lambda: iter([whole(b"<html>", b"Content-Type: text/html")]),
    "a strange type": lambda: iter([whole(b"abc", b"Content-Type: ;;;=\xff/")]),
}


def left(cache: Path) -> list[str]:
    return sorted(p.relative_to(cache).as_posix() for p in cache.rglob("*") if p.is_file() and p.suffix != ".lock")


@pytest.mark.parametrize("what", ANSWERS)
def test_whatever_a_server_says_is_a_sentence(what: str, raw: Raw, tmp_path: Path, cache_folder: Path) -> None:
    sources.get("mnist", write_folder(idx_files(digits()), tmp_path / "mine"))
    before = left(cache_folder)
    raw.answer = lambda path: ANSWERS[what]()
    with within(10), pytest.raises(DataNotFound) as caught:
        sources.get("mnist", again=True)
    sentence = str(caught.value)
    assert sentence.startswith("mnist could not be obtained. the official address: ")
    assert sentence.isprintable() and len(sentence) < 700 and "cannot be read, " not in sentence
    assert [path for path in left(cache_folder) if not path.startswith(".downloads/mnist/")] == before
    sources.check("mnist")
    raw.answer = lambda path: iter([whole(RIGHT)])
    for _ in range(2):  # what is left of a wrong file is found out once
        with within(10), suppress(DataNotFound):
            sources.get("mnist", again=True)
    assert left(cache_folder) == before


def test_a_drip_is_given_up_when_its_time_is_up(raw: Raw, tmp_path: Path) -> None:
    raw.answer = lambda path: drip(OK + b"Content-Length: 100000\r\n\r\n")
    begun = time.monotonic()
    with (
        within(10),
        pytest.raises(DataNotFound, match=r"/a is too slow: \d+ bytes in 1 s; run the same command to continue"),
    ):
        download(f"{raw.url}/a", tmp_path, timeout=5, patience=PATIENCE)
    assert 0.5 < time.monotonic() - begun < 3
    assert 5 < (tmp_path / "a.part").stat().st_size < 100


def test_a_server_that_is_fast_enough_has_all_the_time_it_needs(raw: Raw, tmp_path: Path) -> None:
    def steady(path: str) -> Iterator[bytes]:
        yield OK + b"Content-Length: 20000\r\n\r\n"
        for _ in range(20):
            time.sleep(0.05)
            yield bytes(1000)

    raw.answer = steady
    path = download(f"{raw.url}/a", tmp_path, patience=Patience(grace=0.5, slowest=10_000))
    assert path.stat().st_size == 20_000


@pytest.mark.parametrize("length", [b"Content-Length: 300000000\r\n", b""])
def test_more_than_a_set_has_is_not_written(raw: Raw, tmp_path: Path, length: bytes) -> None:
    raw.answer = lambda path: endless(OK + length + b"\r\n")
    with (
        within(10),
        pytest.raises(DataMismatch, match=r"/a sends [\d,]+ bytes or more, .* has at most 3,000,000"),
    ):
        download(f"{raw.url}/a", tmp_path, most=3_000_000)
    assert list(tmp_path.iterdir()) == []
    assert raw.sent < 20_000_000


def test_every_set_has_room_for_what_it_is_and_not_for_much_more() -> None:
    for each in catalogue.CATALOGUE.values():
        if isinstance(each, sources.DataSet):
            assert each.megabytes * 10**6 < each.most < 3 * each.megabytes * 10**6 + 2**25
            assert all(package.size is None or package.size < each.most for package in each.packages)


def test_a_redirect_s_body_is_not_read(raw: Raw, tmp_path: Path) -> None:
    def answer(path: str) -> Iterator[bytes]:
        if path == "/b":
            return iter([whole(b"content")])
        return endless(b"HTTP/1.1 302 Found\r\nLocation: /b\r\n\r\n")

    raw.answer = answer
    with within(10):
        assert download(f"{raw.url}/a", tmp_path).read_bytes() == b"content"
    assert raw.sent < 20_000_000


def test_a_reader_s_own_errors_are_not_taken_for_the_server_s(raw: Raw, tmp_path: Path) -> None:
    raw.answer = lambda path: iter([whole(RIGHT)])

    def stop(what: str, done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(f"{raw.url}/a", tmp_path, stop)
    with pytest.raises(DataError):
        download(f"{raw.url}/a", tmp_path / "nowhere")


def test_a_drip_of_a_handshake_is_given_up(raw: Raw, tmp_path: Path) -> None:
    raw.answer = lambda path: drip(b"\x16\x03\x03\x40\x00")
    raw._answer = partial(_drip_at_once, raw)
    with within(10), pytest.raises(DataNotFound, match=r"/a is too slow: 0 bytes in 1 s"):
        download(f"{raw.url.replace('http:', 'https:')}/a", tmp_path, timeout=5, patience=PATIENCE)


def _drip_at_once(raw: Raw, client: socket.socket) -> None:
    with client, suppress(OSError):
        for piece in raw.answer(""):
            client.sendall(piece)


@pytest.mark.parametrize(
    ("first", "then", "follows"),
    [("https", "https", True), ("https", "http", False), ("http", "https", True), ("http", "ftp", False)],
)
def test_a_redirect_does_not_give_up_tls(first: str, then: str, follows: bool) -> None:
    redirects, headers = _Redirects(), HTTPMessage()
    request = Request(f"{first}://a.example/a", headers={"Range": "bytes=5-"})
    if follows:
        after = redirects.redirect_request(request, BytesIO(), 302, "Found", headers, f"{then}://b.example/b")
        assert (
            after is not None and after.full_url == f"{then}://b.example/b" and after.get_header("Range") == "bytes=5-"
        )
    else:
        with pytest.raises(HTTPError):
            redirects.redirect_request(request, BytesIO(), 302, "Found", headers, f"{then}://b.example/b")
