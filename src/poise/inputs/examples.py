"""Labelled examples: batches of a loader, data sets read on demand, and tables of text.

Batches are (x, y), (x, y, columns), or dicts in the style of Hugging Face. Tables of text are TSV and CSV files with a
header, or JSONL files with one object per line.

Axes: N examples, B of them, *D features of one example.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
FARTHEST = 16.0  # above any value of a normalized image
_CPU_EXAMPLES = {"pictures": 100, "text": 300, "table": 1000}


@dataclass(frozen=True, eq=False)
class Batch:
    """A batch of labelled examples.

    columns  other values of each example, {name: one value per example}, such as a site.
    given    the utility [B, *D] that the user provides.
    sources  the origin of each example: a file, or "row 17".
    """

    x: Input
    y: Tensor
    columns: dict[str, list[str]]
    given: Tensor | None = None
    sources: list[str] | None = None

    def __len__(self) -> int:
        return len(self.y)

    def rows(self, part: slice) -> Batch:
        """A slice of the batch."""
        columns = {name: values[part] for name, values in self.columns.items()}
        given, sources = (None if held is None else held[part] for held in (self.given, self.sources))
        return Batch(self.x[part], self.y[part], columns, given, sources)  # type: ignore[arg-type]


def kind_of(x: Input) -> Kind:
    if not isinstance(x, Tensor):
        return "text"
    return "table" if x.ndim == 2 else "pictures"


def sample_size(kind: Kind, device: torch.device) -> int:
    """The default number of examples; on a CPU, as many as take minutes."""
    return _CPU_EXAMPLES[kind] if device.type == "cpu" else 1000


def batches(loader: Iterable[Any], device: torch.device, limit: int | None) -> Iterator[Batch]:
    """The loader's batches on the device, up to `limit` examples in total, or the default number."""
    left = limit
    for item in loader:
        batch = _as_batch(item)
        require_finite(batch)
        require_unit_range(batch.x)
        batch = _moved(batch, device)
        left = sample_size(kind_of(batch.x), device) if left is None else left
        batch = batch.rows(slice(0, left))
        left -= len(batch)
        if len(batch):
            yield batch
        if left == 0:
            return


def require_finite(batch: Batch) -> None:
    """Raise ValueError with the first example that has nan or infinite values."""
    if isinstance(batch.x, Tokens) or not batch.x.is_floating_point():
        return
    wrong = (~batch.x.flatten(1).isfinite().all(1)).nonzero().flatten().tolist()
    if wrong:
        sources = batch.sources or []
        which = sources[wrong[0]] if sources else f"example {wrong[0]} of a batch"
        raise ValueError(f"the data contain values that are not finite, such as {which}: replace or remove them")


def _as_batch(item: Any) -> Batch:
    if isinstance(item, Batch):
        return item
    if isinstance(item, Mapping):
        return _from_mapping(item)
    if not isinstance(item, tuple | list) or len(item) not in (2, 3):
        raise TypeError(
            f"batches must be (x, y), (x, y, columns), or a dict with input_ids and labels, got {type(item).__name__}"
        )
    x, y, *rest = item
    if rest and not isinstance(rest[0], Mapping):
        raise TypeError(f"the columns of a batch must be {{name: values}}, got {type(rest[0]).__name__}")
    columns = {str(name): values for name, values in (rest[0] if rest else {}).items()}
    given = columns.pop("utility", None)
    return _checked(_as_input(x), _as_labels(y), _as_words(columns), given)


def _as_labels(y: Any) -> Tensor:
    try:
        return torch.as_tensor(y)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"labels must be whole numbers, got {type(y).__name__} {y!r:.40}") from None


def _from_mapping(item: Mapping[str, Any]) -> Batch:
    y = next((item[name] for name in _LABELS if name in item), None)
    if y is None:
        raise TypeError(
            f"a batch has no labels: name them one of {', '.join(_LABELS)}; got {', '.join(map(str, item))}"
        )
    if "input_ids" in item:
        ids = torch.as_tensor(item["input_ids"])
        mask = torch.as_tensor(item["attention_mask"]) if "attention_mask" in item else torch.ones_like(ids)
        special = item.get("special_tokens_mask")
        return _checked(Tokens(ids, mask, None if special is None else torch.as_tensor(special)), torch.as_tensor(y))
    if "pixel_values" in item:
        return _checked(_as_input(item["pixel_values"]), torch.as_tensor(y))
    raise TypeError(f"a batch must have input_ids or pixel_values, got {', '.join(map(str, item))}")


