"""Validation and test sets with noise and corruptions that fit the kind of data.

    pictures   UN and NUN: 15 % of the pixels replaced (data/pixel_noise.py); blur, contrast and JPEG at severity 3
    table      N(0, .5^2) added to every standardised value; 15 % of the values replaced by uniform ones
    text       15 % or 30 % of the tokens deleted, at random

Draws come from a frozen stream, so all methods and seeds see the same noise.

Axes: N examples, C channels, H rows, W columns, F columns, T positions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from poise.advising.own_data import Kind, OwnData
from poise.corruptions.corrupt import corrupt
from poise.data.pixel_noise import PixelNoise, pixel_deviation
from poise.random import Stream
from poise.records.columns import Column
from poise.running.experiment import Examples
from poise.tokens import Tokens

CLEAN = "clean"
NOISES: dict[Kind, tuple[str, ...]] = {
    "pictures": ("15 % of pixels", "15 % of quiet pixels"),
    "table": ("Gaussian noise", "15 % of values"),
    "text": ("15 % deleted", "30 % deleted"),
}
CORRUPTED = ("defocus_blur/3", "contrast/3", "jpeg_compression/3")
_SMALLEST = 16  # pixels, for corruptions
_SIGMA, _SHARE, _SHARES = 0.5, 0.15, (0.15, 0.3)


def noisy_sets(data: OwnData, examples: Examples, salt: str) -> dict[str, Examples]:
    """{name: set}: the examples without noise, and with each kind of noise; `salt` names their draws."""
    first, second = NOISES[data.kind]
    if data.kind == "text":
        noisy: list[Any] = [_deleted(examples.x, share, salt) for share in _SHARES]  # type: ignore[arg-type]
    elif data.kind == "table":
        noisy = [_gaussian(examples.x, salt), _replaced(examples.x, data.train.x, salt)]  # type: ignore[arg-type]
    else:
        noisy = _pixels(examples.x, data.train.x, salt)  # type: ignore[arg-type]
    found = {CLEAN: examples, first: Examples(noisy[0], examples.y), second: Examples(noisy[1], examples.y)}
    return {**found, **{name: Examples(_corrupted(examples.x, name), examples.y) for name in corruptions(data)}}  # type: ignore[arg-type]


def names_of_sets(data: OwnData) -> tuple[str, ...]:
    """The names of all sets, the one without noise first."""
    return (CLEAN, *NOISES[data.kind], *corruptions(data))


def corruptions(data: OwnData) -> tuple[str, ...]:
    """The corruptions that fit: for grey or RGB pictures that are not too small."""
    if data.kind != "pictures":
        return ()
    _, channels, height, width = data.train.x.shape  # type: ignore[union-attr]
    return CORRUPTED if channels in (1, 3) and min(height, width) >= _SMALLEST else ()


def columns(data: OwnData) -> tuple[Column, ...]:
    """What is measured: all classes and rare ones, without and with noise; corruptions."""
    noises, corrupted = NOISES[data.kind], corruptions(data)
    found = [Column("clean", (CLEAN,)), Column("noise", noises)]
    found += [Column("corruptions", corrupted)] if corrupted else []
    if data.rare:
        found += [Column("rare", (CLEAN,), data.rare), Column("noisy rare", noises, data.rare)]
    return tuple(found)


def _pixels(x: Tensor, train: Tensor, salt: str) -> list[Tensor]:
    images, background = x.permute(0, 2, 3, 1).numpy(), pixel_deviation(train.permute(0, 2, 3, 1).numpy())
    seed = int(Stream(0, "pixels", salt).integers(2**31, 1)[0])
    made = [PixelNoise(uniform=True, seed=seed)(images), PixelNoise(uniform=False, seed=seed)(images, background)]
    return [torch.from_numpy(each).permute(0, 3, 1, 2).contiguous() for each in made]


def _corrupted(x: Tensor, name: str) -> Tensor:
    corruption, severity = name.split("/")
    side = min(x.shape[2:])
    profile = "cifar" if side < 48 else "tiny" if side < 144 else "imagenet"
    parts = [corrupt(part.expand(-1, 3, -1, -1), corruption, int(severity), profile) for part in torch.split(x, 256)]
    return torch.cat(parts)[:, : x.shape[1]].contiguous()


def _gaussian(x: Tensor, salt: str) -> Tensor:
    stream = Stream(0, "table", "gaussian", salt)
    one, two = (stream.uniform(x.numel()) for _ in range(2))
    normal = np.sqrt(-2 * np.log(one)) * np.cos(2 * np.pi * two)  # Box-Muller
    return x + _SIGMA * torch.from_numpy(normal).float().view_as(x)


def _replaced(x: Tensor, train: Tensor, salt: str) -> Tensor:
    stream = Stream(0, "table", "replaced", salt)
    chosen, levels = (torch.from_numpy(stream.uniform(x.numel())).float().view_as(x) for _ in range(2))
    low, high = train.amin(0), train.amax(0)
    return torch.where(chosen < _SHARE, low + levels * (high - low), x)


def _deleted(x: Tokens, share: float, salt: str) -> Tokens:
    """Each token is deleted with probability `share`, but never all of a text."""
    drawn = torch.from_numpy(Stream(0, "deleted", share, salt).uniform(x.ids.numel())).view_as(x.ids)
    drawn = drawn.masked_fill(~x.features, 2.0)
    chosen = (drawn < share) & (drawn < drawn.masked_fill(~x.features, -1.0).amax(1, keepdim=True))
    return x.without(chosen, "delete")
