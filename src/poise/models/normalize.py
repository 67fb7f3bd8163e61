"""Normalisation inside a model: data are in [0, 1] everywhere else, so that sigma has one unit."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.fx
from torch import Tensor, nn

from poise.checks import require_number, require_several, require_wholes


class Normalize(nn.Module):
    """(x - mean) / std for each channel. x [B, C, *]."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        for name, values in (("mean", mean), ("std", std)):
            require_several(name, values)
            for place, value in enumerate(values):
                require_number(f"{name}[{place}]", value)
        if not len(mean) or len(mean) != len(std) or min(std) <= 0:
            raise ValueError(f"mean={mean} and std={std} must have one value per channel, std above 0")
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def _require_channels(self, x: Tensor) -> None:
        """Raise for another number of channels: a single channel would be broadcast silently."""
        channels = len(self.mean)
        if channels > 1 and (x.ndim < 3 or x.shape[-3] != channels):
            raise ValueError(f"x must be images with {channels} channels, got {list(x.shape)}")

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(x, Tensor):  # a torch.fx proxy has no shape to check
            self._require_channels(x)
        return (x - self.mean) / self.std


def require_blocks(blocks: Sequence[tuple[int, int, int]]) -> None:
    """Raise unless `blocks` holds at least one (number, filters, stride)."""
    require_several("blocks", blocks)
    for place, block in enumerate(blocks):
        require_wholes(f"blocks[{place}]", block, 3, least=1)
    if not len(blocks):
        raise ValueError("blocks must hold at least one (number, filters, stride)")
