"""Shown: the images that every model of an evaluation sees, as bytes [B, 3, H, W], batch by batch.

They are decoded once, in threads. If they fit into the memory allowed they are kept, else they are decoded again for
each test set. So memory stays bounded, whatever the size of the set. Damaged images are left out and named.

Axes: N examples, B of a batch, H rows, W columns.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from torch import Tensor

from poise.corruptions.corrupt import require_range
from poise.errors import AuditError
from poise.inputs.examples import AuditExamples, Batch, batches

MEMORY = 1 << 30  # bytes of decoded images to keep
AT_ONCE = 100  # images of a batch
Report = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class Shown:
    """The selected images of a set.

    labels  [N], as the models number them.
    rows    [N], the place of each in the whole set of `total`; it chooses the random draws.
    groups  {column: the value of each example}, for the worst group.
    size    (height, width).
    digest  of all pixels and labels.
    read    rows → bytes; without it, `again` yields all batches once more.
    """

    name: str
    labels: Tensor
    rows: list[int]
    total: int
    classes: Sequence[str]
    size: tuple[int, int]
    digest: str
    read: Callable[[Sequence[int]], Tensor] = field(repr=False)
    groups: dict[str, list[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    workers: int = 1
    again: Callable[[], Iterator[Tensor]] | None = field(default=None, repr=False)
    held: Tensor | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.labels)

    def batches(self, at_once: int = AT_ONCE) -> Iterator[tuple[int, Tensor]]:
        """(the place of its first image, bytes [B, 3, H, W]) of each batch."""
        starts = range(0, len(self), at_once)
        if self.held is not None:
            yield from ((start, self.held[start : start + at_once]) for start in starts)
            return
        if self.again is not None:
            start = 0
            for pixels in self.again():
                yield start, pixels
                start += len(pixels)
            return
        parts = [self.rows[start : start + at_once] for start in starts]
        yield from zip(starts, ahead(self.read, parts, self.workers), strict=True)


def decode_all(
    found: AuditExamples,
    rows: Sequence[int],
    workers: int = 1,
    memory: int = MEMORY,
    progress: Report | None = None,
) -> Shown:
    """Decode the examples at these rows; AuditError if there is none, or if they are no images."""
    digest, kept, size, used = sha256(), list[int](), (0, 0), 0
    parts = [list(rows[start : start + AT_ONCE]) for start in range(0, len(rows), AT_ONCE)]
    whole: list[Tensor] | None = []
    for number, (part, x) in enumerate(ahead(found.readable, parts, workers)):
        if progress is not None:
            progress("reading", number * AT_ONCE, len(rows))
        if x is None:
            continue
        pixels = as_pixels(x, found.name)
        size = size if kept else (int(pixels.shape[2]), int(pixels.shape[3]))
        kept += part
        digest.update(pixels.contiguous().numpy().tobytes())
        used += pixels.numel()
        whole = whole if used <= memory and whole is not None else None
        if whole is not None:
            whole.append(pixels)
    if not kept:
        raise AuditError(
            f"{found.name} has no image that can be read: {next(iter(found.damaged.values()), 'it is empty')}"
        )
    labels = torch.from_numpy(found.labels[kept].astype(np.int64))
    digest.update(labels.numpy().tobytes())
    return Shown(
        name=found.name,
        labels=labels,
        rows=kept,
        total=len(found),
        classes=found.classes,
        size=size,
        digest=digest.hexdigest(),
        read=lambda part: as_pixels(found.read(part), found.name),
        groups={name: [values[row] for row in kept] for name, values in found.columns.items()},
        notes=(*found.notes, *found.left_out()),
        workers=workers,
        held=None if whole is None else torch.cat(whole),
    )


def from_loader(loader: Iterable[Any], limit: int | None = None, memory: int = MEMORY) -> Shown:
    """The images of a loader of (x, y); one that does not fit into memory is run again for every test set."""
    cpu, most = torch.device("cpu"), limit or sys.maxsize
    prints, labels, parts, used = list[bytes](), list[Tensor](), list[Tensor](), 0
    for batch in batches(loader, cpu, most):
        pixels = _tensor_pixels(batch)
        prints.append(_print(pixels))
        labels.append(batch.y)
        used += pixels.numel()
        parts = [*parts, pixels] if used <= memory else []
        size = int(pixels.shape[2]), int(pixels.shape[3])
    if not labels:
        raise AuditError("the loader has no examples")

    def again() -> Iterator[Tensor]:
        for number, batch in enumerate(batches(loader, cpu, most)):
            pixels = _tensor_pixels(batch)
            if number >= len(prints) or _print(pixels) != prints[number]:
                raise AuditError(
                    "the loader returned other images the second time: use shuffle=False, and no random change"
                )
            yield pixels

    y = torch.cat(labels)
    digest = sha256(b"".join(prints) + y.numpy().tobytes()).hexdigest()
    rows = list(range(len(y)))
    held = torch.cat(parts) if used <= memory else None
    return Shown(
        "the loader", y, rows, len(y), (), size, digest, _nothing, again=None if held is not None else again, held=held
    )


def _nothing(rows: Sequence[int]) -> Tensor:
    raise AuditError("a loader has no access by row")


def _tensor_pixels(batch: Batch) -> Tensor:
    if not isinstance(batch.x, Tensor):
        raise AuditError("the loader returns text: an evaluation needs images")
    return as_pixels(batch.x, "the loader")


def _print(pixels: Tensor) -> bytes:
    return sha256(pixels.contiguous().numpy().tobytes()).digest()


def as_pixels(x: Tensor, name: str) -> Tensor:
    """Images [B, 1 or 3, H, W] in [0, 1] as bytes [B, 3, H, W]; AuditError for anything else."""
    if x.ndim != 4 or x.shape[1] not in (1, 3):
        raise AuditError(f"{name} has examples {list(x.shape[1:])}: an evaluation needs images, grey or RGB")
    if min(x.shape[2:]) < 1:
        raise AuditError(f"{name} has images of {x.shape[2]} x {x.shape[3]} pixels")
    try:
        require_range(x)
    except ValueError:
        raise AuditError(
            f"{name} has values outside [0, 1]: save the images as bytes, or as floats in [0, 1]"
        ) from None
    return x.mul(255).round().to(torch.uint8).expand(-1, 3, -1, -1)


def ahead(read: Callable[[Any], Any], parts: Sequence[Any], workers: int) -> Iterator[Any]:
    """read(part) for each part in order, computed in threads up to `workers` parts ahead."""
    if workers < 1:
        yield from map(read, parts)
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[Any]] = deque()
        try:
            for part in parts:
                waiting.append(pool.submit(read, part))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for each in waiting:
                each.cancel()
