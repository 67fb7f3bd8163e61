"""Labelled examples that are tensors, pictures or rows of a table, read as they are needed.

Axes: N examples, B of them, *D features of one example.

Tables as columns of words: TSV and CSV with a head, JSONL with an object per line.

What a loader gives, batch by batch: x and y, or a dict as Hugging Face makes it, with columns beside them.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from poise.errors import AuditError
from poise.io.files import regular
from poise.tokens import Input, Tokens, shape_of

_OTHER_PRECISIONS = (torch.float16, torch.bfloat16, torch.float64)
_LABELS = ("labels", "label", "y")
Kind = Literal["pictures", "text", "table"]
_CPU_EXAMPLES = {"pictures": 100, "text": 300, "table": 1000}


@dataclass(frozen=True, eq=False)
class Batch:
    """columns  what else is known of each example, {name: one value per example}, such as a source or a site.

    given    the utility [B, *D] that the user brings, for utility from outside.
    sources  where each example comes from: a file, or "row 17".
    """

    x: Input
    y: Tensor
    columns: dict[str, list[str]]
    given: Tensor | None = None
    sources: list[str] | None = None

    def __len__(self) -> int:
        return len(self.y)

    def rows(self, part: slice) -> Batch:
        """Some of the examples."""
        columns = {name: values[part] for name, values in self.columns.items()}
        given, sources = (None if held is None else held[part] for held in (self.given, self.sources))
        return Batch(self.x[part], self.y[part], columns, given, sources)  # type: ignore[arg-type]


def kind_of(x: Input) -> Kind:
    if not isinstance(x, Tensor):
        return "text"
    return "table" if x.ndim == 2 else "pictures"


def sample_size(kind: Kind, device: torch.device) -> int:
    """How many examples are measured if nobody says how many: on a CPU, as many as take minutes."""
    return _CPU_EXAMPLES[kind] if device.type == "cpu" else 1000


def batches(loader: Iterable[Any], device: torch.device, limit: int | None) -> Iterator[Batch]:
    """The loader's batches on the device, up to `limit` examples in all, or a sample of the usual size."""
    left = limit
    for item in loader:
        batch = _as_batch(item)
        require_finite(batch)
        batch = _moved(batch, device)
        left = sample_size(kind_of(batch.x), device) if left is None else left
        batch = batch.rows(slice(0, left))
        left -= len(batch)
        if len(batch):
            yield batch
        if left == 0:
            return


def require_finite(batch: Batch) -> None:
    """A ValueError that names the first example with a value that is none."""
    if isinstance(batch.x, Tokens) or not batch.x.is_floating_point():
        return
    wrong = (~batch.x.flatten(1).isfinite().all(1)).nonzero().flatten().tolist()
    if wrong:
        sources = batch.sources or []
        which = sources[wrong[0]] if sources else f"example {wrong[0]} of a batch"
        raise ValueError(f"the data have values that are not finite, such as {which}: fill or drop them first")


def _as_batch(item: Any) -> Batch:
    if isinstance(item, Batch):
        return item
    if isinstance(item, Mapping):
        return _from_mapping(item)
    if not isinstance(item, tuple | list) or len(item) not in (2, 3):
        raise TypeError(
            f"the loader gave a {type(item).__name__}: batches must be (x, y), (x, y, columns), or a dict with "
            "input_ids and labels"
        )
    x, y, *rest = item
    if rest and not isinstance(rest[0], Mapping):
        raise TypeError(f"the columns of a batch are a {type(rest[0]).__name__}: they must be {{name: values}}")
    columns = {str(name): values for name, values in (rest[0] if rest else {}).items()}
    given = columns.pop("utility", None)
    return _checked(_as_input(x), _as_labels(y), _as_words(columns), given)


def _as_labels(y: Any) -> Tensor:
    try:
        return torch.as_tensor(y)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"labels must be whole numbers, not {type(y).__name__} of {y!r:.40}") from None


def _from_mapping(item: Mapping[str, Any]) -> Batch:
    y = next((item[name] for name in _LABELS if name in item), None)
    if y is None:
        raise TypeError(f"a batch has no labels: {', '.join(map(str, item))} hold none of {', '.join(_LABELS)}")
    if "input_ids" in item:
        ids = torch.as_tensor(item["input_ids"])
        mask = torch.as_tensor(item["attention_mask"]) if "attention_mask" in item else torch.ones_like(ids)
        special = item.get("special_tokens_mask")
        return _checked(Tokens(ids, mask, None if special is None else torch.as_tensor(special)), torch.as_tensor(y))
    if "pixel_values" in item:
        return _checked(_as_input(item["pixel_values"]), torch.as_tensor(y))
    raise TypeError(f"a batch of {', '.join(map(str, item))} has neither input_ids nor pixel_values")


def _as_input(x: Any) -> Input:
    if isinstance(x, Tokens):
        return x
    if not isinstance(x, Tensor):
        raise TypeError(f"x is a {type(x).__name__}: it must be a tensor, or poise.Tokens for text")
    return x.float() / 255 if x.dtype == torch.uint8 else x


def _as_words(columns: dict[str, Any]) -> dict[str, list[str]]:
    """One word per example; tensors and arrays by their numbers."""
    for name, values in columns.items():
        if not hasattr(values, "__iter__"):
            raise TypeError(f"column {name!r} is a {type(values).__name__}: give one value per example")
    return {name: [str(v) for v in (c.tolist() if hasattr(c, "tolist") else c)] for name, c in columns.items()}


def _checked(x: Input, y: Tensor, columns: dict[str, list[str]] | None = None, given: Tensor | None = None) -> Batch:
    if y.ndim != 1 or y.is_floating_point() or len(y) != len(x):
        raise ValueError(f"labels must be whole numbers, one for each of the {len(x)} examples; got {list(y.shape)}")
    for name, values in (columns or {}).items():
        if len(values) != len(y):
            raise ValueError(f"column {name!r} has {len(values)} values for {len(y)} examples")
    if given is not None and not isinstance(given, Tensor):
        raise TypeError(f"utility is a {type(given).__name__}: give a tensor {list(shape_of(x))}")
    if given is not None and given.shape != shape_of(x):
        raise ValueError(f"utility has shape {list(given.shape)}, but the features have {list(shape_of(x))}")
    held = dict(columns or {})
    return Batch(x, y.long(), held, given, held.pop("source", None))


def _moved(batch: Batch, device: torch.device) -> Batch:
    given = None if batch.given is None else batch.given.to(device)
    x = batch.x.to(device)
    if isinstance(x, Tensor) and x.dtype in _OTHER_PRECISIONS:
        x = x.float()  # as the model is audited
    return Batch(x, batch.y.to(device), batch.columns, given, batch.sources)


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


class DamagedExample(AuditError):
    """One example that cannot be read."""


@dataclass(frozen=True, eq=False)
class AuditExamples:
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
    default_names: Sequence[str] = ()
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
        except DamagedExample:
            pass
        kept = []
        for row in rows:
            try:
                kept.append((row, self.read([row])))
            except DamagedExample as error:
                self.damaged[self.source(row)] = str(error)
        return [row for row, _ in kept], torch.cat([x for _, x in kept]) if kept else None


SETS = ("sst2",)


def is_text(source: str) -> bool:
    """Whether the word means sentences."""
    return source in SETS or Path(source).suffix in (".tsv", ".csv", ".jsonl", ".ndjson")
