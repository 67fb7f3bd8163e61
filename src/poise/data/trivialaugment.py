"""TrivialAugment (Müller, Hutter 2021), "Wide": one operation per image, drawn from fourteen, at a random magnitude.

Operations and their strengths are torchvision's (`torchvision.transforms.TrivialAugmentWide`); see operations.py.

Axes: B images, C channels, H rows, W columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from poise.checks import require_whole
from poise.data.augment import layout_of, require_levels
from poise.data.operations import FOURTEEN, apply_each, directed, magnitudes

_MOST = {
    **dict.fromkeys(("shear_x", "shear_y"), 0.99),
    **dict.fromkeys(("translate_x", "translate_y"), 32.0),
    "rotate": 135.0,
    **dict.fromkeys(("brightness", "color", "contrast", "sharpness"), 0.99),
}


@dataclass(frozen=True)
class TrivialAugment:
    """One operation per image, at one of `bins` magnitudes."""

    bins: int = 31

    def __post_init__(self) -> None:
        require_whole("bins", self.bins, least=2)

    def __call__(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """x [B, C, H, W] in [0, 1] → the same shape."""
        require_levels(x)
        images = (255 * x.float()).round().clamp(0, 255).contiguous()
        drawn = torch.randint(len(FOURTEEN), (len(x),), device=x.device, generator=generator)
        step = torch.randint(self.bins, (len(x),), device=x.device, generator=generator)
        negative = torch.randint(2, (len(x),), device=x.device, generator=generator) == 1
        magnitude = directed(self.table(x.device)[drawn, step], drawn, negative)
        return (apply_each(images, drawn, magnitude) / 255).to(x.dtype).contiguous(memory_format=layout_of(x))

    def table(self, device: torch.device) -> Tensor:
        """The magnitude of each operation and bin [14, bins]."""
        return magnitudes(_MOST, 6, self.bins, device)
