"""Downloads against a server on loopback that misbehaves in every way."""

import errno
import multiprocessing
import os
import re
import signal
import ssl
import time
from http.client import HTTPResponse
from pathlib import Path

import numpy as np
import pytest
from data_sets import Server

from poise.data.sets.download import download
from poise.errors import CacheError, DataMismatch, DataNotFound

BODY = np.random.default_rng(0).bytes(3_000_000)


def test_a_file_arrives_with_progress(server: Server, tmp_path: Path) -> None:
    server.bodies["/a.bin"] = BODY
    seen = []
    path = download(f"{server.url}/a.bin", tmp_path, lambda what, done, total: seen.append((what, done, total)))
    assert path.read_bytes() == BODY
    assert seen[-1] == ("a.bin", len(BODY), len(BODY))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]


def test_a_cut_download_goes_on_where_it_was(server: Server, tmp_path: Path) -> None:
    server.bodies["/a.bin"] = BODY
    server.cut_once.add("/a.bin")
    assert download(f"{server.url}/a.bin", tmp_path).read_bytes() == BODY
    assert [wanted for _, wanted in server.requests] == [None, f"bytes={len(BODY) // 2}-"]


def test_a_server_that_cannot_resume_starts_again(server: Server, tmp_path: Path) -> None:
    server.bodies["/a.bin"] = BODY
    server.cut_once.add("/a.bin")
    server.whole_only.add("/a.bin")
    assert download(f"{server.url}/a.bin", tmp_path).read_bytes() == BODY


def test_redirects_are_followed(server: Server, tmp_path: Path) -> None:
    server.bodies["/b.bin"] = BODY
    server.redirects["/a.bin"] = f"{server.url}/b.bin"
    assert download(f"{server.url}/a.bin", tmp_path).read_bytes() == BODY


def test_a_server_that_recovers_is_asked_again(server: Server, tmp_path: Path) -> None:
    server.bodies["/a.bin"] = BODY
    server.failures["/a.bin"] = [503]
    assert download(f"{server.url}/a.bin", tmp_path).read_bytes() == BODY


@pytest.mark.parametrize(("asked", "pause"), [("7", 7.0), ("86400", 60.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.5)])
def test_a_busy_server_is_asked_again_when_it_says(server: Server, tmp_path: Path, monkeypatch, asked, pause) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("poise.data.sets.download.time.sleep", pauses.append)
    server.bodies["/a.bin"] = BODY
    server.failures["/a.bin"] = [429]
    server.retry_after["/a.bin"] = asked
    assert download(f"{server.url}/a.bin", tmp_path).read_bytes() == BODY
    assert pauses == [pause]


def test_a_server_that_stays_busy_is_named_and_what_came_is_kept(server: Server, tmp_path: Path) -> None:
    server.bodies["/a.bin"] = BODY
    server.failures["/a.bin"] = [429] * 3
    server.retry_after["/a.bin"] = "0"
    (tmp_path / "a.bin.part").write_bytes(BODY[:1000])
    with pytest.raises(DataNotFound, match="cannot be reached: 429 Too Many Requests"):
        download(f"{server.url}/a.bin", tmp_path)
    assert len(server.requests) == 3
    assert download(f"{server.url}/a.bin", tmp_path).read_bytes() == BODY
    assert server.requests[-1] == ("/a.bin", "bytes=1000-")


def test_a_part_that_is_too_long_is_thrown_away(server: Server, tmp_path: Path) -> None:
    server.bodies["/a.bin"] = BODY
    server.failures["/a.bin"] = [416]
    (tmp_path / "a.bin.part").write_bytes(BODY + b"more")
    assert download(f"{server.url}/a.bin", tmp_path).read_bytes() == BODY


def test_redirects_in_a_circle_are_told_in_one_line(server: Server, tmp_path: Path) -> None:
    server.redirects.update({"/a.bin": f"{server.url}/b.bin", "/b.bin": f"{server.url}/a.bin"})
    with pytest.raises(DataNotFound) as error:
        download(f"{server.url}/a.bin", tmp_path)
    assert str(error.value) == f"{server.url}/a.bin answers 302, too many redirects"


