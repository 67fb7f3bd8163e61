"""Training logs: progress events, a JSON line per epoch, and TensorBoard on request."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poise.checks import install
from poise.training.loop import Now

Entry = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """A progress event: what the runner is doing ("training"), the run, and more in `detail`."""

    method: str
    seed: int
    what: str
    now: Now | None = None
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.what} {self.method} (seed {self.seed}){self.detail}"


Listener = Callable[[Event], None]


def notes(folder: Path, for_tensorboard: bool) -> Callable[[list[Entry]], None]:
    """A function that writes the logs after an epoch."""
    writers = [json_lines(folder), *([tensorboard(folder)] if for_tensorboard else [])]

    def write(log: list[Entry]) -> None:
        for each in writers:
            each(log)

    return write


def json_lines(folder: Path) -> Callable[[list[Entry]], None]:
    """A function that writes log.jsonl: all epochs so far when a run starts or continues, then one line each."""
    path, written = folder / "log.jsonl", 0

    def write(log: list[Entry]) -> None:
        nonlocal written
        with path.open("a" if written else "w") as stream:
            stream.writelines(json.dumps(entry) + "\n" for entry in log[written:])
        written = len(log)

    return write


def tensorboard(folder: Path) -> Callable[[list[Entry]], None]:
    """A function that writes the last epoch's numbers for TensorBoard."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"TensorBoard is not installed: {install('tensorboard')}") from None
    writer = SummaryWriter(str(folder / "tensorboard"))

    def write(log: list[Entry]) -> None:
        entry = log[-1]
        numbers = {f"loss/{name}": value for name, value in entry["loss"].items()}
        numbers |= {name: entry[name] for name in ("learning_rate", "validation") if name in entry}
        for name, value in numbers.items():
            writer.add_scalar(name, value, entry["epoch"])
        writer.flush()

    return write
