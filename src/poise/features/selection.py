"""Top_k and Bottom_k of utility (Definition 3): which features count as most and least useful.

    count      k features on each side
    fraction   k = max(1, ceil(fraction * number of valid features)), example by example

Ties are broken at random. An example with fewer than 2k valid features gets no features at all: it drops out of the
contrastive term. Padding and special tokens are not valid, so they are never chosen.

Axes: B examples, *D features of one example, N = their number (or that of its pixels), C channels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Literal, Protocol, TypeAlias

import torch
from torch import Tensor

from poise.checks import require_choice, require_number, require_whole
from poise.losses import traced

Unit: TypeAlias = Literal["value", "pixel"]
_LARGEST = 0x7FFFFFFF


class Selection(Protocol):
    def check(self, shape: torch.Size) -> None:
        """Raise if an input of shape [B, *D] has too few features, even when all of them are valid."""

    def __call__(
        self, u: Tensor, valid: Tensor | None = None, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """u [B, *D], valid [B, *D] → low, high: boolean masks [B, *D]."""


@dataclass(frozen=True)
class TopBottom:
    """The k least and the k most useful features of each example.

    per="value" ranks every value separately. per="pixel" selects all channels (axis 1) of a pixel together and ranks it
    by the norm of its utilities, which is proportional to the effect of Gaussian noise on the loss.

    >>> least, most = TopBottom(k=1)(torch.tensor([[0.3, 0.1, 0.9]]))
    >>> least.tolist(), most.tolist()
    ([[False, True, False]], [[False, False, True]])
    """

    k: int
    per: Unit = "value"

    def __post_init__(self) -> None:
        require_whole("k", self.k, least=1)
        require_choice("per", self.per, "value", "pixel")

    def check(self, shape: torch.Size) -> None:
        num_features = _num_features(shape, self.per)
        if 2 * self.k > num_features:
            raise ValueError(f"k={self.k} needs 2k <= {num_features} features ({self.per}s of {list(shape[1:])})")

    def __call__(
        self, u: Tensor, valid: Tensor | None = None, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        _check_utility(u)
        if valid is None:
            self.check(u.shape)
        return _choose(u, valid, self.per, lambda num_valid: torch.full_like(num_valid, self.k), generator)


@dataclass(frozen=True)
class TopBottomFraction:
    """The least and the most useful fraction of each example's valid features; `per` as in TopBottom."""

    fraction: float
    per: Unit = "value"

    def __post_init__(self) -> None:
        require_number("fraction", self.fraction)
        if not 0 < self.fraction <= 0.5:
            raise ValueError(f"fraction={self.fraction} must lie in (0, 0.5], so that the two sides do not overlap")
        require_choice("per", self.per, "value", "pixel")

    def check(self, shape: torch.Size) -> None:
        if _num_features(shape, self.per) < 2:
            raise ValueError(f"an example needs at least 2 features, got shape {list(shape[1:])}")

    def __call__(
        self, u: Tensor, valid: Tensor | None = None, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        _check_utility(u)
        if valid is None:
            self.check(u.shape)
        return _choose(u, valid, self.per, self._k, generator)

    def _k(self, num_valid: Tensor) -> Tensor:
        # 0.07 * 100 is 7.000000000000001 in floats: without this correction, k would be 8.
        return (self.fraction * num_valid.double() - 1e-6).ceil().long().clamp(min=1)


@dataclass(frozen=True)
class AtRandom:
    """k random features on each side, whatever their utility: the control for TopBottom."""

    k: int
    per: Unit = "value"

    def __post_init__(self) -> None:
        TopBottom(self.k, self.per)

    def check(self, shape: torch.Size) -> None:
        TopBottom(self.k, self.per).check(shape)

    def __call__(
        self, u: Tensor, valid: Tensor | None = None, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        _check_utility(u)
        drawn = torch.rand(u.shape, device=u.device, generator=generator)
        return TopBottom(self.k, self.per)(drawn, valid, generator)


@dataclass(frozen=True)
class AtRandomFraction:
    """A random fraction of each example's valid features on each side, whatever their utility."""

    fraction: float
    per: Unit = "value"

    def __post_init__(self) -> None:
        TopBottomFraction(self.fraction, self.per)

    def check(self, shape: torch.Size) -> None:
        TopBottomFraction(self.fraction, self.per).check(shape)

    def __call__(
        self, u: Tensor, valid: Tensor | None = None, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        _check_utility(u)
        drawn = torch.rand(u.shape, device=u.device, generator=generator)
        return TopBottomFraction(self.fraction, self.per)(drawn, valid, generator)


def _choose(
    u: Tensor,
    valid: Tensor | None,
    per: Unit,
    count: Callable[[Tensor], Tensor],
    generator: torch.Generator | None,
) -> tuple[Tensor, Tensor]:
    _num_features(u.shape, per)
    values = torch.linalg.vector_norm(u, dim=1, keepdim=True) if per == "pixel" else u
    rows = values.flatten(1)  # [B, N]
    usable = torch.ones_like(rows, dtype=torch.bool) if valid is None else _usable(valid, u, per)
    order = _ascending(rows.masked_fill(~usable, torch.nan), generator)  # sort puts NaN last
    num_valid = usable.sum(1, keepdim=True)
    k = count(num_valid)
    place = torch.arange(rows.shape[1], device=u.device).expand_as(rows)
    enough = num_valid >= 2 * k
    low = _at(order, enough & (place < k)) & usable
    high = _at(order, enough & (place >= num_valid - k) & (place < num_valid)) & usable
    return low.view_as(values).expand_as(u), high.view_as(values).expand_as(u)


def _ascending(rows: Tensor, generator: torch.Generator | None) -> Tensor:
    """[B, N] the features of each row in ascending order; ties in one random order that all rows share."""
    shuffled = torch.randperm(rows.shape[1], device=rows.device, generator=generator)
    mixed = rows.index_select(1, shuffled)
    return shuffled[_order_by_keys(mixed) if _sorts_keys(mixed) else mixed.argsort(dim=1, stable=True)]


def _sorts_keys(rows: Tensor) -> bool:
    return rows.device.type == "cpu" and rows.dtype == torch.float32 and not traced(rows) and _has_numpy()


@cache
def _has_numpy() -> bool:
    return find_spec("numpy") is not None


def _order_by_keys(rows: Tensor) -> Tensor:
    """rows.argsort(dim=1, stable=True) of float32 on a CPU, in a tenth of the time.

    NumPy sorts whole numbers with vector instructions. A key has the place of a value in its low half. In its high half
    it has the value's bits, whose order as whole numbers is that of the values once those of negative ones are flipped.
    """
    bits = (rows + 0.0).view(torch.int32)  # -0.0 is 0.0
    ranks = (bits ^ ((bits >> 31) & _LARGEST)).masked_fill_(rows.isnan(), _LARGEST)  # NaN is last
    keys = (ranks.long() << 32) | torch.arange(rows.shape[1])
    keys.numpy().sort(axis=1)
    return keys & 0xFFFFFFFF


def _at(order: Tensor, chosen: Tensor) -> Tensor:
    """Turn a choice among sorted positions into a mask over the features."""
    return torch.zeros_like(chosen).scatter(1, order, chosen)


def _check_utility(u: Tensor) -> None:
    """Raise unless u has one number per feature. Checks type and shape only, not values."""
    if not isinstance(u, Tensor) or not u.is_floating_point():
        kind = u.dtype if isinstance(u, Tensor) else type(u).__name__
        raise TypeError(f"u must be a tensor of floats [B, *D], the features' utility, got {kind}")
    if u.ndim < 2:
        raise ValueError(f"u must have one utility per feature [B, *D], got shape {list(u.shape)}")


def _usable(valid: Tensor, u: Tensor, per: Unit) -> Tensor:
    if not isinstance(valid, Tensor):
        raise TypeError(f"valid must be a tensor of booleans, got {type(valid).__name__}")
    if valid.dtype != torch.bool:
        raise TypeError(f"valid must be a tensor of booleans, got {valid.dtype}")
    if valid.shape != u.shape:
        raise ValueError(f"valid has shape {list(valid.shape)}, utility has {list(u.shape)}")
    return (valid.all(dim=1, keepdim=True) if per == "pixel" else valid).flatten(1)


def check_unit(select: Selection, shape: torch.Size) -> None:
    """Raise if the selection is per pixel and features of shape [B, *D] have no pixels."""
    _num_features(shape, getattr(select, "per", "value"))


def _num_features(shape: torch.Size, per: Unit) -> int:
    if per == "pixel" and len(shape) < 3:
        raise ValueError(f'per="pixel" needs channels and places [B, C, ...], got {list(shape)}: use per="value"')
    return shape[1:].numel() if per == "value" else shape[2:].numel()
