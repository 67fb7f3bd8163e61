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

    def _require_channels(self, x: Tensor) -> None:
        """Or one channel would be repeated without a word."""
        channels = len(self.mean)
        if channels > 1 and (x.ndim < 3 or x.shape[-3] != channels):
            raise ValueError(f"pictures of {channels} channels are wanted, got {list(x.shape)}")

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(x, Tensor):  # what torch.fx traces with cannot be asked
            self._require_channels(x)
        return (x - self.mean) / self.std
