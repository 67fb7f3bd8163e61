"""Word pieces, aligned to the tokens they come from: BERT's uncased vocabulary, [CLS] tokens [SEP].

Axes: B sentences, T positions.

Batches of sentences that live on the device: equal lengths together, so that hardly any padding is computed.

An epoch is shuffled, sorted by width (a stable sort, so that what has one width stays shuffled), cut into batches, and
the batches are shuffled. A sentence's width is the least of a few that holds it: a batch has one of these, few enough
for a CUDA graph each. All of it is a pure function of (seed, epoch), as for images.

Sentences are arrays of word pieces [N, T] as Examples hold them: padded with 0 on the right, the first and the last
piece special ([CLS] and [SEP]).

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
from poise.data.loading.resident import Batches, Resident, epoch_order
from poise.random import Stream
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


class WordPieces:
    """Turns sentences, given as tokens, into Tokens; `words` says which token each piece belongs to."""

    def __init__(self, vocabulary: Path) -> None:
        try:
            from tokenizers import BertWordPieceTokenizer
        except ImportError:
            raise ModuleNotFoundError(f"word pieces need a package more: {install('text')}") from None
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
