"""Models whose answer is known, on data that is known.

table   50 columns of N(0, 1); the first 8 decide between two classes, column 8 decides alone in one row of three
        (where column 9 is above 0.43), column 10 is a nuisance and decides nothing

linear          uses all that decides, and nothing else matters much
blind           never saw column 8
over-sensitive  the nuisance moves its embedding by far more than all else; its head reads little or none of it
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

COLUMNS, USEFUL, PLANTED, SWITCH, NUISANCE = 50, 8, 8, 9, 10


def rows(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """x [N, 50], y [N]."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, COLUMNS, generator=generator)
    score = x[:, :USEFUL].sum(1)
    decided = torch.where(x[:, SWITCH] > 0.43, 6 * x[:, PLANTED], score)
    return x, (decided > 0).long()


def plain_rows(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Without a planted feature: the first eight columns decide, as a linear model can know."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, COLUMNS, generator=generator)
    chances = torch.sigmoid(2 * x[:, :USEFUL].sum(1))
    return x, (torch.rand(count, generator=generator) < chances).long()


class Planted(nn.Module):
    """phi(x) = W x (6 values), h(z) = V z (2 classes): closed forms for all that an audit measures."""

    def __init__(self, weights: Tensor, head: Tensor) -> None:
        super().__init__()
        self.body = nn.Linear(weights.shape[1], weights.shape[0], bias=False)
        self.head = nn.Linear(head.shape[1], head.shape[0], bias=False)
        self.body.weight.data, self.head.weight.data = weights, head

    def embed(self, x: Tensor) -> Tensor:
        return self.body(x.flatten(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embed(x))


class Switching(nn.Module):
    """phi(x) = (score of the useful columns, planted where the switch is on): what a good model of `rows` computes."""

    def __init__(self, sees_planted: bool = True) -> None:
        super().__init__()
        self.sees_planted = sees_planted
        self.head = nn.Linear(2, 2, bias=False)
        self.head.weight.data = torch.tensor([[-1.0, -1.0], [1.0, 1.0]])

    def embed(self, x: Tensor) -> Tensor:
        score = x[:, :USEFUL].sum(1) + 0.05 * x[:, NUISANCE:].sum(1)
        if not self.sees_planted:
            return torch.stack([score, torch.zeros_like(score)], 1)
        on = torch.sigmoid(20 * (x[:, SWITCH] - 0.43))
        return torch.stack([score * (1 - on), 6 * x[:, PLANTED] * on], 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embed(x))


def linear() -> Planted:
    """The first eight columns with weight 1, the others with .01 to .02: u and s have one order, for every example."""
    weights = torch.zeros(6, COLUMNS)
    weights[0] = 0.01 * torch.linspace(1.0, 2.0, COLUMNS)
    weights[0, :USEFUL] = torch.linspace(0.9, 1.1, USEFUL)
    head = torch.zeros(2, 6)
    head[:, 0] = torch.tensor([-1.0, 1.0])
    return Planted(weights, head)


def over_sensitive(read_by_head: float = 0.0) -> Planted:
    """The linear model, whose second value is five times the nuisance."""
    model = linear()
    model.body.weight.data[1, NUISANCE] = 5.0
    model.head.weight.data[:, 1] = torch.tensor([-read_by_head, read_by_head])
    return model


def batches(x: Tensor, y: Tensor, size: int = 64) -> list[tuple[Tensor, Tensor]]:
    return list(zip(x.split(size), y.split(size), strict=True))
