"""Word pieces, aligned to the tokens they come from: BERT's uncased vocabulary, [CLS] tokens [SEP].

Axes: B sentences, T positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from poise.extras import install
from poise.tokens import Tokens


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
