"""The test sets that a run has behind it, kept one by one until its record is written: tests of ImageNet-C take hours.

    <run>/tested.jsonl    whose weights and which tests, as a digest; then for every set a line with right answers and
                          examples per class

A file that belongs to other weights or other tests, or that cannot be read, is not used: all sets are tested again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import torch
from torch import Tensor, nn

from poise.distributed import rank, share
from poise.whole import new_file

FILE = "tested.jsonl"


@dataclass(frozen=True, eq=False)
class Tested:
    """Counts [L, 2] by test set, and the pictures that could not be decoded on the way; kept where there is a path."""

    path: Path | None = None
    lines: list[str] = field(default_factory=list)
    counts: dict[str, Tensor] = field(default_factory=dict)
    damaged: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, counts: Tensor, damaged: dict[str, str]) -> None:
        """One more set; the first process writes it down, and does not wait for the disk."""
        self.counts[name] = counts
        if self.path is None or rank() > 0:
            return
        self.lines.append(json.dumps({"test": name, "counts": counts.tolist(), "damaged": damaged}))
        with new_file(self.path, within=self.path.parent) as stream:
            stream.write("\n".join(self.lines).encode())


def read_tested(path: Path | None, model: nn.Module, *tests: object) -> Tested:
    """What the first process finds of these weights and these tests, in all processes."""
    if path is None:
        return Tested()
    lines = share(_found(path, _digest(model, tests)) if rank() == 0 else [])
    sets = [json.loads(line) for line in lines[1:]]
    counts = {each["test"]: torch.tensor(each["counts"]) for each in sets}
    return Tested(path, lines, counts, {name: why for each in sets for name, why in each["damaged"].items()})


def _found(path: Path, digest: str) -> list[str]:
    """The lines of the file, or the first one of a new file."""
    head = json.dumps({"version": 1, "digest": digest})
    try:
        lines = path.read_text().splitlines()
        whole = all({"test", "counts", "damaged"} == set(json.loads(line)) for line in lines[1:])
    except (OSError, ValueError, TypeError):
        return [head]
    return lines if whole and lines[:1] == [head] else [head]


def _digest(model: nn.Module, tests: tuple[object, ...]) -> str:
    digest = sha256(repr(tests).encode())
    for name, tensor in model.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
