"""Batches put together ahead of the loop that asks for them.

workers     decode and crop chunks of a batch      uint8 [n, H, W, 3]
a thread    puts them together, in pinned memory   uint8 [B, H, W, 3]
the device  copies a batch while it computes on the one before
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from poise.data.errors import DataError, DataMismatch
from poise.data.imagenet import Damaged, Example, PictureSet

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
