"""A server on 127.0.0.1 in a process of its own, which answers as well or as badly as a function says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from torture.forks import start

Answer = Callable[[socket.socket, str], None]
MOST = 2**30  # bytes that an answer may have


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """The address of a server that has answer(client, path) for every request."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        child = start(lambda: _serve(server, answer))
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            child.kill()
            child.wait()


def body(content: bytes, *headers: str) -> Answer:
    """An honest answer."""

    def answer(client: socket.socket, path: str) -> None:
        lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(content)}", "Connection: close", *headers]
        client.sendall("\r\n".join([*lines, "", ""]).encode() + content)

    return answer


def without_end(client: socket.socket, taken: Path) -> None:
    """Zeros, until somebody stops taking them; a file tells where nobody does."""
    for _ in range(MOST // 2**20):
        client.sendall(bytes(2**20))
    taken.touch()


def _serve(server: socket.socket, answer: Answer) -> None:
    while True:
        client, _ = server.accept()
        threading.Thread(target=_answer, args=(client, answer), daemon=True).start()


def _answer(client: socket.socket, answer: Answer) -> None:
    with client, suppress(OSError):
        request = b""
        while b"\r\n\r\n" not in request and (part := client.recv(4096)):
            request += part
        answer(client, request.split(b" ")[1].decode(errors="replace"))
