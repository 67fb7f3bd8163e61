"""Pixel noise UN and NUN: test images with a share of their pixels replaced (section 4.2).

    UN     the replaced pixels are chosen uniformly
    NUN    pixel p is chosen with weight 1 / deviation_p, its standard deviation over the training images

In every image exactly round(share * number of pixels) are replaced, drawn without replacement. The new value:

    grey     one random level, the same in all channels (the paper's "uniformly chosen random gray level")
    colour   one random level per channel
    value    single values are chosen and replaced instead of pixels, channel by channel

Images are uint8 [N, H, W] or [N, H, W, C]. The draws of an image depend on the seed and on its index in the set, not on
the set's length. To test all methods with the same noise, add noise to the whole set before taking parts of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from poise.random import Stream, as_integers, as_uniform

Kind: TypeAlias = Literal["grey", "colour", "value"]
CHUNK = 1000


@dataclass(frozen=True)
class PixelNoise:
    """Replaces a share of each image's pixels: UN, or NUN with uniform=False, which needs the training deviation.

    share            the share of pixels to replace.
    kind             "grey", "colour" or "value", see above.
    least_deviation  lower bound of the deviation in grey levels: a constant pixel would have infinite weight.
    seed             the seed of all draws.
    """

    uniform: bool = True
    share: float = 0.15
    kind: Kind = "grey"
    least_deviation: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in ("grey", "colour", "value"):
            raise ValueError(f"kind={self.kind!r} must be grey, colour or value")
        if not (0 <= self.share <= 1 and self.least_deviation > 0):
            raise ValueError(f"share={self.share} must lie in [0, 1], least_deviation={self.least_deviation} above 0")

    def __call__(self, images: np.ndarray, deviation: np.ndarray | None = None) -> np.ndarray:
        """images, deviation [H, W] or [H, W, C] → noisy images."""
        if images.dtype != np.uint8 or images.ndim not in (3, 4):
            raise TypeError(f"images must be uint8 [N, H, W] or [N, H, W, C], got {images.dtype} {images.shape}")
        noisy = images.copy() if images.ndim == 4 else images[..., None].copy()  # [N, H, W, C]
        weights = self._weights(noisy.shape[1:], deviation)
        stream = Stream(self.seed, "pixel noise", self.uniform, self.kind)
        for start in range(0, len(noisy), CHUNK):
            part = noisy[start : start + CHUNK]
            part[...] = self._replace(part, weights, stream)
        return noisy.reshape(images.shape)

    def of(self, images: np.ndarray, index: Sequence[int], deviation: np.ndarray | None = None) -> np.ndarray:
        """The noise of the images at these places of the whole set, on images [B, H, W, C]."""
        weights = self._weights(images.shape[1:], deviation)
        height, width, channels = images.shape[1:]
        noisy = np.empty_like(images)
        for place, row in enumerate(index):
            stream = Stream(self.seed, "pixel noise", self.uniform, self.kind)
            stream.skip(row * sum(self._draws(height, width, channels)))
            noisy[place : place + 1] = self._replace(images[place : place + 1], weights, stream)
        return noisy

    def _draws(self, height: int, width: int, channels: int) -> tuple[int, int]:
        """The numbers that an image draws: one per place that may be replaced, and its new levels."""
        pixels = height * width
        return pixels * (channels if self.kind == "value" else 1), pixels * (1 if self.kind == "grey" else channels)

    def _replace(self, images: np.ndarray, weights: np.ndarray | None, stream: Stream) -> np.ndarray:
        """Replace pixels of the next images; the stream holds the draws of one image after the other."""
        count, height, width, channels = images.shape
        places, levels = self._draws(height, width, channels)
        bits = stream.bits(count * (places + levels)).reshape(count, places + levels)
        chosen = self._chosen(as_uniform(bits[:, :places]), weights).reshape(count, height, width, -1)
        grey_levels = as_integers(bits[:, places:], 256).astype(np.uint8).reshape(count, height, width, -1)
        return np.where(chosen, grey_levels, images)

    def _chosen(self, draws: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """Successive sampling: the k smallest of Exponential(1) / weight are k draws without replacement."""
        times = draws if weights is None else -np.log(draws) / weights.reshape(1, -1)
        k = round(self.share * times.shape[1])
        chosen = np.zeros(times.shape, dtype=bool)
        if k > 0:
            np.put_along_axis(chosen, np.argpartition(times, k - 1, axis=1)[:, :k], True, axis=1)
        return chosen

    def _weights(self, shape: tuple[int, ...], deviation: np.ndarray | None) -> np.ndarray | None:
        if self.uniform:
            return None
        if deviation is None:
            raise ValueError("NUN needs the deviation of the training images: pixel_deviation(train_x)")
        per_value = deviation.reshape(*deviation.shape[:2], -1)
        if per_value.shape != shape:
            raise ValueError(f"the deviation has shape {deviation.shape}, the images {shape}")
        if not (np.isfinite(per_value).all() and (per_value >= 0).all()):
            raise ValueError("the deviation has values that are negative, infinite or nan")
        per_pixel = np.sqrt((per_value**2).mean(axis=2, keepdims=True))
        weights: np.ndarray = 1 / np.maximum(per_value if self.kind == "value" else per_pixel, self.least_deviation)
        return weights


def pixel_deviation(images: np.ndarray) -> np.ndarray:
    """The standard deviation of every value over the images, in grey levels: uint8 [N, ...] → [...]."""
    flat = images.reshape(len(images), -1)
    total, squares = np.zeros(flat.shape[1], np.int64), np.zeros(flat.shape[1], np.int64)
    for start in range(0, len(flat), CHUNK):
        part = flat[start : start + CHUNK].astype(np.int64)
        total += part.sum(0)
        squares += (part * part).sum(0)
    mean = total / len(flat)
    deviation: np.ndarray = np.sqrt(np.maximum(squares / len(flat) - mean**2, 0)).reshape(images.shape[1:])
    return deviation
