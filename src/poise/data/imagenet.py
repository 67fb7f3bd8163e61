"""ImageNet, streamed: pictures decoded and cropped in worker processes, uint8 out.

The crop and the flip of a picture depend on (seed, epoch, index) alone, not on the worker that makes them, and the
order on (seed, epoch): any number of workers gives the same epoch, from any batch on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from poise.data.errors import DataNotFound
from poise.data.folders import PICTURES
from poise.data.loader import epoch_order
from poise.data.stream import Stream


@dataclass(frozen=True)
class RandomCrop:
    """A crop of 8 % to 100 % of the area with an aspect of 3/4 to 4/3, resized, and flipped half of the time."""

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
    """The shorter side resized to `resize`, then the middle `size` x `size`."""

    size: int = 224
    resize: int = 256

    def __post_init__(self) -> None:
        if not 0 < self.size <= self.resize:
            raise ValueError(f"size={self.size} must lie between 1 and resize={self.resize}: the rest would be black")

    def __call__(self, image: Any, stream: Stream) -> Any:
        scale = self.resize / min(image.size)
        large = image.resize((round(image.width * scale), round(image.height * scale)), resample=2)
        left, top = (large.width - self.size) // 2, (large.height - self.size) // 2
        return large.crop((left, top, left + self.size, top + self.size))


class ClassFolders(Dataset[tuple[Tensor, int]]):
    """<class>/*.JPEG; classes in order of their names. An example is asked for by (epoch, index)."""

    def __init__(self, folder: Path, crop: RandomCrop | CentreCrop, seed: int = 0) -> None:
        self.classes = sorted(p.name for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []
        names = [(p, n) for n, c in enumerate(self.classes) for p in sorted((folder / c).iterdir())]
        self.pictures = [(path, label) for path, label in names if path.suffix.lower() in PICTURES]
        if not self.pictures:
            raise DataNotFound(f"{folder} has no class folders with pictures in them")
        self.crop, self.seed = crop, seed

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, place: tuple[int, int]) -> tuple[Tensor, int]:
        from PIL import Image

        epoch, index = place
        path, label = self.pictures[index]
        with Image.open(path) as picture:
            cropped = self.crop(picture.convert("RGB"), Stream(self.seed, "crop", epoch, index))
        return torch.from_numpy(np.array(cropped)).permute(2, 0, 1), label


def stream_epoch(
    folders: ClassFolders, batch_size: int, epoch: int, start: int = 0, workers: int = 0
) -> Iterator[tuple[Tensor, Tensor]]:
    """The batches of an epoch from batch `start` on: uint8 [B, 3, H, W] and labels [B], whole batches only."""
    if not 0 < batch_size <= len(folders) or start < 0:
        raise ValueError(f"batch_size={batch_size} must lie in 1..{len(folders)}, start={start} not be negative")
    order = epoch_order(len(folders), folders.seed, epoch).tolist()
    places = [(epoch, index) for index in order[start * batch_size : len(order) // batch_size * batch_size]]
    loader = DataLoader(folders, batch_size, sampler=places, num_workers=workers)
    yield from loader
