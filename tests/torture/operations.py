"""File operations below a folder, one by one, with something done just before each.

Python tells hooks before it opens, moves, removes or makes a file; what is written and synced goes through this module.
Where a process is to die at a write, half of it is written first. A hook stays: watch in processes that end soon.
"""

from __future__ import annotations

import builtins
import io
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeAlias

Act: TypeAlias = Callable[[int, str, str], None]
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_FOLDERS = {"os.remove": 1, "os.rmdir": 1, "os.mkdir": 2, "os.rename": 3, "os.chmod": 2, "os.symlink": 2, "os.link": 3}
_REAL = open


@dataclass
class _Watch:
    """Where operations are watched, how many there were, and the one at which a write is torn."""

    folder: str
    act: Act
    torn: int = -1
    count: int = field(default=0)

    def tell(self, kind: str, path: str) -> None:
        if path == self.folder or path.startswith(self.folder + os.sep):
            self.count += 1
            self.act(self.count - 1, kind, path)


def watch(folder: Path, act: Act, torn: int = -1) -> None:
    """From now on, call act(number, kind, path) before each operation below the folder."""
    seen = _Watch(os.path.realpath(folder), act, torn)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING:
            if isinstance(arguments[0], str | bytes | os.PathLike):
                seen.tell("open", _place(arguments[0]))
        elif event in _FOLDERS:
            path = arguments[1] if event == "os.rename" else arguments[0]
            seen.tell(event.removeprefix("os."), _place(path, arguments[_FOLDERS[event]]))

    _redirect(seen)
    sys.addaudithook(hook)


def count(folder: Path) -> list[tuple[str, str]]:
    """A list that fills with what is done, and to which file."""
    done: list[tuple[str, str]] = []
    watch(folder, lambda number, kind, path: done.append((kind, path)))
    return done


def die_at(folder: Path, number: int) -> None:
    """SIGKILL for this process, just before an operation."""

    def act(now: int, kind: str, path: str) -> None:
        if now == number:
            os.kill(os.getpid(), signal.SIGKILL)

    watch(folder, act, torn=number)


def fail_at(folder: Path, number: int, errno: int) -> None:
    """An OSError instead of an operation."""

    def act(now: int, kind: str, path: str) -> None:
        if now == number:
            raise OSError(errno, os.strerror(errno), path)

    watch(folder, act)


def _place(path: Any, folder: int = -1) -> str:
    """The whole path, where it may be given as one in an open folder."""
    name = os.fsdecode(path) if not isinstance(path, int) else _name(path)
    return os.path.abspath(os.path.join(_name(folder), name) if folder >= 0 else name)


def _name(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}")


def _redirect(seen: _Watch) -> None:
    """Let what is written and synced be told."""

    class Stream(io.FileIO):
        def write(self, data: Any, /) -> int:
            if seen.count == seen.torn:
                super().write(memoryview(data)[: len(data) // 2])
            seen.tell("write", _name(self.fileno()))
            return super().write(data)

    def opened(file: Any, mode: str = "r", buffering: int = -1, *text: Any, **options: Any) -> IO[Any]:
        if not set(mode) & set("wxa+"):
            return _REAL(file, mode, buffering, *text, **options)
        words = dict(zip(("encoding", "errors", "newline", "closefd", "opener"), text, strict=False)) | options
        raw = Stream(
            file, mode.replace("b", "").replace("t", ""), words.pop("closefd", True), words.pop("opener", None)
        )
        if buffering == 0:
            return raw
        whole = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return whole if "b" in mode else io.TextIOWrapper(whole, **words)

    def told(real: Callable[[int], None]) -> Callable[[Any], None]:
        def sync(file: Any) -> None:
            seen.tell("fsync", _name(file if isinstance(file, int) else file.fileno()))
            real(file)

        return sync

    builtins.open = io.open = opened  # type: ignore[assignment]
    os.fsync, os.fdatasync = told(os.fsync), told(os.fdatasync)
    if download := sys.modules.get("poise.data.sets.download"):
        download.FileIO = Stream  # type: ignore[attr-defined]
