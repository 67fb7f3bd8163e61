from collections.abc import Iterator
from pathlib import Path

import pytest
from data_sets import Server


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("POISE_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.over.set()
    running.http.shutdown()
    running.http.server_close()
