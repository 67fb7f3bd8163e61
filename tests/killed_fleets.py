"""Fleets that are killed at every file operation, for tests/running/test_fleets.py: forks, and says what differs.

python tests/killed_fleets.py FOLDER 0    instead of being killed, it finds the disk full once
python tests/killed_fleets.py FOLDER 1    gone on with by one process
python tests/killed_fleets.py FOLDER 2    killed beside another, gone on with by two at once, and then by one
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from miniature import EXPERIMENT, Blobs

from poise.running import record
from poise.running.fleets import run_fleets
from poise.running.runner import Runner

SMALL = replace(EXPERIMENT, plan=replace(EXPERIMENT.plan, epochs=2), task=Blobs(32), seeds=2)
_CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")
_VOLATILE = ("seconds", "started", "finished", "checksum")


def run(out: Path) -> None:
    run_fleets(Runner(SMALL, out, torch.device("cpu"), keep_every=0.0), ["XE"])


def watch(out: Path, seen: Callable[[], None]) -> None:
    """Call `seen` before everything that changes a file of the folder."""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if (event in _CHANGES or writes) and str(args[0]).startswith(str(out)):
            seen()

    sys.addaudithook(hook)


def forked(work: Callable[[], None]) -> int:
    """Its process."""
    child = os.fork()
    if child == 0:
        end = 1
        try:
            work()
            end = 0
        finally:
            os._exit(end)
    return child


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def operations(out: Path) -> int:
    """How many there are in a run that nothing stops."""
    into, outof = os.pipe()

    def counted() -> None:
        watch(out, lambda: os.write(outof, b".") and None)
        run(out)

    end = ended(forked(counted))
    os.close(outof)
    if end:
        raise SystemExit(f"the straight run ended with {end}")
    with os.fdopen(into, "rb") as stream:
        return len(stream.read())


def stopped(out: Path, at: int, kill: bool) -> int:
    def deadly() -> None:
        left = at

        def seen() -> None:
            nonlocal left
            left -= 1
            if left == -1 and kill:
                os.kill(os.getpid(), signal.SIGKILL)
            if left == -1:
                raise OSError(errno.ENOSPC, "No space left on device")

        watch(out, seen)
        run(out)

    return ended(forked(deadly))


def outcome(out: Path) -> dict[str, Any]:
    """Records, logs and last weights, without times."""
    found: dict[str, Any] = {}
    for path in sorted((out / "blobs").rglob("*")):
        name = str(path.relative_to(out))
        if path.name in ("record.json", "fleet.json"):
            found[name] = _settled(json.loads(path.read_text()))
        elif path.name == "log.jsonl":
            found[name] = [_settled(json.loads(line)) for line in path.read_text().splitlines()]
        elif path.suffix == ".safetensors":
            found[name] = path.read_bytes().hex()
    return found


def _settled(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _settled(each) for name, each in value.items() if name not in _VOLATILE}
    return [_settled(each) for each in value] if isinstance(value, list) else value


def main(folder: Path, processes: int) -> None:
    count = operations(folder / "straight")
    straight, differing = outcome(folder / "straight"), {}
    for at in range(0, count, 4 if processes == 2 else 1):
        out = folder / str(at)
        beside = [forked(partial(run, out)) for _ in range(processes - 1)]
        allowed = {0: (0, 1), 1: (-signal.SIGKILL,), 2: (-signal.SIGKILL, 0)}[processes]
        ends = [int(stopped(out, at, kill=processes > 0) not in allowed)]
        ends += [ended(child) for child in beside]
        together = [forked(partial(run, out)) for _ in range(max(processes, 1))]
        ends += [ended(child) for child in together]
        ends += [ended(forked(partial(run, out)))] if beside else []
        found = outcome(out)
        names = [name for name in {**straight, **found} if straight.get(name) != found.get(name)]
        if names or any(ends):
            differing[at] = [*map(str, ends), *names]
    print(json.dumps({"operations": count, "records": sum("record" in n for n in straight), "differing": differing}))


if __name__ == "__main__":
    torch.set_num_threads(1)
    os.fsync = lambda _: None  # what is killed leaves its files to a system that lives on
    record.surroundings = lambda _: {}  # which asks git
    run(Path(sys.argv[1], "warm"))  # what is imported on the way is imported once
    main(Path(sys.argv[1]), int(sys.argv[2]))