def _as_input(x: Any) -> Input:
    if isinstance(x, Tokens):
        return x
    if not isinstance(x, Tensor):
        raise TypeError(f"x must be a tensor, or poise.Tokens for text, got {type(x).__name__}")
    if x.dtype != torch.uint8 and not x.is_floating_point():
        raise TypeError(
            f"x is {x.dtype}: pass images as uint8 or as floats in [0, 1], tables as floats, and text as poise.Tokens"
        )
    return x.float() / 255 if x.dtype == torch.uint8 else x


def require_unit_range(x: Input) -> None:
    """Raise ValueError for images with values up to 255, since the noise is for images in [0, 1]."""
    if isinstance(x, Tensor) and x.ndim == 4 and x.shape[1] in (1, 3) and x.min() >= 0 and x.max() > FARTHEST:
        raise ValueError(
            f"the images have values up to {float(x.max()):.4g}, must be in [0, 1]: divide them by 255, and "
            "multiply by 255 inside the model if it was trained so"
        )


def _as_words(columns: dict[str, Any]) -> dict[str, list[str]]:
    """Columns as strings, one per example."""
    for name, values in columns.items():
        if not hasattr(values, "__iter__"):
            raise TypeError(f"column {name!r} must have one value per example, got {type(values).__name__}")
    return {name: [str(v) for v in (c.tolist() if hasattr(c, "tolist") else c)] for name, c in columns.items()}


def _checked(x: Input, y: Tensor, columns: dict[str, list[str]] | None = None, given: Tensor | None = None) -> Batch:
    if y.is_floating_point() or y.ndim == 2:
        one_hot = y.ndim == 2 and y.shape[1] > 1
        how = "convert one-hot rows with y.argmax(1)" if one_hot else "turn the target of a regression into classes"
        raise ValueError(f"labels are {y.dtype} {list(y.shape)}, must be the numbers of classes, [{len(x)}]: {how}")
    if y.ndim != 1 or len(y) != len(x):
        raise ValueError(f"labels must be whole numbers, one for each of the {len(x)} examples; got {list(y.shape)}")
    for name, values in (columns or {}).items():
        if len(values) != len(y):
            raise ValueError(f"column {name!r} has {len(values)} values for {len(y)} examples")
    if given is not None and not isinstance(given, Tensor):
        raise TypeError(f"utility must be a tensor {list(shape_of(x))}, got {type(given).__name__}")
    if given is not None and given.shape != shape_of(x):
        raise ValueError(f"utility must have the shape of x, {list(shape_of(x))}, got {list(given.shape)}")
    held = dict(columns or {})
    return Batch(x, y.long(), held, given, held.pop("source", None))


def _moved(batch: Batch, device: torch.device) -> Batch:
    given = None if batch.given is None else batch.given.to(device)
    x = batch.x.to(device)
    if isinstance(x, Tensor) and x.dtype in _OTHER_PRECISIONS:
        x = x.float()  # the precision of the audited model
    return Batch(x, batch.y.to(device), batch.columns, given, batch.sources)


Columns = dict[str, list[str]]
_DELIMITED = (".tsv", ".csv")


def read_rows(path: Path) -> Columns:
    """{column: one string per row}; AuditError names an invalid line."""
    if path.suffix not in (*_DELIMITED, ".jsonl", ".ndjson"):
        raise AuditError(f"{path} must be a .tsv, .csv or .jsonl file")
    try:
        with regular(path).open(encoding="utf-8-sig", newline="") as stream:
            rows = _delimited(stream, path) if path.suffix in _DELIMITED else _objects(stream, path)
    except OSError as error:
        raise AuditError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise AuditError(f"{path} is not encoded in UTF-8: convert it") from None
    if not rows:
        raise AuditError(f"{path} has no rows")
    names = list(rows[0])
    for number, row in enumerate(rows):
        if list(row) != names and set(row) != set(names):
            raise AuditError(
                f"{path}: row {number + 1} has the columns {', '.join(row)}, the first row {', '.join(names)}"
            )
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
            raise AuditError(f"{path}: line {number + 2} has {len(row)} fields, the header has {len(head)}")
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
            raise AuditError(f"{path}: line {number + 1} is not a JSON object")
        rows.append({str(name): str(value) for name, value in row.items()})
    return rows


