"""Model inputs: a float tensor, or Tokens (the discrete case of Definitions 1 and 2).

A feature is one value of a float tensor [B, *D], or one removable token of a sentence [B, T].

Axes: B examples, *D features of one example (any number of axes), T token positions, P removals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import torch
import torch.fx
from torch import Tensor, nn

from poise.checks import require_choice, require_whole

Removal: TypeAlias = Literal["mask", "delete"]
_NO_IDS = (torch.bool, torch.complex64, torch.complex128)


@dataclass(frozen=True, eq=False)
class Tokens:
    """A batch of sentences, padded on either side.

    ids      [B, T] integers, one per position.
    mask     [B, T] True for a token; False for padding and for a removed token.
    special  [B, T] True for a token that is not a feature, such as [CLS] and [SEP]:
             it is never chosen and never removed. None: there are no such tokens.
    pad      the id of padding, which some models look for.
    most     an upper bound on the number of features of a sentence, if known. Code that removes tokens one by one then
             uses shapes that do not depend on values, which avoids a device synchronisation and allows CUDA graphs.
    gaps     [B, T] True for a hidden token that keeps its position: a model that counts positions by looking for
             padding must count these, too. None: there are none.

    >>> ids = torch.tensor([[101, 2307, 3185, 102, 0]])
    >>> Tokens(ids, mask=ids > 0, special=(ids == 101) | (ids == 102)).features.tolist()
    [[False, True, True, False, False]]
    """

    ids: Tensor
    mask: Tensor
    special: Tensor | None = None
    pad: int = 0
    most: int | None = None
    gaps: Tensor | None = None

    def __post_init__(self) -> None:
        _require_tensor("ids", self.ids)
        if self.ids.ndim != 2 or self.ids.dtype in _NO_IDS or self.ids.is_floating_point():
            raise ValueError(f"ids must be integers [B, T], got {self.ids.dtype} {tuple(self.ids.shape)}")
        _require_flags("mask", self.mask, self.ids)
        if self.special is not None:
            _require_flags("special", self.special, self.ids)
        if type(self.pad) is not int:
            require_whole("pad", self.pad)
        if self.most is not None and (type(self.most) is not int or self.most < 0):
            require_whole("most", self.most, least=0)
        object.__setattr__(self, "mask", self.mask.bool())
        object.__setattr__(self, "special", None if self.special is None else self.special.bool())

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: slice | Tensor) -> Tokens:
        return self._each(lambda part: part[rows])

    @property
    def features(self) -> Tensor:
        """[B, T] True where a token may be chosen and removed."""
        return self.mask if self.special is None else self.mask & ~self.special

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Tokens:
        return self._each(lambda part: part.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Tokens:
        return self._each(lambda part: part.pin_memory())

    def cut(self, width: int) -> Tokens:
        """The first `width` positions."""
        return self._each(lambda part: part[:, :width])

    def without(self, chosen: Tensor, how: Removal = "mask") -> Tokens:
        """The sentences without the chosen tokens [B, T].

        "mask" hides them and leaves every other token at its position;
        "delete" closes the gap towards the start, or towards the end of a sentence that is padded on the left.
        """
        require_choice("how", how, "mask", "delete")
        left = self.mask & ~chosen
        hidden = replace(self, ids=self.ids.where(left, self.pad), mask=left)
        if how == "mask":
            gone = self.mask & chosen
            return replace(hidden, gaps=gone if self.gaps is None else self.gaps | gone)
        padded_left = ~self.mask[:, :1] & self.mask[:, -1:]
        order = (
            (left == padded_left).to(torch.uint8).argsort(dim=1, stable=True)
        )  # in their old order, gaps last, or first if padded on the left
        return hidden._each(lambda part: part.gather(1, order))

    def _each(self, change: Callable[[Tensor], Tensor]) -> Tokens:
        special, gaps = (None if part is None else change(part) for part in (self.special, self.gaps))
        return Tokens(change(self.ids), change(self.mask), special, self.pad, self.most, gaps)

    def clone(self) -> Tokens:
        return self._each(torch.clone)


Input: TypeAlias = Tensor | Tokens


def _require_tensor(name: str, value: Tensor) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor, not a {type(value).__name__}: use torch.as_tensor({name})")


def _require_flags(name: str, flags: Tensor, ids: Tensor) -> None:
    """Raise unless flags are booleans shaped like the ids, or a tokenizer's 0 and 1; values are checked on the CPU
    only.
    """
    _require_tensor(name, flags)
    if flags.shape != ids.shape or flags.is_floating_point() or flags.is_complex():
        raise ValueError(f"{name} must be booleans {tuple(ids.shape)}, got {flags.dtype} {tuple(flags.shape)}")
    looked_at = flags.dtype != torch.bool and flags.device.type == "cpu" and not torch.compiler.is_compiling()
    if looked_at and not ((flags == 0) | (flags == 1)).all():
        raise ValueError(f"{name} must be booleans, or 0 and 1, got numbers up to {int(flags.max())}")


def valid_features(x: Input) -> Tensor | None:
    """[B, T] the features that may be chosen; None for a tensor, where every value may be."""
    return x.features if isinstance(x, Tokens) else None


def shape_of(x: Input) -> torch.Size:
    """[B, *D] or [B, T]: the shape of a utility or a sensitivity of x."""
    return x.ids.shape if isinstance(x, Tokens) else x.shape


def device_of(x: Input) -> torch.device:
    return x.ids.device if isinstance(x, Tokens) else x.device


def concatenate(first: Input, second: Input) -> Input:
    """Concatenate two batches of the same kind."""
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return torch.cat([first, second])
    if not isinstance(first, Tokens) or not isinstance(second, Tokens):
        raise TypeError(f"first and second must be of one kind, not {type(first).__name__}, {type(second).__name__}")
    most = None if first.most is None or second.most is None else max(first.most, second.most)
    special = None if first.special is None or second.special is None else torch.cat([first.special, second.special])
    gaps = None
    if first.gaps is not None or second.gaps is not None:
        gaps = torch.cat([torch.zeros_like(x.mask) if x.gaps is None else x.gaps for x in (first, second)])
    ids, mask = torch.cat([first.ids, second.ids]), torch.cat([first.mask, second.mask])
    return Tokens(ids, mask, special, first.pad, most, gaps)


def without_each(
    x: Tokens, how: Removal, size: int, words: Tensor | None = None
) -> Iterator[tuple[Tensor, Tensor, Tokens]]:
    """Yield every sentence without each of its tokens, or without each of its words, `size` of them at a time.

    words  [B, T] the number of the word that a token is a piece of, -1 for none; all its pieces are removed together.

    Yields (rows [P], numbers [P], sentences): sentence p is x[rows[p]] without the token at position numbers[p], or
    without the word of that number. Padding and special tokens are skipped. If x.most is known, a sentence with fewer
    tokens is also yielded unchanged, under positions that are not features, to fill up the shape.
    """
    places = torch.arange(x.ids.shape[1], device=x.ids.device)
    parts = places.where(x.features, -1) if words is None else words.where(x.features, -1)  # [B, T]
    pairs = _removals(x, parts, words is None)
    for rows, numbers in (pair.unbind(1) for pair in torch.split(pairs, size) if len(pairs)):
        yield rows, numbers, x[rows].without(parts[rows] == numbers[:, None], how)


def _removals(x: Tokens, parts: Tensor, single: bool) -> Tensor:
    """[P, 2] the row and number of every feature that can be removed."""
    if single and x.most is not None:
        first = (~x.features).to(torch.uint8).argsort(dim=1, stable=True)[:, : x.most]  # features before others
        rows = torch.arange(len(x), device=x.ids.device)[:, None].expand_as(first)
        return torch.stack([rows, first], 2).flatten(0, 1)
    if single:
        return x.features.nonzero()
    counts = parts.amax(1, keepdim=True) + 1
    return (torch.arange(int(counts.max()), device=x.ids.device) < counts).nonzero()


def require_pictures(x: Tensor, stem: nn.Conv2d, exact: bool = True) -> None:
    """Raise unless x is a batch of images for a network that starts with `stem`. Checks type and shape only.

    exact  x must have the dtype of the weights; otherwise it may have a lower precision, since it is normalised first.
    """
    if torch.compiler.is_compiling() or isinstance(x, torch.fx.Proxy):
        return
    if not isinstance(x, Tensor):
        raise TypeError(f"x must be a tensor of images [B, C, H, W], not a {type(x).__name__}")
    if not x.is_floating_point():
        raise TypeError(f"x is {x.dtype}, must be images in [0, 1]: convert them with x.float() / 255")
    if x.ndim != 4 or x.shape[1] != stem.in_channels:
        raise ValueError(f"x must be images [B, C, H, W] with {stem.in_channels} channels, got {list(x.shape)}")
    weight = stem.weight.dtype
    fits = x.dtype == weight or (not exact and torch.promote_types(x.dtype, weight) == weight)
    if not fits and not torch.is_autocast_enabled(x.device.type):
        raise TypeError(f"x is {x.dtype}, the model's weights are {weight}: convert x, or use torch.autocast")
