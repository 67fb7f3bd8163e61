"""Sets that are decoded as they are read (`Ahead` says how), as sets to train on and to test.

A step captured in a CUDA graph reads one place on the device, to which `feed` brings batch after batch as bytes; they
are scaled to [0, 1] and augmented there, and the model normalises. A damaged picture is left out; another one of its
batch stands in for it, so that a batch has one size always.

Axes: N pictures, B of a batch, S batches, H rows, W columns.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from poise.data.ahead import NOTHING_WHOLE, Ahead, decoded
from poise.data.augment import Augmentation
from poise.data.errors import DataMismatch
from poise.data.imagenet import CentreCrop, PictureSet, RandomCrop, Source
from poise.data.loader import Batches, to_unit

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
