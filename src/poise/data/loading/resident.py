"""Batches of a set that is stored on the device: uint8 in memory, augmented floats in [0, 1] out; floats stay floats.

The order of an epoch is a pure function of (seed, epoch), and the augmentation of a batch is one of (seed, epoch,
batch). So a run that was interrupted anywhere continues with the same batches.

Axes: N images, B of a batch, C channels, H rows, W columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from poise.data.augment import Augmentation
from poise.random import Stream
from poise.tokens import Input, Tokens


def epoch_order(count: int, seed: int, epoch: int) -> Tensor:
    """The order in which an epoch visits `count` examples [N]."""
    return torch.from_numpy(Stream(seed, "order", epoch).permutation(count))


def batch_seed(seed: int, epoch: int, batch: int) -> int:
    """The seed of all random draws in one batch."""
    return int(Stream(seed, "batch", epoch, batch).bits(1)[0] >> np.uint64(1))


def epoch_seed(seed: int, epoch: int, process: int = 0, stretch: int = 0) -> int:
    """The seed of all random draws of one process in one epoch, or in one stretch of it."""
    later = (stretch,) if stretch else ()
    return int(Stream(seed, "epoch", epoch, process, *later).bits(1)[0] >> np.uint64(2))


@dataclass(frozen=True, eq=False)
class Batches:
    """The batches of an epoch: the rows of each batch [S, B], on the device, and its width.

    Batches of equal width have equal shapes.
    """

    rows: Tensor
    widths: tuple[int, ...]


def require_batch_size(batch_size: int, count: int, what: str) -> None:
    """Raise ValueError unless a set of `count` examples fills a batch."""
    if not 0 < batch_size <= count:
        raise ValueError(f"batch_size={batch_size} must lie between 1 and the {count} {what}")


class Loader(Protocol):
    """The training data of a loop; all tensors are on the device of `labels`.

    replicas  the number of models trained at once; their rows alternate in every batch.
    stretch   the number of batches after which random draws are reseeded, so that a run can continue from there.
    damaged   {path: reason} of the images that were skipped so far.
    """

    @property
    def labels(self) -> Tensor: ...

    @property
    def batch_size(self) -> int: ...

    @property
    def seed(self) -> int: ...

    @property
    def replicas(self) -> int: ...

    @property
    def stretch(self) -> int: ...

    @property
    def damaged(self) -> dict[Path, str]: ...

    def __len__(self) -> int:
        """The number of batches in an epoch."""

    def batches(self, number: int) -> Batches:
        """The batches of an epoch, a pure function of (seed, number)."""

    def batch(self, rows: Tensor, generator: torch.Generator, width: int = 0) -> tuple[Input, Tensor]:
        """x and y of these rows, augmented with a generator on the device."""

    def feed(self, number: int, rows: Tensor, start: int = 0) -> Iterator[None]:
        """Load the batches of an epoch, rows [S, B], for `batch`: one before each step."""


class Resident:
    """A set that is on the device as a whole: nothing to load, and an interrupted epoch is short enough to restart."""

    def __len__(self) -> int:
        raise NotImplementedError

    @property
    def replicas(self) -> int:
        return 1

    @property
    def stretch(self) -> int:
        return len(self)

    @property
    def damaged(self) -> dict[Path, str]:
        return {}

    def feed(self, number: int, rows: Tensor, start: int = 0) -> Iterator[None]:
        return repeat(None)


@dataclass(frozen=True, eq=False)
class DeviceLoader(Resident):
    """images uint8 [N, C, H, W], or floats [N, *D], and labels [N] on one device; see `on_device`."""

    images: Tensor
    labels: Tensor
    batch_size: int
    augment: Augmentation | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        images = self.images.dtype == torch.uint8 and self.images.ndim == 4
        numbers = self.images.is_floating_point() and self.images.ndim > 1
        if not (images or numbers) or len(self.images) != len(self.labels):
            shapes = f"{self.images.dtype} {list(self.images.shape)} and {list(self.labels.shape)}"
            raise TypeError(f"images must be uint8 [N, C, H, W], or floats, with one label each, got {shapes}")
        require_batch_size(self.batch_size, len(self.images), "images")

    def __len__(self) -> int:
        """The number of full batches in an epoch; the examples left over differ from epoch to epoch."""
        return len(self.images) // self.batch_size

    def epoch(self, number: int, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of an epoch from batch `start` on: x [B, C, H, W] in [0, 1], y [B]."""
        if start < 0:
            raise ValueError(f"start={start} must not be negative")
        order, generator = self.order(number), torch.Generator(self.images.device)
        for batch in range(start, len(self)):
            rows = order[batch * self.batch_size : (batch + 1) * self.batch_size]
            yield self.batch(rows, generator.manual_seed(batch_seed(self.seed, number, batch)))

    def order(self, number: int) -> Tensor:
        """The rows of an epoch, on the device [N]."""
        return epoch_order(len(self.images), self.seed, number).to(self.images.device)

    def batches(self, number: int) -> Batches:
        """Successive rows of the order; widths are 0, since all images have the same shape."""
        rows = self.order(number)[: len(self) * self.batch_size].view(len(self), self.batch_size)
        return Batches(rows, (0,) * len(self))

    def batch(self, rows: Tensor, generator: torch.Generator, width: int = 0) -> tuple[Tensor, Tensor]:
        """x and y of these rows, augmented with a generator on the device."""
        x, y = to_unit(self.images[rows]), self.labels[rows]
        return (x if self.augment is None else self.augment(x, generator)), y

    def in_order(self, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """All examples once, without augmentation, for evaluation."""
        for start in range(0, len(self.images), batch_size):
            yield to_unit(self.images[start : start + batch_size]), self.labels[start : start + batch_size]


def on_device(
    images: np.ndarray | Tensor, labels: np.ndarray | Tensor, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Images and labels on a device: uint8 tensors [N, C, H, W] and int64 labels.

    images  arrays [N, H, W] or [N, H, W, C], which become channels_last, or tensors [N, C, H, W]; floats keep their
            shape.
    """
    if isinstance(images, np.ndarray):
        x = torch.from_numpy(np.array(images))
        images = x if x.is_floating_point() else x[:, None] if x.ndim == 3 else x.permute(0, 3, 1, 2)
    y = torch.from_numpy(np.array(labels)) if isinstance(labels, np.ndarray) else labels
    return images.to(device), y.long().to(device)


def to_unit(images: Tensor) -> Tensor:
    """uint8 → float32 in [0, 1]; floats are returned as they are."""
    return images if images.is_floating_point() else images.float().div_(255)


def as_read(rows: Input) -> Input:
    """The inputs of a model for rows on the device: floats for uint8 images, tokens unchanged."""
    return rows if isinstance(rows, Tokens) else to_unit(rows)
