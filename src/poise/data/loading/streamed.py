"""Sets that are decoded as they are read (`Ahead` says how), as sets to train on and to test.

A step captured in a CUDA graph reads one place on the device, to which `feed` brings batch after batch as bytes; they
are scaled to [0, 1] and augmented there, and the model normalises. A damaged picture is left out; another one of its
batch stands in for it, so that a batch has one size always.

Axes: N pictures, B of a batch, S batches, H rows, W columns.

Batches put together ahead of the loop that asks for them.

workers     decode and crop chunks of a batch      uint8 [n, H, W, 3]
a thread    puts them together, in pinned memory   uint8 [B, H, W, 3]
the device  copies a batch while it computes on the one before
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from poise.data.augment import Augmentation
from poise.data.loading.pictures import CentreCrop, Damaged, Example, PictureSet, RandomCrop, Source
from poise.data.loading.resident import Batches, to_unit
from poise.errors import DataError, DataMismatch

Chunk = tuple[Tensor, Tensor, Tensor, list[Damaged]]
_CHUNK, _SLOTS = 64, 3
NOTHING_WHOLE = "no picture of a whole batch can be decoded: see the warnings for their names"


class Ahead:
    """Iterates over batches that a thread puts together from what the workers decode."""

    def __init__(
        self, pictures: PictureSet, epoch: int, batches: list[list[int]], workers: int, device: torch.device
    ) -> None:
        self._pictures, self._count = pictures, len(batches)
        size = len(batches[0]) if batches else 0
        self._size, self._stopped = size, Event()
        self._free: Queue[_Slot] = Queue()
        self._ready: Queue[_Slot | Exception] = Queue(_SLOTS)
        for _ in range(min(_SLOTS, self._count)):
            self._free.put(_Slot(size, pictures.crop.size, device))
        chunks = [[(epoch, row) for row in rows[at : at + _CHUNK]] for rows in batches for at in range(0, size, _CHUNK)]
        chunk_by_chunk = decoded(pictures, chunks, workers)
        self._thread = Thread(target=self._work, args=(chunk_by_chunk,), daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[_Slot]:
        for _ in range(self._count):
            slot = self._ready.get()
            if isinstance(slot, Exception):
                raise slot
            yield slot
            slot.wait()  # here: the thread may not call CUDA, since a graph may be captured meanwhile
            self._free.put(slot)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _work(self, chunks: Iterator[Chunk]) -> None:
        try:
            for _ in range(self._count):
                slot = self._take()
                if slot is None:
                    return
                self._fill(slot, chunks)
                self._give(slot)
        except DataError as error:
            self._give(error)
        except Exception as error:  # a worker that died, a full /dev/shm, a disk that is gone
            self._give(
                DataError(
                    f"pictures are no longer decoded ({type(error).__name__}: {error}): "
                    "run the same command to continue"
                )
            )

    def _fill(self, slot: _Slot, chunks: Iterator[Chunk]) -> None:
        filled, seen = 0, 0
        while seen < self._size:
            images, labels, _, damaged = next(chunks)
            self._pictures.note(damaged)
            seen += len(labels) + len(damaged)
            if len(labels) > 0:
                slot.pixels[filled : filled + len(labels)] = images.numpy()
                slot.labels[filled : filled + len(labels)] = labels
                filled += len(labels)
        if filled == 0:
            raise DataMismatch(NOTHING_WHOLE)
        if filled < self._size:
            stand_in = torch.arange(self._size - filled) % filled
            slot.images[filled:], slot.labels[filled:] = slot.images[stand_in], slot.labels[stand_in]

    def _take(self) -> _Slot | None:
        while not self._stopped.is_set():
            with suppress(Empty):
                return self._free.get(timeout=0.1)
        return None

    def _give(self, slot: _Slot | Exception) -> None:
        while not self._stopped.is_set():
            with suppress(Full):
                self._ready.put(slot, timeout=0.1)
                return


class _Slot:
    """A batch in host memory, pinned where there is a GPU, and the events after which it may be written again."""

    def __init__(self, size: int, side: int, device: torch.device) -> None:
        self.cuda = device.type == "cuda"
        self.images = torch.empty(size, side, side, 3, dtype=torch.uint8, pin_memory=self.cuda)
        self.pixels = self.images.numpy()  # to write: torch would wake a thread on every core, which has to decode
        self.labels = torch.empty(size, dtype=torch.int64, pin_memory=self.cuda)
        self.staged = [each.to(device) for each in (self.images, self.labels)] if self.cuda else []
        self.side: Any = torch.cuda.Stream(device) if self.cuda else None  # type: ignore[no-untyped-call]
        self.read: Any = torch.cuda.Event() if self.cuda else None  # type: ignore[no-untyped-call]
        self.used: Any = torch.cuda.Event() if self.cuda else None  # type: ignore[no-untyped-call]

    def bring(self, images: Tensor, labels: Tensor) -> None:
        """To the device on a stream of its own, while the step before computes; then to the place the step reads."""
        if not self.cuda:
            images.copy_(self.images)
            labels.copy_(self.labels)
            return
        main = torch.cuda.current_stream(images.device)
        self.side.wait_event(self.used)
        with torch.cuda.stream(self.side):
            self.staged[0].copy_(self.images, non_blocking=True)
            self.staged[1].copy_(self.labels, non_blocking=True)
            self.read.record(self.side)
        main.wait_event(self.read)
        images.copy_(self.staged[0])
        labels.copy_(self.staged[1])
        self.used.record(main)

    def wait(self) -> None:
        """Until the device has read it."""
        if self.cuda:
            self.read.synchronize()


def decoded(pictures: PictureSet, chunks: list[list[tuple[int, int]]], workers: int) -> Iterator[Chunk]:
    """Chunk after chunk. The workers begin at once, in the thread that asks; draws of the caller's are left alone."""
    loader = DataLoader(
        pictures, batch_sampler=chunks, num_workers=workers, collate_fn=_chunk, generator=torch.Generator()
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that threads do not survive a fork: none is needed
        return iter(loader)


def _chunk(examples: list[Example]) -> Chunk:
    """What is whole, with its places among the others, and what is damaged."""
    whole = [(place, each) for place, each in enumerate(examples) if not isinstance(each, Damaged)]
    damaged = [each for each in examples if isinstance(each, Damaged)]
    images = torch.stack([each[0].permute(1, 2, 0) for _, each in whole]) if whole else torch.empty(0)
    labels = torch.tensor([each[1] for _, each in whole], dtype=torch.int64)
    return images, labels, torch.tensor([place for place, _ in whole], dtype=torch.int64), damaged


Change = Callable[[Tensor, Tensor], Tensor]
_EVALUATED, _FEW, _STRETCH = 100, 1000, 100


@dataclass(frozen=True, eq=False)
class Pictures:
    """A set to train on or to test.

    workers  processes that decode.
    change   made of every batch to test, on the device: (uint8 [B, 3, H, W], index [B]) → the same shape.
    first    only so many pictures to test, for a quick look.
    damaged  {path: reason} of what could not be decoded, as it is met.
    """

    source: Source
    crop: RandomCrop | CentreCrop
    workers: int = 0
    change: Change | None = None
    first: int | None = None
    damaged: dict[Path, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.source) if self.first is None else min(self.first, len(self.source))

    def set(self, seed: int = 0) -> PictureSet:
        """With the crops of a seed."""
        made = PictureSet(self.source, self.crop, seed)
        made.damaged = self.damaged
        return made

    def in_order(self, device: torch.device, first: int = 0, step: int = 1) -> Iterator[tuple[Tensor, Tensor]]:
        """Every picture once, or every `step`-th from `first` on: uint8 [B, 3, H, W] and labels on the device.

        A DataMismatch where not one of a hundred can be decoded: then it is the disk that is gone.
        """
        pictures, rows = self.set(), range(first, len(self), step)
        chunks = [[(0, row) for row in rows[at : at + _EVALUATED]] for at in range(0, len(rows), _EVALUATED)]
        for chunk, (images, labels, places, damaged) in zip(
            chunks, decoded(pictures, chunks, self.workers), strict=True
        ):
            pictures.note(damaged)
            if len(damaged) == _EVALUATED:
                raise DataMismatch(NOTHING_WHOLE)
            if len(labels) > 0:
                x, index = images.to(device).permute(0, 3, 1, 2), chunk[0][1] + step * places
                yield (x if self.change is None else self.change(x, index)), labels.to(device)


class StreamLoader:
    """Batches of pictures for the training loop; `labels` of all of them lie on its device.

    layout   the memory format of a batch.
    stretch  batches after which all that is random is seeded anew: a run goes on from any of these places.
    """

    def __init__(
        self,
        pictures: Pictures,
        labels: Tensor,
        batch_size: int,
        augment: Augmentation | None = None,
        seed: int = 0,
        layout: torch.memory_format = torch.contiguous_format,
        stretch: int = _STRETCH,
    ) -> None:
        if not 0 < batch_size <= len(pictures):
            raise ValueError(f"batch_size={batch_size} must lie between 1 and the {len(pictures)} pictures")
        self.pictures, self.labels, self.batch_size = pictures, labels, batch_size
        self.augment, self.seed, self.layout, self.stretch = augment, seed, layout, stretch
        self.replicas = 1
        self._set = pictures.set(seed)
        self._images = self._labels = torch.empty(0)

    def __len__(self) -> int:
        """Whole batches of an epoch; what is left over comes in another epoch's order."""
        return len(self.pictures) // self.batch_size

    @property
    def damaged(self) -> dict[Path, str]:
        return self.pictures.damaged

    def batches(self, number: int) -> Batches:
        order = torch.from_numpy(self.pictures.source.order(self.seed, number))
        rows = order[: len(self) * self.batch_size].view(len(self), self.batch_size)
        return Batches(rows.to(self.labels.device), (0,) * len(self))

    def batch(self, rows: Tensor, generator: torch.Generator, width: int = 0) -> tuple[Tensor, Tensor]:
        """What was fed last, augmented by a generator on the device."""
        x = to_unit(self._images.permute(0, 3, 1, 2)).contiguous(memory_format=self.layout)
        return (x if self.augment is None else self.augment(x, generator)), self._labels

    def feed(self, number: int, rows: Tensor, start: int = 0) -> Iterator[None]:
        """Bring the batches of these rows [S, B], from `start` on, to where `batch` finds them, one at a time."""
        device, size = self.labels.device, rows.shape[1]
        side = self.pictures.crop.size
        if len(self._images) != size:
            self._images = torch.zeros(size, side, side, 3, dtype=torch.uint8, device=device)
            self._labels = torch.zeros(size, dtype=torch.int64, device=device)
        ahead = Ahead(self._set, number, rows[start:].tolist(), self.pictures.workers, device)
        try:
            for slot in ahead:
                slot.bring(self._images, self._labels)
                yield
        finally:
            ahead.stop()


def workers_for(count: int) -> int:
    """Processes to decode a set of so many pictures: the cores we may use, shared with our peers on the machine."""
    if count < _FEW:
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
