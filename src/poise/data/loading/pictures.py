"""Streamed images: decode and crop them in worker processes, and prepare batches in advance, to train and to test.

    workers     decode and crop chunks of a batch      uint8 [n, H, W, 3]
    a thread    combines them in pinned memory         uint8 [B, H, W, 3]
    the device  copies a batch while it computes on the one before

The crop and the flip of an image depend on (seed, epoch, index) only, and the order on (seed, epoch). So any number of
workers gives the same epoch, and it can be continued from any batch. In a loop of your own:

    train = PictureSet(imagenet_part(folder, "train"), RandomCrop())
    for x, y in stream_epoch(train, 256, epoch=0, workers=8): ...

`StreamLoader` feeds such epochs to the training loop. A step captured in a CUDA graph reads its batch from a fixed
address on the device, to which `feed` copies one batch of bytes after the other. They are scaled to [0, 1] and
augmented there, and the model normalises. In training, a damaged image is replaced by another one of its batch, so that
all batches have the same size.

Axes: N images, B of a batch, S batches, H rows, W columns.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from math import exp, log, sqrt
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from poise.data.augment import Augmentation
from poise.data.loading.resident import Batches, require_batch_size, to_unit
from poise.data.sets.folders import Listing, PackedListing
from poise.errors import DataError, DataMismatch
from poise.io.decoding import open_picture
from poise.random import Stream

LOG = logging.getLogger("poise")
Chunk: TypeAlias = "tuple[Tensor, Tensor, Tensor, list[Damaged]]"
_CHUNK, _SLOTS = 64, 3
NONE_DECODED = "no image of a batch can be decoded: see the warnings for their names"
Change = Callable[[Tensor, Tensor], Tensor]
_EVALUATED, _FEW, _STRETCH = 100, 1000, 100


@dataclass(frozen=True)
class RandomCrop:
    """A random crop of 8 % to 100 % of the area with an aspect of 3/4 to 4/3, resized, and flipped half of the time."""

    size: int = 224
    area: tuple[float, float] = (0.08, 1.0)
    aspect: tuple[float, float] = (3 / 4, 4 / 3)

    def __call__(self, image: Any, stream: Stream) -> Any:
        box = self._box(image.width, image.height, stream)
        cropped = image.resize((self.size, self.size), resample=2, box=box)
        return cropped.transpose(0) if stream.uniform(1)[0] < 0.5 else cropped

    def _box(self, width: int, height: int, stream: Stream) -> tuple[float, float, float, float]:
        for _ in range(10):
            draws = stream.uniform(4)
            area = (self.area[0] + draws[0] * (self.area[1] - self.area[0])) * width * height
            aspect = exp(log(self.aspect[0]) + draws[1] * (log(self.aspect[1]) - log(self.aspect[0])))
            w, h = round(sqrt(area * aspect)), round(sqrt(area / aspect))
            if 0 < w <= width and 0 < h <= height:
                left, top = int(draws[2] * (width - w + 1)), int(draws[3] * (height - h + 1))
                return left, top, left + w, top + h
        side = min(width, height)
        left, top = (width - side) // 2, (height - side) // 2
        return left, top, left + side, top + side


@dataclass(frozen=True)
class CentreCrop:
    """Resize the shorter side to `resize` and crop the middle `size` x `size`, as in ImageNet-C."""

    size: int = 224
    resize: int = 256

    def __post_init__(self) -> None:
        if not 0 < self.size <= self.resize:
            raise ValueError(
                f"size={self.size} must lie between 1 and resize={self.resize}: a larger crop would have black borders"
            )

    def __call__(self, image: Any, stream: Stream | None = None) -> Any:
        width, height = (int(self.resize * side / min(image.size)) for side in image.size)
        large = image.resize((width, height), resample=2)
        left, top = round((width - self.size) / 2), round((height - self.size) / 2)
        return large.crop((left, top, left + self.size, top + self.size))


class Source(Protocol):
    """Encoded images with their labels: folders (`PackedListing`) or tar shards (`Shards`).

    classes  the name of each label.
    labels   int64 [N].
    """

    classes: tuple[str, ...]
    labels: np.ndarray

    def __len__(self) -> int: ...

    def name(self, index: int) -> Path:
        """The path of an image, for messages."""

    def read(self, index: int) -> bytes:
        """The bytes of an image file."""

    def order(self, seed: int, epoch: int) -> np.ndarray:
        """The order in which an epoch visits the images [N]."""


@dataclass(frozen=True)
class Damaged:
    """An image that cannot be decoded, with the decoder's error."""

    index: int
    reason: str


