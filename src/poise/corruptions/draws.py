"""Random numbers of an image: the same for every batch size, order, device and number of workers.

    number i of an image = mix(key + (i + 1) * golden ratio),   key = mix(word(seed, label) + mix(index))

`mix` is SplitMix64 (Steele et al. 2014) and `word` 64 bits of a sha256. An image's numbers depend only on the seed, the
label (the corruption and its severity) and the image's index. A 64-bit number serves as two 32-bit numbers.

Axes: B images, n numbers.
"""

from __future__ import annotations

import math
from hashlib import sha256

import torch
from torch import Tensor


def signed(word: int) -> int:
    """The int64 with the bits of this uint64."""
    return word - (1 << 64) if word >> 63 else word


_GOLDEN, _FIRST, _SECOND = (signed(word) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class Random:
    """The numbers of a batch of images; every draw advances the stream."""

    def __init__(self, seed: int, label: str, index: Tensor) -> None:
        """index: int64 [B], one number per image that identifies it."""
        word = signed(int.from_bytes(sha256(f"{seed}/{label}".encode()).digest()[:8], "big"))
        self._keys = _mix(_mix(index.to(torch.int64)) + word)  # [B]
        self._drawn = 0

    def uniform(self, *shape: int) -> Tensor:
        """Float64 in (0, 1), never 0 or 1 [B, *shape]."""
        return self._uniform(math.prod(shape)).view(-1, *shape)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal float64 by Box and Muller [B, *shape]."""
        count = math.prod(shape)
        pairs = (count + 1) // 2
        first, second = self._uniform(2 * pairs).view(-1, 2, pairs).unbind(1)
        radius = first.log_().mul_(-2).sqrt_()
        angle = second.mul_(2 * math.pi)
        both = torch.cat([radius * angle.cos(), radius * angle.sin()], dim=1)
        return both[:, :count].reshape(-1, *shape)

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Int64 in [low, high) [B, *shape]."""
        return self.uniform(*shape).mul_(high - low).long() + low

    def _uniform(self, count: int) -> Tensor:
        words = self._bits((count + 1) // 2).view(torch.int32)[:, :count]
        return words.double().add_(2**31 + 0.5).mul_(2.0**-32)

    def _bits(self, count: int) -> Tensor:
        """The next numbers as int64 [B, n]."""
        steps = torch.arange(self._drawn + 1, self._drawn + count + 1, device=self._keys.device)
        self._drawn += count
        return _mix(self._keys[:, None] + steps * _GOLDEN)


class Deterministic:
    """A corruption that draws no numbers."""

    def draw(self, random: Random, images: Tensor) -> tuple[()]:
        return ()


def _mix(bits: Tensor) -> Tensor:
    """SplitMix64's finalizer. int64 products wrap as uint64 do, and a mask turns the arithmetic shift into a logical
    one.
    """
    bits = (bits ^ _shift(bits, 30)).mul_(_FIRST)
    bits = bits.bitwise_xor_(_shift(bits, 27)).mul_(_SECOND)
    return bits.bitwise_xor_(_shift(bits, 31))


def _shift(bits: Tensor, by: int) -> Tensor:
    return (bits >> by).bitwise_and_((1 << (64 - by)) - 1)
