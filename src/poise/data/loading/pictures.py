"""Streamed images: decode and crop them in worker processes, as uint8 batches.

    train = PictureSet(imagenet_part(folder, "train"), RandomCrop())
    for x, y in stream_epoch(train, 256, epoch=0, workers=8): ...

The crop and the flip of an image depend on (seed, epoch, index) only, and the order on (seed, epoch). So any number of
workers gives the same epoch, and it can be continued from any batch. `StreamLoader` (streamed.py) feeds such epochs to
the training loop.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from math import exp, log, sqrt
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from poise.data.sets.folders import Listing, PackedListing
from poise.io.decoding import open_picture
from poise.random import Stream

LOG = logging.getLogger("poise")


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

    def __call__(self, image: Any, stream: Stream) -> Any:
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


Example: TypeAlias = "tuple[Tensor, int] | Damaged"


class PictureSet(Dataset[Example]):
    """The images of a source, cropped; indexed by (epoch, index).

    damaged  {path: reason} of the images that were skipped so far; each is also logged once.
    """

    def __init__(self, source: Listing | Source, crop: RandomCrop | CentreCrop, seed: int = 0) -> None:
        self.source: Source = PackedListing(source) if isinstance(source, Listing) else source
        self.crop, self.seed = crop, seed
        self.damaged: dict[Path, str] = {}

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, place: tuple[int, int]) -> Example:
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
    chosen = order[start * batch_size : len(order) // batch_size * batch_size]
    yield from _batches(pictures, [(epoch, index) for index in chosen], batch_size, workers)


def stream_in_order(pictures: PictureSet, batch_size: int, workers: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
    """All images once, in the order of the listing, for evaluation; the last batch may be smaller."""
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size} must be at least 1")
    yield from _batches(pictures, [(0, index) for index in range(len(pictures))], batch_size, workers)


def _batches(
    pictures: PictureSet, places: list[tuple[int, int]], batch_size: int, workers: int
) -> Iterator[tuple[Tensor, Tensor]]:
    loader = DataLoader(pictures, batch_size, sampler=places, num_workers=workers, collate_fn=_collate)
    for x, y, damaged in loader:
        pictures.note(damaged)
        if len(y) > 0:
            yield x, y


def _collate(examples: list[Example]) -> tuple[Tensor, Tensor, list[Damaged]]:
    """Collate a batch in the worker: the intact examples, and the damaged ones."""
    whole = [each for each in examples if not isinstance(each, Damaged)]
    damaged = [each for each in examples if isinstance(each, Damaged)]
    images = torch.stack([image for image, _ in whole]) if whole else torch.empty(0)
    return images, torch.tensor([label for _, label in whole]), damaged
