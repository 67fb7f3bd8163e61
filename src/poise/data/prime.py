"""PRIME (Modas et al. 2022): chains of three primitives with random coefficients, mixed as in AugMix.

    filter   x * (delta + sigma n),                      n ~ N(0, 1) for each of 3 x 3 taps,  sigma ~ U(0, 4)
    warp     x(p - tau(p)),   tau = sqrt(T) sum_ij c_ij sin(i pi p_x) sin(j pi p_y),   c_ij ~ N(0, 1 / (i^2 + j^2))
    color    x + sqrt(T) sum_k n_k sin(k pi x),          k up to a cutoff, per channel,       T ~ U(0, 0.01)

A warp has the modes with i^2 + j^2 up to its cutoff; its T lies between half a pixel's displacement and the largest one
without folds. All draws, also cutoffs and strengths, are made for each image. Results are clipped to [0, 1].

On pixels, a mode above the highest frequency of a side looks like a lower one. Their variances are added beforehand, so
that a field is drawn from as many modes as the image can show.

Axes: B images, K chains, C channels, H rows, W columns, I and J modes along rows and columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from poise.checks import require_number, require_whole
from poise.data.augment import require_levels
from poise.data.augmix import mixture

_LEAST_CUT = 2
_LEVELS = 2048  # points at which a change of color is evaluated; it is linear between them


@dataclass(frozen=True)
class PRIME:
    """`width` chains of 1 to `depth` primitives. The defaults are those for CIFAR."""

    width: int = 3
    depth: int = 3
    sigma: float = 4.0
    cut: int = 100
    color: float = 0.01

    def __post_init__(self) -> None:
        for name, least in (("width", 1), ("depth", 1), ("cut", _LEAST_CUT + 1)):
            require_whole(name, getattr(self, name), least=least)
        require_number("sigma", self.sigma, least=0)
        require_number("color", self.color, least=0)

    def __call__(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """x [B, C, H, W] in [0, 1] → the same shape."""
        require_levels(x)
        with torch.autocast(x.device.type, enabled=False):  # matrix products in half precision would lose levels
            chains = x.float().contiguous().repeat(self.width, 1, 1, 1)
            depth = torch.randint(1, self.depth + 1, (len(chains), 1, 1, 1), device=x.device, generator=generator)
            for step in range(self.depth):
                drawn = torch.randint(3, depth.shape, device=x.device, generator=generator)
                filtered = random_filter(chains, self.sigma, generator)
                warped = random_warp(chains, self.cut, generator)
                colored = random_color(chains, self.cut, self.color, generator)
                changed = torch.where(drawn == 0, filtered, torch.where(drawn == 1, warped, colored))
                chains = changed.where(step < depth, chains)
            return mixture(x, chains.view(self.width, *x.shape), 1, generator)


def random_filter(x: Tensor, sigma: float, generator: torch.Generator | None) -> Tensor:
    """Each image correlated with its own 3 x 3 taps, the same for all channels; black outside."""
    height, width = x.shape[2:]
    taps = torch.randn(len(x), 9, device=x.device, generator=generator) * (sigma * _uniform(x, generator))[:, None]
    padded, result = F.pad(x, (1, 1, 1, 1)), x.clone()
    for place, weight in enumerate(taps.unbind(1)):
        row, column = divmod(place, 3)
        result += weight[:, None, None, None] * padded[:, :, row : row + height, column : column + width]
    return result.clamp(0, 1)


def random_warp(x: Tensor, cut: int, generator: torch.Generator | None) -> Tensor:
    """Each image bilinearly sampled at displaced places, clamped to the image."""
    height, width = x.shape[2:]
    most = torch.randint(_LEAST_CUT + 1, cut + 1, (len(x),), device=x.device, generator=generator)
    modes = (_arcsine(x, generator) * (most + 1 - _LEAST_CUT)).long() + _LEAST_CUT
    modes = modes.minimum(most)
    least, largest = temperatures(min(height, width), modes)
    strength = (least + _arcsine(x, generator) * (largest - least)).sqrt()
    spread, rows, columns = wave_modes(height, width, cut, x.device)
    drawn = torch.randn(2, len(x), *spread.shape[1:], device=x.device, generator=generator) * spread[modes]
    right, down = strength[:, None, None] * (rows.T @ drawn @ columns)  # [2, B, H, W]
    return bilinear(x, down * height, right * width)


def temperatures(side: int, modes: Tensor) -> tuple[Tensor, Tensor]:
    """T of half a pixel's displacement, and the larger of it and the largest T without folds, each [B]."""
    log = (modes + 1e-6).log()
    least = 1 / (math.pi * side**2 * log)
    return least, least.maximum(4 / (math.pi**3 * modes**2 * log))


