"""Tables on the device: what changes from step to step, read by a step at a counter that it moves on itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

_MOST_PARTS = 4


class Tables:
    """What changes from step to step, and what a step leaves, on the device; a counter says which step it is."""

    def __init__(self, steps: int, batch: int, replicas: int, device: torch.device) -> None:
        self.rows = torch.zeros(steps, batch, dtype=torch.int64, device=device)
        self.rates, self.weights = torch.zeros(2, steps, device=device).unbind()
        self.log = torch.zeros(steps, _MOST_PARTS, replicas, device=device)
        self.counter = torch.zeros(1, dtype=torch.int64, device=device)

    def fill(self, rows: Tensor, rates: list[float], weights: list[float]) -> None:
        self.rows.copy_(rows)
        self.rates.copy_(torch.tensor(rates))
        self.weights.copy_(torch.tensor(weights))
        self.counter.zero_()

    def go_on(self, done: Tensor) -> None:
        """From the step after those whose parts these are."""
        self.log[: len(done)] = done.to(self.log.device)
        self.counter.fill_(len(done))

    def now(self, table: Tensor) -> Tensor:
        """The row of this step."""
        return table.index_select(0, self.counter)[0]

    def note(self, parts: Iterable[Tensor | float]) -> None:
        """Write down the parts of a loss, and go on to the next step."""
        replicas = self.log.shape[2]
        values = [torch.as_tensor(part, device=self.log.device).float().expand(replicas) for part in parts]
        values += [self.log.new_zeros(replicas)] * (_MOST_PARTS - len(values))
        self.log.index_copy_(0, self.counter, torch.stack(values)[None])
        self.counter += 1

    def snapshot(self) -> Callable[[], None]:
        counter = self.counter.clone()

        def undo() -> None:
            self.counter.copy_(counter)

        return undo
