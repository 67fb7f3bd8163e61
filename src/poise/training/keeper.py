"""Who keeps the checkpoints of a run: after epochs, and between the stretches of long ones."""

from __future__ import annotations

import time
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from poise.data.loader import Loader
from poise.distributed import rank, share, union, world_size
from poise.training.average import Average
from poise.training.checkpoint import last_name, save
from poise.training.engine import Engine
from poise.training.errors import NotFinite, out_of_time
from poise.training.memory import Memory

Entry = dict[str, Any]


@dataclass(eq=False)
class Keeper:
    """Writes checkpoints of a run, where it has a folder for them; `began` is when it would have begun in one go."""

    folder: Path | None
    model: nn.Module
    optimizer: torch.optim.Optimizer
    average: Average | None
    log: list[Entry]
    trunk: int
    began: float
    every: float
    data: Loader
    earlier_peak: int | None

    def __post_init__(self) -> None:
        self._last = time.monotonic()
        self.memory = Memory(self.model, self.data.labels.device, self.earlier_peak)

    @property
    def due(self) -> bool:
        return time.monotonic() - self._last >= self.every

    def keep(self, begun: Tensor | None = None) -> None:
        """After an epoch, or with what an epoch that was begun has come to; asked for by all processes. Weights that
        are not finite are not kept: the loss would be the next to be none."""
        if not torch.stack([weight.isfinite().all() for weight in self.model.parameters()]).all():
            raise NotFinite(f"the weights are not finite after epoch {len(self.log)}: {self._remedy()}")
        damaged = union({str(path): why for path, why in self.data.damaged.items()})
        if rank() == 0 and self.folder is not None:
            facts = {"log": self.log, "trunk": self.trunk, "processes": world_size()}
            facts |= {"seconds": time.monotonic() - self.began, "peak_memory": self.memory.peak}
            facts |= {} if begun is None else {"begun": begun.tolist(), "order": order_of(self.data, len(self.log))}
            facts |= {"damaged": damaged} if damaged else {}
            batch = 0 if begun is None else len(begun)
            save(self.folder, len(self.log), self.model, self.optimizer, facts, self.average, batch)
        self._last = time.monotonic()

    def between(self, engine: Engine, deadline: float, batch: int) -> None:
        """Before a stretch of an epoch: a checkpoint if it is time, which the first process says; OutOfTime if over."""
        over, due = share((time.monotonic() >= deadline, self.due))
        if over or due:
            begun = engine.so_far(batch)
            self.require_finite(engine.parts(begun))
            self.keep(begun)
        if over:
            epoch = len(self.log) + 1
            raise out_of_time(f"batch {batch} of epoch {epoch}")

    def require_finite(self, parts: dict[str, Tensor]) -> None:
        """NotFinite if a loss of this epoch [steps] or [steps, R] is not, with its step and part."""
        wrong = {name: found[0].tolist() for name, each in parts.items() if len(found := (~each.isfinite()).nonzero())}
        if wrong:
            name, (step, *place) = min(wrong.items(), key=lambda pair: pair[1][0])
            where = f"step {len(self.log) * len(self.data) + step} (epoch {len(self.log) + 1})"
            raise NotFinite(f"{name} is not finite at {where}: {self._remedy()}", *place)

    def _remedy(self) -> str:
        kept = None if self.folder is None else last_name(self.folder)
        return f"lower the learning rate or the weight; {f'{kept} is saved' if kept else 'there is no checkpoint yet'}"


def order_of(data: Loader, epoch: int) -> str:
    """A digest of the order in which an epoch visits the examples: other data, or in another form, have another."""
    return sha256(data.batches(epoch).rows.cpu().numpy().tobytes()).hexdigest()