Decoded: TypeAlias = "tuple[Tensor, int] | Damaged"


class PictureSet(Dataset[Decoded]):
    """The images of a source, cropped; indexed by (epoch, index).

    damaged  {path: reason} of the images that were skipped so far; each is also logged once.
    """

    def __init__(self, source: Listing | Source, crop: RandomCrop | CentreCrop, seed: int = 0) -> None:
        self.source: Source = PackedListing(source) if isinstance(source, Listing) else source
        self.crop, self.seed = crop, seed
        self.damaged: dict[Path, str] = {}

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, place: tuple[int, int]) -> Decoded:
        """uint8 [3, H, W], channels last in memory, and its label."""
        epoch, index = place
        try:
            with open_picture(BytesIO(self.source.read(index))) as picture:
                image = picture.convert("RGB")
        except Exception as error:  # a decoder may raise anything for a damaged file
            reason = str(error).partition(" <_io.BytesIO")[0]  # without the address of the buffer
            return Damaged(index, f"{type(error).__name__}: {reason}")
        cropped = self.crop(image, Stream(self.seed, "crop", epoch, index))
        return torch.from_numpy(np.array(cropped)).permute(2, 0, 1), int(self.source.labels[index])

    def note(self, damaged: Sequence[Damaged]) -> None:
        """Add damaged images to `damaged`, and log new ones."""
        for each in damaged:
            path = self.source.name(each.index)
            if path not in self.damaged:
                LOG.warning("skipping damaged image %s (%s)", path, each.reason)
            self.damaged[path] = each.reason


@dataclass(frozen=True, eq=False)
class Pictures:
    """A streamed set to train on or to test.

    source   the encoded images and their labels.
    crop     how to crop them.
    workers  the number of processes that decode.
    change   applied to every test batch on the device: (uint8 [B, 3, H, W], index [B]) → the same shape.
    first    test only the first images, for a quick check.
    damaged  {path: reason} of the images that could not be decoded so far.
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
        """The dataset with the crops of a seed."""
        made = PictureSet(self.source, self.crop, seed)
        made.damaged = self.damaged
        return made

    def in_order(self, device: torch.device, first: int = 0, step: int = 1) -> Iterator[tuple[Tensor, Tensor]]:
        """Every image once, or every `step`-th from `first` on: uint8 [B, 3, H, W] and labels on the device.

        Raises DataMismatch if none of a hundred successive images can be decoded, as when a disk was removed.
        """
        pictures, rows = self.set(), range(first, len(self), step)
        chunks = [[(0, row) for row in rows[at : at + _EVALUATED]] for at in range(0, len(rows), _EVALUATED)]
        for chunk, (images, labels, places, damaged) in zip(
            chunks, decoded(pictures, chunks, self.workers), strict=True
        ):
            pictures.note(damaged)
            if len(damaged) == _EVALUATED:
                raise DataMismatch(NONE_DECODED)
            if len(labels) > 0:
                x, index = images.to(device).permute(0, 3, 1, 2), chunk[0][1] + step * places
                yield (x if self.change is None else self.change(x, index)), labels.to(device)


class StreamLoader:
    """Batches of streamed images for the training loop.

    labels   the labels of all images, on the device.
    layout   the memory format of a batch.
    stretch  the number of batches after which random draws are reseeded, so that a run can continue from there.
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
        require_batch_size(batch_size, len(pictures), "images")
        self.pictures, self.labels, self.batch_size = pictures, labels, batch_size
        self.augment, self.seed, self.layout, self.stretch = augment, seed, layout, stretch
        self.replicas = 1
        self._set = pictures.set(seed)
        self._images = self._labels = torch.empty(0)

    def __len__(self) -> int:
        """The number of full batches in an epoch; the examples left over differ from epoch to epoch."""
        return len(self.pictures) // self.batch_size

    @property
    def damaged(self) -> dict[Path, str]:
        return self.pictures.damaged

    def batches(self, number: int) -> Batches:
        order = torch.from_numpy(self.pictures.source.order(self.seed, number))
        rows = order[: len(self) * self.batch_size].view(len(self), self.batch_size)
        return Batches(rows.to(self.labels.device), (0,) * len(self))

    def batch(self, rows: Tensor, generator: torch.Generator, width: int = 0) -> tuple[Tensor, Tensor]:
        """The batch that `feed` loaded last, augmented with a generator on the device."""
        x = to_unit(self._images.permute(0, 3, 1, 2)).contiguous(memory_format=self.layout)
        return (x if self.augment is None else self.augment(x, generator)), self._labels

    def feed(self, number: int, rows: Tensor, start: int = 0) -> Iterator[None]:
        """Load the batches of these rows [S, B], from `start` on, for `batch`: one before each step."""
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