def test_a_missing_file_is_named_at_once(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DataNotFound, match=r"/a\.bin answers 404"):
        download(f"{server.url}/a.bin", tmp_path)
    assert len(server.requests) == 1


def test_a_web_page_is_not_data(server: Server, tmp_path: Path) -> None:
    server.bodies["/a.bin"] = b"<html>Sign in to continue</html>"
    server.types["/a.bin"] = "text/html; charset=utf-8"
    with pytest.raises(DataMismatch, match="returned a web page, not data"):
        download(f"{server.url}/a.bin", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_stall_ends_with_a_sentence(server: Server, tmp_path: Path) -> None:
    server.bodies["/a.bin"] = BODY
    server.stall.add("/a.bin")
    with pytest.raises(DataNotFound, match=r"cannot be reached: .*timed out"):
        download(f"{server.url}/a.bin", tmp_path, timeout=0.3, tries=1)


def test_nobody_listening_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataNotFound, match=r"cannot be reached: .*refused"):
        download("http://127.0.0.1:9/a.bin", tmp_path, tries=1)


def _download_slowly(url: str, folder: Path) -> None:
    download(url, folder, lambda what, done, total: time.sleep(0.2))


def test_a_killed_download_goes_on_where_it_was(server: Server, tmp_path: Path) -> None:
    server.bodies["/a.bin"] = BODY
    process = multiprocessing.get_context("spawn").Process(
        target=_download_slowly, args=(f"{server.url}/a.bin", tmp_path)
    )
    process.start()
    part = tmp_path / "a.bin.part"
    while not (part.exists() and part.stat().st_size > 0):
        assert process.is_alive()
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    kept = part.stat().st_size
    assert 0 < kept < len(BODY)
    assert download(f"{server.url}/a.bin", tmp_path).read_bytes() == BODY
    assert server.requests[-1] == ("/a.bin", f"bytes={kept}-")


def break_off(monkeypatch: pytest.MonkeyPatch, error: OSError, times: int) -> None:
    """Let the network fail in mid-download, after the first bytes, the given number of times."""
    read, left = HTTPResponse.read1, [times]

    def failing(self: HTTPResponse, size: int = -1) -> bytes:
        if left[0] > 0 and self.length < len(BODY):
            left[0] -= 1
            raise error
        return read(self, min(size, 100_000))

    monkeypatch.setattr(HTTPResponse, "read1", failing)


NETWORK = [
    ssl.SSLError(1, "[SSL: DECRYPTION_FAILED_OR_BAD_RECORD_MAC] decryption failed"),
    OSError(errno.EHOSTUNREACH, "No route to host"),
    OSError(errno.EPERM, "Operation not permitted"),  # a firewall's answer
]


@pytest.mark.parametrize("error", NETWORK, ids=str)
def test_a_network_that_fails_in_between_is_tried_again(server: Server, tmp_path: Path, monkeypatch, error) -> None:
    server.bodies["/a.bin"] = BODY
    break_off(monkeypatch, error, times=2)
    assert download(f"{server.url}/a.bin", tmp_path).read_bytes() == BODY
    asked = [wanted for _, wanted in server.requests]
    assert len(asked) == 3 and asked[0] is None
    assert all(re.fullmatch(r"bytes=[1-9]\d*-", str(wanted)) for wanted in asked[1:])


@pytest.mark.parametrize("error", NETWORK, ids=str)
def test_a_network_that_keeps_failing_is_not_taken_for_the_disk(server, tmp_path, monkeypatch, error) -> None:
    server.bodies["/a.bin"] = BODY
    break_off(monkeypatch, error, times=3)
    with pytest.raises(DataNotFound, match=rf"a\.bin cannot be reached: .*{re.escape(error.strerror)}"):
        download(f"{server.url}/a.bin", tmp_path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_is_said_at_once(server: Server, tmp_path: Path) -> None:
    server.bodies["/a.bin"] = BODY
    (tmp_path / "a.bin.part").symlink_to("/dev/full")
    with pytest.raises(CacheError, match=f"{tmp_path} is full: free some space"):
        download(f"{server.url}/a.bin", tmp_path)
    assert len(server.requests) == 1
