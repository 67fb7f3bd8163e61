"""Batches of sentences that live on the device: equal lengths together, so that hardly any padding is computed.

An epoch is shuffled, sorted by width (a stable sort, so that what has one width stays shuffled), cut into batches, and
the batches are shuffled. A sentence's width is the least of a few that holds it: a batch has one of these, few enough
for a CUDA graph each. All of it is a pure function of (seed, epoch), as for images.

Sentences are arrays of word pieces [N, T] as Examples hold them: padded with 0 on the right, the first and the last
piece special ([CLS] and [SEP]).

Axes: N sentences, B of a batch, T positions, S batches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from poise.data.loader import Batches, Resident, epoch_order
from poise.data.stream import Stream
from poise.tokens import Input, Tokens


class TokenAugmentation(Protocol):
    def __call__(self, x: Tokens, generator: torch.Generator | None = None) -> Tokens:
        """Sentences → sentences of the same shape, of which none has more tokens than before."""


def tokens_of(ids: np.ndarray, device: torch.device | str = "cpu") -> Tokens:
    """Word pieces [N, T] as Tokens."""
    pieces = torch.from_numpy(np.array(ids)).long()
    mask = pieces != 0
    ends = mask.sum(1, keepdim=True) - 1
    places = torch.arange(pieces.shape[1])
    return Tokens(pieces, mask, mask & ((places == 0) | (places == ends))).to(device)


def widths_for(longest: int) -> tuple[int, ...]:
    """4, 6, 8, ... each wider by at most a quarter, or by 2, up to the longest sentence."""
    widths = [4]
    while widths[-1] < longest:
        widths.append(max(widths[-1] + 2, 2 * int(0.625 * widths[-1])))
    return (*widths[:-1], max(longest, 4))


@dataclass(frozen=True)
class PieceDropout:
    """Every word piece is removed with this probability, each for itself; special ones stay."""

    share: float

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise ValueError(f"share={self.share} must lie in [0, 1)")

    def __call__(self, x: Tokens, generator: torch.Generator | None = None) -> Tokens:
        drawn = torch.rand(x.ids.shape, device=x.ids.device, generator=generator) < self.share
        return x.without(drawn & x.features)


@dataclass(frozen=True, eq=False)
class TokenLoader(Resident):
    """sentences [N, T] and labels [N] on one device; see `tokens_of`."""

    sentences: Tokens
    labels: Tensor
    batch_size: int
    augment: TokenAugmentation | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.sentences) != len(self.labels):
            raise TypeError(f"{len(self.sentences)} sentences need one label each, got {list(self.labels.shape)}")
        if not 0 < self.batch_size <= len(self.labels):
            raise ValueError(f"batch_size={self.batch_size} must lie between 1 and the {len(self.labels)} sentences")

    @property
    def replicas(self) -> int:
        return 1

    def __len__(self) -> int:
        """Whole batches of an epoch; what is left over comes in another epoch's order."""
        return len(self.labels) // self.batch_size

    def batches(self, number: int) -> Batches:
        """Of similar length each. What is left over is left out before the sort: it is not always the longest."""
        order = epoch_order(len(self.labels), self.seed, number)[: len(self) * self.batch_size]
        widths = self._widths[order]
        rows = order[widths.argsort(stable=True)].view(len(self), self.batch_size)
        rows = rows[torch.from_numpy(Stream(self.seed, "batches", number).permutation(len(self)))]
        return Batches(rows.to(self.labels.device), tuple(self._widths[rows].amax(1).tolist()))

    def batch(self, rows: Tensor, generator: torch.Generator, width: int = 0) -> tuple[Input, Tensor]:
        """These rows, cut to the width of their batch, where nothing but padding is cut off; 0 cuts nothing off."""
        x = self.sentences[rows].cut(width) if width else self.sentences[rows]
        x = replace(x, most=x.ids.shape[1] - self._special)
        return (x if self.augment is None else self.augment(x, generator)), self.labels[rows]

    @cached_property
    def _widths(self) -> Tensor:
        """[N] on the CPU: the least width that holds a sentence."""
        lengths = self.sentences.mask.sum(1).cpu()
        widths = torch.tensor(widths_for(int(lengths.max())))
        return widths[torch.searchsorted(widths, lengths)]

    @cached_property
    def _special(self) -> int:
        """So many special pieces stand in every sentence, at least."""
        return 0 if self.sentences.special is None else int(self.sentences.special.sum(1).min())
