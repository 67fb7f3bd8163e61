"""A journal file for Optuna: one line of JSON for each event of a trial.

Replaces Optuna's own file backend, which cannot be read again after a full disk or a kill has truncated a line, and
whose lock outlives its process. Here a truncated line is dropped, and the lock is a folder lock.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from poise.io.files import wait_lock

_PAUSE = 0.05  # seconds


class Journal:
    """A backend for optuna.storages.JournalStorage."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """Yield the entries from this number on."""
        lines = self.path.read_bytes().split(b"\n")[:-1] if self.path.exists() else []
        entries = filter(None, map(_entry, lines))
        for number, entry in enumerate(entries):
            if number >= log_number_from:
                yield entry

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append entries after the last complete line."""
        content = "".join(f"{json.dumps(log, separators=(',', ':'))}\n" for log in logs).encode()
        try:
            with wait_lock(self.path.with_suffix(".lock"), _PAUSE), self.path.open("a+b") as stream:
                stream.seek(0)
                stream.truncate(stream.read().rfind(b"\n") + 1)
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None
