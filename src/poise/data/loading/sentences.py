"""Sentences: tokenization into word pieces, and batches of sentences of similar length on the device.

Sentences are arrays of word pieces [N, T] of BERT's uncased vocabulary: [CLS] tokens [SEP], padded with 0 on the right.

To compute little padding, an epoch is shuffled, sorted by width (with a stable sort, so sentences of equal width stay
shuffled) and split into batches, which are shuffled again. The width of a sentence is the least of a few that holds it,
few enough for one CUDA graph per width. As for images, the batches are a pure function of (seed, epoch).

Axes: N sentences, B of a batch, T positions, S batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from poise.checks import install
from poise.data.loading.resident import Batches, Resident, epoch_order, require_batch_size
from poise.random import Stream
from poise.tokens import Input, Tokens


class TokenAugmentation(Protocol):
    def __call__(self, x: Tokens, generator: torch.Generator | None = None) -> Tokens:
        """Sentences → sentences of the same shape; none may have more tokens than before."""


def tokens_of(ids: np.ndarray, device: torch.device | str = "cpu") -> Tokens:
    """Word pieces [N, T] as Tokens."""
    pieces = torch.from_numpy(np.array(ids)).long()
    mask = pieces != 0
    ends = mask.sum(1, keepdim=True) - 1
    places = torch.arange(pieces.shape[1])
    return Tokens(pieces, mask, mask & ((places == 0) | (places == ends))).to(device)


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
        require_batch_size(self.batch_size, len(self.labels), "sentences")

    def __len__(self) -> int:
        """The number of full batches in an epoch; the examples left over differ from epoch to epoch."""
        return len(self.labels) // self.batch_size

    def batches(self, number: int) -> Batches:
        """Batches of similar length. Examples left over are dropped before sorting: they are not always the longest."""
        order = epoch_order(len(self.labels), self.seed, number)[: len(self) * self.batch_size]
        widths = self._widths[order]
        rows = order[widths.argsort(stable=True)].view(len(self), self.batch_size)
        rows = rows[torch.from_numpy(Stream(self.seed, "batches", number).permutation(len(self)))]
        return Batches(rows.to(self.labels.device), tuple(self._widths[rows].amax(1).tolist()))

    def batch(self, rows: Tensor, generator: torch.Generator, width: int = 0) -> tuple[Input, Tensor]:
        """x and y of these rows, with padding beyond the width of the batch cut off; 0 cuts nothing."""
        x = self.sentences[rows].cut(width) if width else self.sentences[rows]
        x = replace(x, most=x.ids.shape[1] - self._special)
        return (x if self.augment is None else self.augment(x, generator)), self.labels[rows]

    @cached_property
    def _widths(self) -> Tensor:
        """The least width that holds each sentence [N], on the CPU."""
        lengths = self.sentences.mask.sum(1).cpu()
        widths = torch.tensor(widths_for(int(lengths.max())))
        return widths[torch.searchsorted(widths, lengths)]

    @cached_property
    def _special(self) -> int:
        """The least number of special pieces in a sentence."""
        return 0 if self.sentences.special is None else int(self.sentences.special.sum(1).min())


class WordPieces:
    """Tokenizes sentences, given as lists of tokens, into Tokens of word pieces aligned to them."""

    def __init__(self, vocabulary: Path) -> None:
        try:
            from tokenizers import BertWordPieceTokenizer
        except ImportError:
            raise ModuleNotFoundError(f"word pieces need the package tokenizers: {install('text')}") from None
        self._tokenizer: Any = BertWordPieceTokenizer(str(vocabulary), lowercase=True)

    def __len__(self) -> int:
        size: int = self._tokenizer.get_vocab_size()
        return size

    def __call__(self, sentences: Sequence[Sequence[str]], max_length: int = 128) -> tuple[Tokens, Tensor]:
        """Tokens [B, T] and words [B, T]: the index of the token a piece comes from, -1 for special and padding."""
        if not sentences:
            raise ValueError("there are no sentences to encode")
        self._tokenizer.enable_truncation(max_length)
        rows = self._tokenizer.encode_batch([list(tokens) for tokens in sentences], is_pretokenized=True)
        lengths = torch.tensor([len(row.ids) for row in rows])
        mask = torch.arange(int(lengths.max()))[None, :] < lengths[:, None]
        ids, words = torch.zeros(mask.shape, dtype=torch.long), torch.full(mask.shape, -1)
        ids[mask] = torch.tensor([piece for row in rows for piece in row.ids])
        words[mask] = torch.tensor([-1 if word is None else word for row in rows for word in row.word_ids])
        return Tokens(ids, mask, words < 0), words


def widths_for(longest: int) -> tuple[int, ...]:
    """The widths of batches: 4, 6, 8, ..., each larger by at most a quarter or by 2, up to the longest sentence."""
    widths = [4]
    while widths[-1] < longest:
        widths.append(max(widths[-1] + 2, 2 * int(0.625 * widths[-1])))
    return (*widths[:-1], max(longest, 4))


@dataclass(frozen=True)
class PieceDropout:
    """Removes every word piece independently with probability `share`; special pieces stay."""

    share: float

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise ValueError(f"share={self.share} must lie in [0, 1)")

    def __call__(self, x: Tokens, generator: torch.Generator | None = None) -> Tokens:
        drawn = torch.rand(x.ids.shape, device=x.ids.device, generator=generator) < self.share
        return x.without(drawn & x.features)
