import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from data_sets import Server

from poise.data.sets import fetch as sources
from poise.data.sets.download import download
from poise.errors import DataNotFound


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("POISE_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def _no_network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Official addresses do not answer, but in the tests that are there for the network; nobody waits to try again."""
    if request.node.get_closest_marker("network") is not None:
        return

    def on_loopback(address: str, *rest: Any) -> Path:
        if "://127.0.0.1" not in address and "://localhost" not in address:
            raise DataNotFound(f"{address} cannot be reached")
        return download(address, *rest)

    monkeypatch.setattr(sources, "download", on_loopback)
    impatient = SimpleNamespace(sleep=lambda seconds: None, monotonic=time.monotonic)
    monkeypatch.setattr("poise.data.sets.download.time", impatient)


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.over.set()
    running.http.shutdown()
    running.http.server_close()