class Ahead:
    """Iterates over batches that a thread combines from the chunks of the workers."""

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
            slot.wait()  # not in the thread: it must not call CUDA while a graph is captured
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
        except Exception as error:  # a worker was killed, /dev/shm is full, a disk was removed
            self._give(
                DataError(f"decoding images failed ({type(error).__name__}: {error}): run the same command to continue")
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
            raise DataMismatch(NONE_DECODED)
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
    """A batch in host memory, pinned for a GPU, and the events after which it may be overwritten."""

    def __init__(self, size: int, side: int, device: torch.device) -> None:
        self.cuda = device.type == "cuda"
        self.images = torch.empty(size, side, side, 3, dtype=torch.uint8, pin_memory=self.cuda)
        self.pixels = self.images.numpy()  # written by numpy: torch would use all cores, which the workers need
        self.labels = torch.empty(size, dtype=torch.int64, pin_memory=self.cuda)
        self.staged = [each.to(device) for each in (self.images, self.labels)] if self.cuda else []
        self.side: Any = torch.cuda.Stream(device) if self.cuda else None  # type: ignore[no-untyped-call]
        self.read: Any = torch.cuda.Event() if self.cuda else None  # type: ignore[no-untyped-call]
        self.used: Any = torch.cuda.Event() if self.cuda else None  # type: ignore[no-untyped-call]

    def bring(self, images: Tensor, labels: Tensor) -> None:
        """Copy the batch to the device, on a separate stream during the previous step, then to the step's input."""
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
        """Wait until the device has read the batch."""
        if self.cuda:
            self.read.synchronize()


def decoded(pictures: PictureSet, chunks: list[list[tuple[int, int]]], workers: int) -> Iterator[Chunk]:
    """Iterate over decoded chunks. Workers start at once, in the calling thread, without torch's global generator."""
    loader = DataLoader(
        pictures, batch_sampler=chunks, num_workers=workers, collate_fn=_chunk, generator=torch.Generator()
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads do not survive a fork; workers need none
        return iter(loader)


def _chunk(examples: list[Decoded]) -> Chunk:
    """Collate a chunk: the intact examples with their positions in it, and the damaged ones."""
    whole = [(place, each) for place, each in enumerate(examples) if not isinstance(each, Damaged)]
    damaged = [each for each in examples if isinstance(each, Damaged)]
    images = torch.stack([each[0].permute(1, 2, 0) for _, each in whole]) if whole else torch.empty(0)
    labels = torch.tensor([each[1] for _, each in whole], dtype=torch.int64)
    return images, labels, torch.tensor([place for place, _ in whole], dtype=torch.int64), damaged


def stream_epoch(
    pictures: PictureSet, batch_size: int, epoch: int, start: int = 0, workers: int = 0
) -> Iterator[tuple[Tensor, Tensor]]:
    """The full batches of an epoch from batch `start` on: uint8 [B, 3, H, W] and labels [B].

    Damaged images are skipped, so their batch is smaller.
    """
    if not 0 < batch_size <= len(pictures) or start < 0:
        raise ValueError(
            f"batch_size={batch_size} must lie in 1..{len(pictures)}, and start={start} must be at least 0"
        )
    order = pictures.source.order(pictures.seed, epoch).tolist()
    yield from _whole(
        pictures, epoch, order[start * batch_size : len(order) // batch_size * batch_size], batch_size, workers
    )


def stream_in_order(pictures: PictureSet, batch_size: int, workers: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
    """All images once, in the order of the listing, for evaluation; the last batch may be smaller."""
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size} must be at least 1")
    yield from _whole(pictures, 0, range(len(pictures)), batch_size, workers)


def _whole(
    pictures: PictureSet, epoch: int, rows: Sequence[int], batch_size: int, workers: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of these rows, without the damaged images."""
    places = [(epoch, row) for row in rows]
    chunks = [places[at : at + batch_size] for at in range(0, len(places), batch_size)]
    for images, labels, _, damaged in decoded(pictures, chunks, workers):
        pictures.note(damaged)
        if len(labels) > 0:
            yield images.permute(0, 3, 1, 2), labels


def workers_for(count: int) -> int:
    """The number of processes to decode a set of `count` images: the available cores, divided by local processes."""
    if count < _FEW:
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
