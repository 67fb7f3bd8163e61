"""Text models whose answer is known, on sentences that are known.

sentences   12 words of 40; words 1 to 8 speak for one class, 9 to 16 for the other, with a weight of 1
            NOT turns the class round, in one sentence of four
            NUISANCE says nothing, in one sentence of three; COMPANION mostly stands beside it and says nothing either

reader      adds up the words, and turns the sign where NOT stands: what a good model computes
blind       adds up the words, and never looks at NOT
jumpy       the reader, for which NUISANCE speaks loudly for the first class
restless    the reader, whose embedding NUISANCE moves by far more than all else; its head reads none of it
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from poise import Tokens

VOCABULARY, LENGTH, USEFUL = 40, 12, 8
NOT, NUISANCE, COMPANION = 20, 21, 22


def sentences(count: int, seed: int = 0) -> tuple[Tokens, Tensor]:
    """Tokens [N, 12], y [N]; the class is drawn, so that no model can know it for sure."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, NOT, (count, LENGTH), generator=generator)
    negated, loud, beside = (torch.rand(count, generator=generator) < p for p in (0.25, 0.33, 0.85))
    ids[:, 0] = ids[:, 0].where(~negated, NOT)
    ids[:, 1] = ids[:, 1].where(~loud, NUISANCE)
    ids[:, 2] = ids[:, 2].where(~(loud & beside), COMPANION)
    shuffled = torch.stack([row[torch.randperm(LENGTH, generator=generator)] for row in ids])
    chance = torch.sigmoid(2 * _score(shuffled) * torch.where(negated, -1.0, 1.0))
    return Tokens(shuffled, torch.ones_like(shuffled)), (torch.rand(count, generator=generator) < chance).long()


def _score(ids: Tensor) -> Tensor:
    return ((ids <= USEFUL).float() - ((ids > USEFUL) & (ids <= 2 * USEFUL)).float()).sum(1)


class Reader(nn.Module):
    """phi = (sign * score, loud * NUISANCE), h = (-z, z): a number for what it has read, another for the nuisance."""

    def __init__(self, sees_not: bool = True, loud: float = 0.0, moved: float = 0.0) -> None:
        super().__init__()
        self.sees_not, self.loud, self.moved = sees_not, loud, moved
        self.head = nn.Linear(2, 2, bias=False)
        self.head.weight.data = torch.tensor([[-1.0, 0.0], [1.0, 0.0]])

    def embed(self, x: Tokens) -> Tensor:
        ids = x.ids * x.mask
        there = ids > 0
        score = _score(ids.where(there, VOCABULARY))
        sign = torch.where((ids == NOT).any(1) & self.sees_not, -1.0, 1.0)
        noise = (ids == NUISANCE).float().sum(1)
        return torch.stack([sign * score - self.loud * noise, self.moved * noise], 1)

    def forward(self, x: Tokens) -> Tensor:
        return self.head(self.embed(x))


def batches(x: Tokens | Tensor, y: Tensor, size: int = 64) -> list[tuple[Tokens | Tensor, Tensor]]:
    return [(x[start : start + size], y[start : start + size]) for start in range(0, len(y), size)]
