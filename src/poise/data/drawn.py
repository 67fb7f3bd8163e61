"""Drawn images: JPEGs in ImageNet's folder layout, made by code, for miniatures and benchmarks without ImageNet.

A class has a colour, a direction and a width of its stripes, and a place for a disc. An image has its own brightness,
phase and noise. All draws come from streams, so the same settings give the same files on every machine.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from math import pi
from multiprocessing import get_context
from pathlib import Path
from uuid import uuid4

import numpy as np

from poise.random import Stream


@dataclass(frozen=True)
class Drawn:
    """Settings of a drawn set.

    classes     number of classes: folders n00000000, n00000001, ...
    train, val  images of each class.
    sizes       (width, height) of successive images, repeated.
    quality     JPEG quality.
    """

    classes: int = 100
    train: int = 20
    val: int = 2
    sizes: tuple[tuple[int, int], ...] = ((80, 64), (64, 64), (72, 96))
    quality: int = 90

    def write(self, parent: Path, processes: int = 1) -> Path:
        """Draw the set, unless it exists, and return its folder in `parent`, with train/ and val/."""
        folder = parent / f"drawn-{sha256(repr(self).encode()).hexdigest()[:12]}"
        if folder.is_dir():
            return folder
        scratch = folder.with_name(f".{folder.name}-{uuid4().hex}")
        try:
            tasks = [(scratch, part, label) for part in ("train", "val") for label in range(self.classes)]
            if processes > 1:
                with get_context("fork").Pool(processes) as pool:
                    pool.starmap(self._write_class, tasks)
            else:
                for task in tasks:
                    self._write_class(*task)
            with suppress(OSError):  # another process has finished first
                scratch.rename(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return folder

    def _write_class(self, home: Path, part: str, label: int) -> None:
        from PIL import Image

        folder = home / part / f"n{label:08d}"
        folder.mkdir(parents=True)
        for number in range(self.train if part == "train" else self.val):
            size = self.sizes[(label + number) % len(self.sizes)]
            picture = Image.fromarray(draw(label, size, Stream(0, part, label, number)))
            picture.save(folder / f"{part}_{label:04d}_{number:05d}.JPEG", "JPEG", quality=self.quality)


def draw(label: int, size: tuple[int, int], stream: Stream) -> np.ndarray:
    """Draw an image of a class, uint8 [H, W, 3]."""
    width, height = size
    colour, turn, pitch, left, top = np.split(Stream(0, "class", label).uniform(7), [3, 4, 5, 6])
    light, phase = stream.uniform(2)
    y, x = np.mgrid[0:height, 0:width] / min(size)
    angle = pi * turn
    stripes = 0.5 + 0.5 * np.sin(2 * pi * ((3 + 9 * pitch) * (x * np.cos(angle) + y * np.sin(angle)) + phase))
    disc = (x - 0.2 - 0.6 * left) ** 2 + (y - 0.2 - 0.6 * top) ** 2 < 0.03
    flat = np.where(disc, 1 - stripes, stripes)[:, :, None] * colour + 0.3 * (1 - colour)
    noise = stream.uniform(height * width).reshape(height, width, 1) - 0.5
    pixels: np.ndarray = 255 * np.clip((0.6 + 0.6 * light) * flat + 0.15 * noise, 0, 1)
    return pixels.astype(np.uint8)
