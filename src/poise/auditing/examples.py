"""Labelled examples that are tensors, pictures or rows of a table, read as they are needed.

Axes: N examples, B of them, *D features of one example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from poise.auditing.batches import Batch, require_finite
from poise.auditing.errors import AuditError
from poise.auditing.rows import Columns

_BATCH = 16
_NAMED = 3  # of the pictures that were left out


class Damaged(AuditError):
    """One example that cannot be read."""


@dataclass(frozen=True, eq=False)
class Examples:
    """labels [N], columns, and how some rows are read [B, *D]: pictures [B, C, H, W] in [0, 1], or a table [B, F].

    source    the file or the row of an example.
    given     the utility of some rows [B, *D], where the data bring it.
    scale     mean and deviation [F] of a table's columns; `read` gives them standardized.
    features  the names of a table's columns.
    called    what the classes are called, where they are numbered and nobody gives other names.
    notes     what was done with the data, in words.
    damaged   what could not be read, by its source; filled as examples are read.
    """

    name: str
    labels: np.ndarray
    columns: Columns
    classes: Sequence[str]
    read: Callable[[Sequence[int]], Tensor]
    source: Callable[[int], str]
    rare: Sequence[int] | None = None
    given: Callable[[Sequence[int]], Tensor] | None = None
    scale: tuple[Tensor, Tensor] | None = None
    features: Sequence[str] = ()
    called: Sequence[str] = ()
    notes: tuple[str, ...] = ()
    damaged: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.labels)

    def batches(self, rows: Sequence[int], size: int = _BATCH) -> Iterator[Batch]:
        """These rows, in this order, without those that cannot be read."""
        for start in range(0, len(rows), size):
            part, x = self._readable(list(rows[start : start + size]))
            if x is None:
                continue
            columns = {name: [values[row] for row in part] for name, values in self.columns.items()}
            y = torch.from_numpy(self.labels[part].astype(np.int64))
            given = None if self.given is None else self.given(part)
            found = Batch(x, y, columns, given, [self.source(row) for row in part])
            require_finite(found)
            yield found

    def first(self, rows: Sequence[int]) -> Batch:
        """One example that can be read."""
        found = next(iter(self.batches(rows, 1)), None)
        if found is None:
            why = f"nothing that can be read: {next(iter(self.damaged.values()))}" if self.damaged else "no examples"
            raise AuditError(f"{self.name} has {why}")
        return found

    def left_out(self) -> list[str]:
        """A note about what could not be read."""
        if not self.damaged:
            return []
        named = ", ".join(list(self.damaged)[:_NAMED]) + (", …" if len(self.damaged) > _NAMED else "")
        what = "picture" if len(self.damaged) == 1 else "pictures"
        return [f"{len(self.damaged)} {what} could not be read, and left out: {named}"]

    def _readable(self, rows: list[int]) -> tuple[list[int], Tensor | None]:
        try:
            return rows, self.read(rows)
        except Damaged:
            pass
        kept = []
        for row in rows:
            try:
                kept.append((row, self.read([row])))
            except Damaged as error:
                self.damaged[self.source(row)] = str(error)
        return [row for row, _ in kept], torch.cat([x for _, x in kept]) if kept else None
