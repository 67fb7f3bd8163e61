"""Normalisation inside a model: data are in [0, 1] everywhere else, so that sigma means one thing."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Normalize(nn.Module):
    """(x - mean) / std, channel by channel. x [B, C, *]."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        if len(mean) != len(std) or min(std) <= 0:
            raise ValueError(f"mean={mean} and std={std} must have one value per channel, std above 0")
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        channels = len(self.mean)
        if channels > 1 and x.shape[-3] != channels:  # one channel would be repeated without a word
            raise ValueError(f"pictures of {channels} channels are wanted, got {list(x.shape)}")
        return (x - self.mean) / self.std
