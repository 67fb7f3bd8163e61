"""AugMix (Hendrycks et al. 2020): a picture mixed with the ends of a few short chains of simple operations.

    mixed = (1 - m) x + m (w_1 chain_1(x) + ... + w_K chain_K(x)),   m ~ U(0, 1),   w ~ Dirichlet(1, ..., 1)

A chain is 1, 2, ... operations, each drawn from nine with a strength of its own: autocontrast, equalize, posterize,
rotate, solarize, shear x, shear y, translate x, translate y. None of them is one of the tested corruptions.

Axes: B pictures, K chains, C channels, H rows, W columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from poise.choices import require_number, require_whole
from poise.data.augment import layout_of, require_levels
from poise.data.operations import affine, autocontrast, equalize, posterize, solarize, through, unchanged, warp

OPERATIONS = (
    *("autocontrast", "equalize", "posterize", "rotate", "solarize"),
    *("shear_x", "shear_y", "translate_x", "translate_y"),
)
_WEAKEST, _STRONGEST = 0.1, 10.0  # of a strength


@dataclass(frozen=True)
class AugMix:
    """`width` chains of 1 to `depth` operations, of strengths up to `severity`: by default those for CIFAR."""

    severity: float = 3.0
    width: int = 3
    depth: int = 3

    def __post_init__(self) -> None:
        require_number("severity", self.severity, least=_WEAKEST, most=_STRONGEST)
        require_whole("width", self.width, least=1)
        require_whole("depth", self.depth, least=1)

    def __call__(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """x [B, C, H, W] in [0, 1] → the same shape."""
        require_levels(x)
        # In float32 whatever x is: the levels of a half would be wrong from 1/512 on.
        chains = (255 * x.float()).round().clamp(0, 255).contiguous().repeat(self.width, 1, 1, 1)  # [K B, C, H, W]
        depth = torch.randint(1, self.depth + 1, (len(chains),), device=x.device, generator=generator)
        for step in range(self.depth):
            drawn = torch.randint(len(OPERATIONS), depth.shape, device=x.device, generator=generator)
            strength = _uniform(depth, generator) * (self.severity - _WEAKEST) + _WEAKEST
            sign = 1 - 2 * torch.randint(2, depth.shape, device=x.device, generator=generator)
            chains = operate(chains, drawn.where(step < depth, -1), strength, sign)
        shares = torch.empty(self.width, len(x), 1, 1, 1, device=x.device).exponential_(generator=generator)
        ends = (shares / shares.sum(0) * chains.view(self.width, *x.shape)).sum(0) / 255
        much = torch.rand(len(x), 1, 1, 1, device=x.device, generator=generator)
        return torch.lerp(x, ends.to(x.dtype), much.to(x.dtype)).contiguous(memory_format=layout_of(x))


def operate(images: Tensor, drawn: Tensor, strength: Tensor, sign: Tensor) -> Tensor:
    """One operation on each picture: its place in OPERATIONS, -1 for none; strength in [0.1, 10], sign +1 or -1.

    images [B, C, H, W] of whole levels 0 to 255; drawn, strength, sign [B].
    """
    height, width = images.shape[2:]
    part = strength / _STRONGEST

    def only(name: str, value: Tensor) -> Tensor:
        return value.where(drawn == OPERATIONS.index(name), 0)

    moved = affine(
        height,
        width,
        degrees=only("rotate", sign * (30 * part).floor()),
        shear_x=only("shear_x", sign * 0.3 * part),
        shear_y=only("shear_y", sign * 0.3 * part),
        translate_x=only("translate_x", sign * (width / 3 * part).floor()),
        translate_y=only("translate_y", sign * (height / 3 * part).floor()),
    )
    tables = {
        "autocontrast": autocontrast(images),
        "equalize": equalize(images),
        "posterize": posterize(images, 4 - (4 * part).floor()),
        "solarize": solarize(images, 256 - (256 * part).floor()),
    }
    table = unchanged(images)
    for name, other in tables.items():
        table = other.where((drawn == OPERATIONS.index(name))[:, None, None], table)
    return through(warp(images, moved), table)


def _uniform(like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.rand(like.shape, device=like.device, generator=generator)