@lru_cache(16)
def wave_modes(height: int, width: int, cut: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """The deviations of the modes for every cutoff [cut + 1, I, J], and the modes on rows [I, H] and columns [J, W]."""
    with torch.inference_mode(False):
        number = torch.arange(1, cut + 1, dtype=torch.float64)
        square = number[:, None] ** 2 + number**2
        limit = torch.arange(cut + 1, dtype=torch.float64)[:, None, None] + 0.5
        variance = (square.sqrt() < limit) / square  # [cut + 1, cut, cut]
        shown = [_folded(size, cut) for size in (height, width)]
        spread = (shown[0].T @ variance @ shown[1]).sqrt()
        rows, columns = (_sines(size, fold.shape[1]) for size, fold in zip((height, width), shown, strict=True))
        return spread.float().to(device), rows.float().to(device), columns.float().to(device)


def _folded(size: int, cut: int) -> Tensor:
    """Which mode on `size` pixels each mode up to the cutoff looks like [cut, shown]; modes that vanish have none."""
    period = 2 * (size - 1)
    place = torch.arange(1, cut + 1) % period
    place = torch.minimum(place, period - place)
    return (place[:, None] == torch.arange(1, min(cut, size - 2) + 1)).double()


def _sines(size: int, count: int) -> Tensor:
    place = torch.linspace(0, 1, size, dtype=torch.float64)
    return (math.pi * torch.arange(1, count + 1)[:, None] * place).sin()


def bilinear(x: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """x at (row - down, column - right), both [B, H, W]."""
    height, width = x.shape[2:]
    rows = (torch.arange(height, device=x.device)[:, None] - down).clamp(0, height - 1)
    columns = (torch.arange(width, device=x.device) - right).clamp(0, width - 1)
    top, left = rows.floor(), columns.floor()
    lower, beside = (rows - top)[:, None], (columns - left)[:, None]
    flat = x.flatten(2)

    def at(row: Tensor, column: Tensor) -> Tensor:
        place = (row.clamp(max=height - 1) * width + column.clamp(max=width - 1)).long()
        return flat.gather(2, place.flatten(1)[:, None].expand_as(flat)).view_as(x)

    upper = torch.lerp(at(top, left), at(top, left + 1), beside.expand_as(x))
    return torch.lerp(upper, torch.lerp(at(top + 1, left), at(top + 1, left + 1), beside), lower)


def random_color(x: Tensor, cut: int, most: float, generator: torch.Generator | None) -> Tensor:
    """Each channel through its own sum of sines, which keeps 0 and 1."""
    modes = torch.randint(1, cut + 1, (len(x), 1, 1), device=x.device, generator=generator)
    heat = (most * _uniform(x, generator)).sqrt()[:, None, None]
    drawn = heat * torch.randn(*x.shape[:2], cut, device=x.device, generator=generator)
    drawn = drawn.where(torch.arange(1, cut + 1, device=x.device) <= modes, 0)
    curve = drawn @ _curves(cut, x.device)  # [B, C, levels + 1]
    place = x.clamp(0, 1).flatten(2) * _LEVELS
    first = place.floor().clamp(max=_LEVELS - 1)
    index = first.long()
    change = torch.lerp(curve.gather(2, index), curve.gather(2, index + 1), place - first)
    return (x + change.view_as(x)).clamp(0, 1)


@lru_cache(16)
def _curves(cut: int, device: torch.device) -> Tensor:
    with torch.inference_mode(False):
        return _sines(_LEVELS + 1, cut).float().to(device)


def _uniform(x: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.rand(len(x), device=x.device, generator=generator)


def _arcsine(x: Tensor, generator: torch.Generator | None) -> Tensor:
    """Beta(1/2, 1/2), [B] in [0, 1)."""
    return (math.pi / 2 * _uniform(x, generator)).sin() ** 2
