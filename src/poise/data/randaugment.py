"""RandAugment (Cubuk et al. 2020): a few operations drawn from fourteen, all at one magnitude, in random directions.

Operations and their strengths are torchvision's (`torchvision.transforms.RandAugment`); see operations.py.

Axes: B images, C channels, H rows, W columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from poise.checks import require_whole
from poise.data.augment import layout_of, require_levels
from poise.data.operations import FOURTEEN, apply_each, directed, magnitudes

_SHIFT = 150 / 331  # of a side


@dataclass(frozen=True)
class RandAugment:
    """`count` operations per image at magnitude 0 to bins - 1. The defaults are torchvision's."""

    count: int = 2
    magnitude: int = 9
    bins: int = 31

    def __post_init__(self) -> None:
        require_whole("count", self.count, least=1)
        require_whole("bins", self.bins, least=2)
        require_whole("magnitude", self.magnitude, least=0)
        if self.magnitude >= self.bins:
            raise ValueError(f"magnitude={self.magnitude} must be less than bins={self.bins}")

    def __call__(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """x [B, C, H, W] in [0, 1] → the same shape."""
        require_levels(x)
        table = self.table(x.shape[2], x.shape[3], x.device)[:, self.magnitude]
        images = (255 * x.float()).round().clamp(0, 255).contiguous()
        for _ in range(self.count):
            drawn = torch.randint(len(FOURTEEN), (len(x),), device=x.device, generator=generator)
            negative = torch.randint(2, (len(x),), device=x.device, generator=generator) == 1
            images = apply_each(images, drawn, directed(table[drawn], drawn, negative))
        return (images / 255).to(x.dtype).contiguous(memory_format=layout_of(x))

    def table(self, height: int, width: int, device: torch.device) -> Tensor:
        """The magnitude of each operation and bin [14, bins]."""
        most = {"shear_x": 0.3, "shear_y": 0.3, "translate_x": _SHIFT * width, "translate_y": _SHIFT * height}
        most |= {"rotate": 30.0, **dict.fromkeys(("brightness", "color", "contrast", "sharpness"), 0.9)}
        return magnitudes(most, 4, self.bins, device)