_BATCH = 16
_NAMED = 3  # most skipped images to name


class DamagedExample(AuditError):
    """An example cannot be read."""


@dataclass(frozen=True, eq=False)
class AuditExamples:
    """Labelled images or rows of a table, read on demand.

    labels         [N].
    columns        {name: one value per example}.
    read           rows → images [B, C, H, W] in [0, 1], or a table [B, F].
    source         row → its file, or its number.
    given          rows → the utility [B, *D] that came with the data.
    scale          mean and deviation [F] of a table's columns; `read` standardizes them.
    features       the names of a table's columns.
    default_names  the names of numbered classes, unless the user provides others.
    notes          sentences about the preparation of the data.
    damaged        {source: error} of the examples that could not be read so far.
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
        """These rows in order, without those that cannot be read."""
        for start in range(0, len(rows), size):
            part, x = self.readable(list(rows[start : start + size]))
            if x is None:
                continue
            columns = {name: [values[row] for row in part] for name, values in self.columns.items()}
            y = torch.from_numpy(self.labels[part].astype(np.int64))
            given = None if self.given is None else self.given(part)
            found = Batch(x, y, columns, given, [self.source(row) for row in part])
            require_finite(found)
            yield found

    def first(self, rows: Sequence[int]) -> Batch:
        """The first example that can be read."""
        found = next(iter(self.batches(rows, 1)), None)
        if found is None:
            why = f"no readable examples: {next(iter(self.damaged.values()))}" if self.damaged else "no examples"
            raise AuditError(f"{self.name} has {why}")
        return found

    def left_out(self) -> list[str]:
        """A note on the examples that could not be read."""
        if not self.damaged:
            return []
        named = ", ".join(list(self.damaged)[:_NAMED]) + (", …" if len(self.damaged) > _NAMED else "")
        what = "image" if len(self.damaged) == 1 else "images"
        return [f"skipped {len(self.damaged)} {what} that could not be read: {named}"]

    def readable(self, rows: list[int]) -> tuple[list[int], Tensor | None]:
        """Those of the rows that can be read, with their values; the others are noted in `damaged`."""
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


def sample(count: int, wanted: int, seed: int) -> list[int]:
    """`wanted` of `count` rows at random; a seed determines them."""
    order = np.random.default_rng(seed).permutation(count)
    return [int(row) for row in order[: min(wanted, count)]]


def counted_classes(count: int) -> str:
    return "2 classes (a single output counts as two)" if count == 2 else f"{count} classes"


def match_classes(found: AuditExamples, names: Sequence[str], num_classes: int) -> AuditExamples:
    """Map labels to the classes of the model: by name if its names are known, else in order.

    A folder with a different number of classes needs the names.
    """
    if names and len(names) != num_classes:
        raise AuditError(f"got {len(names)} class names, but the model has {num_classes} classes")
    if names and set(found.classes) <= set(names):
        places = np.array([list(names).index(name) for name in found.classes])
        return replace(found, labels=places[found.labels], classes=list(names))
    numbered = list(found.classes) == [str(place) for place in range(len(found.classes))]
    if int(found.labels.max(initial=0)) >= num_classes:
        raise AuditError(
            f"{found.name} has label {found.labels.max()}, but the model has {counted_classes(num_classes)}"
        )
    if numbered:
        class_names = names or (found.default_names if len(found.default_names) == num_classes else found.classes)
        return replace(found, classes=list(class_names))
    if len(found.classes) != num_classes:
        raise AuditError(
            f"{found.name} has {_folders(len(found.classes))}, the model {num_classes} classes: name its classes with "
            "--classes FILE, one per line in the order of the model, and name the folders after them"
        )
    return found


def _folders(count: int) -> str:
    return "1 class folder" if count == 1 else f"{count} class folders"


def read_lines(path: Path) -> list[str]:
    try:
        return [line.strip() for line in regular(path).read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise AuditError(f"{path} cannot be read: {error}") from None


SETS = ("sst2",)


def is_text(source: str) -> bool:
    """Whether a source of data contains sentences."""
    return source in SETS or Path(source).suffix in (".tsv", ".csv", ".jsonl", ".ndjson")
