"""The folders of runs: whole files only, one process at a time, one recipe each."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from poise.training.errors import TrainingError


def slug(name: str) -> str:
    """A method's name as a folder: "PG+FCL" becomes pg-fcl."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")


def write_json(path: Path, value: Any) -> None:
    """A file that appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(json.dumps(value, indent=1) + "\n")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def busy(folder: Path) -> Iterator[bool]:
    """Whether the folder is ours while we are inside; False if another process is at it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def differing(record: Path, recipe: str) -> None:
    """A TrainingError if the run in this folder, finished or begun, has another recipe."""
    for path in (record, record.with_name("recipe.json")):
        if not path.exists():
            continue
        try:
            held = str(json.loads(path.read_text())["recipe"])
        except (ValueError, KeyError, TypeError):
            raise TrainingError(f"{path} is damaged: remove its folder to run it again") from None
        if held != recipe:
            raise TrainingError(f"{path.parent} holds a run with another recipe: {difference(held, recipe)}")


def difference(held: str, wanted: str) -> str:
    """The settings in which two recipes differ, as `name=that there, this here`."""
    first, second = (re.findall(r"\w+=|[\w.'+]+|[^\w\s]", text) for text in (held, wanted))
    changes = []
    for kind, a, b, c, d in SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        name = next((word for word in reversed(first[:a]) if word.endswith("=")), "")
        there, here = ("".join(words) or "nothing" for words in (first[a:b], second[c:d]))
        changes.append(f"{name}{there} there, {here} here")
    return "; ".join(changes[:4])
