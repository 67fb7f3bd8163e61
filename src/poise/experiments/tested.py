"""The test sets that a run has behind it, kept one by one until its record is written: tests of ImageNet-C take hours.

    <run>/tested.json    whose weights and which tests, as a digest; right answers and examples per class of every set

A file that belongs to other weights or other tests, or that cannot be read, is not used: all sets are tested again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from poise.distributed import rank, share
from poise.whole import new_file

FILE = "tested.json"


@dataclass(frozen=True, eq=False)
class Tested:
    """Counts [L, 2] by test set, and the pictures that could not be decoded on the way; kept where there is a path."""

    path: Path | None = None
    digest: str = ""
    counts: dict[str, Tensor] = field(default_factory=dict)
    damaged: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, counts: Tensor, damaged: dict[str, str]) -> None:
        """One more set; the first process writes all of them down, and does not wait for the disk."""
        self.counts[name] = counts
        self.damaged.update(damaged)
        if self.path is None or rank() > 0:
            return
        held = {"digest": self.digest, "counts": {name: each.tolist() for name, each in self.counts.items()}}
        with new_file(self.path, within=self.path.parent) as stream:
            stream.write(json.dumps({**held, "damaged": self.damaged}).encode())


def read_tested(path: Path | None, model: nn.Module, *tests: object) -> Tested:
    """What the first process finds of these weights and these tests, in all processes."""
    if path is None:
        return Tested()
    digest, held = share(_found(path, model, tests) if rank() == 0 else ("", {}))
    counts = {name: torch.tensor(each) for name, each in held.get("counts", {}).items()}
    return Tested(path, digest, counts, dict(held.get("damaged", {})))


def _found(path: Path, model: nn.Module, tests: tuple[object, ...]) -> tuple[str, dict[str, Any]]:
    digest = sha256(repr(tests).encode())
    for name, tensor in model.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    try:
        held = json.loads(path.read_text())
        ours = bool(held["digest"] == digest.hexdigest())
    except (OSError, ValueError, KeyError, TypeError):
        ours = False
    return digest.hexdigest(), held if ours else {}
