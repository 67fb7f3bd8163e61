"""Labelled examples that are tensors, pictures or rows of a table, read as they are needed.

Axes: N examples, B of them, *D features of one example.

Tables as columns of words: TSV and CSV with a head, JSONL with an object per line.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from poise.auditing.inputs.batches import Batch, require_finite
from poise.errors import AuditError
from poise.io.files import regular

Columns = dict[str, list[str]]
_DELIMITED = (".tsv", ".csv")


def read_rows(path: Path) -> Columns:
    """{column: one word per row}; an AuditError names the line that is wrong."""
    if path.suffix not in (*_DELIMITED, ".jsonl", ".ndjson"):
        raise AuditError(f"{path} must be a .tsv, .csv or .jsonl file")
    try:
        with regular(path).open(encoding="utf-8-sig", newline="") as stream:
            rows = _delimited(stream, path) if path.suffix in _DELIMITED else _objects(stream, path)
    except OSError as error:
        raise AuditError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise AuditError(f"{path} is not written in UTF-8") from None
    if not rows:
        raise AuditError(f"{path} has no rows")
    names = list(rows[0])
    for number, row in enumerate(rows):
        if list(row) != names and set(row) != set(names):
            raise AuditError(f"{path}: row {number + 1} has the columns {', '.join(row)}, the first {', '.join(names)}")
    return {name: [row[name] for row in rows] for name in names}


def _delimited(stream: Any, path: Path) -> list[dict[str, str]]:
    csv.field_size_limit(sys.maxsize)
    tabs = path.suffix == ".tsv"
    rows = list(
        csv.reader(stream, delimiter="\t" if tabs else ",", quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL)
    )
    head, *body = rows or [[]]
    for number, row in enumerate(body):
        if row and len(row) != len(head):
            raise AuditError(f"{path}: line {number + 2} has {len(row)} fields, the head has {len(head)}")
    return [dict(zip(head, row, strict=True)) for row in body if row]


def _objects(stream: Any, path: Path) -> list[dict[str, str]]:
    rows = []
    for number, line in enumerate(stream):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise AuditError(f"{path}: line {number + 1} is not JSON ({error})") from None
        if not isinstance(row, dict):
            raise AuditError(f"{path}: line {number + 1} is not an object")
        rows.append({str(name): str(value) for name, value in row.items()})
    return rows


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
