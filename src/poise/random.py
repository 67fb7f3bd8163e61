"""A frozen random stream: the same numbers on every machine and in every version of every library.

Data that are drawn once and compared for years must not depend on how a library draws. SplitMix64 (Steele et al. 2014)
is four lines of integer arithmetic: number i of a stream is a fixed mix of key + (i + 1) * golden ratio.
"""

from __future__ import annotations

from hashlib import sha256

import numpy as np

_GOLDEN, _FIRST, _SECOND = (np.uint64(c) for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))

_BLOCK = 2**15  # numbers that stay in a processor's cache from one operation to the next


class Stream:
    """Random numbers named by a seed and any number of labels; every draw advances the stream."""

    def __init__(self, seed: int, *labels: object) -> None:
        name = "/".join(str(part) for part in (seed, *labels))
        self._key = np.uint64(int.from_bytes(sha256(name.encode()).digest()[:8], "big"))
        self._drawn = 0

    def skip(self, count: int) -> None:
        """Leave out the next `count` numbers."""
        self._drawn += count

    def bits(self, count: int) -> np.ndarray:
        """`count` random uint64."""
        bits = np.empty(count, np.uint64)
        for start in range(0, count, _BLOCK):
            part = bits[start : start + _BLOCK]
            part[...] = np.arange(self._drawn + 1, self._drawn + len(part) + 1, dtype=np.uint64)
            _mix(part, self._key)
            self._drawn += len(part)
        return bits

    def integers(self, high: int, count: int) -> np.ndarray:
        """`count` integers in [0, high), for high far below 2^32."""
        return as_integers(self.bits(count), high)

    def uniform(self, count: int) -> np.ndarray:
        """`count` floats in (0, 1), never 0 or 1."""
        return as_uniform(self.bits(count))

    def permutation(self, count: int) -> np.ndarray:
        """0, ..., count - 1 in random order."""
        return np.argsort(self.bits(count), kind="stable")


def _mix(numbers: np.ndarray, key: np.uint64) -> None:
    """Turn the positions i of a stream, starting at 1, into its numbers, in place."""
    with np.errstate(over="ignore"):
        numbers *= _GOLDEN
        numbers += key
        for shift, factor in ((30, _FIRST), (27, _SECOND)):
            numbers ^= numbers >> np.uint64(shift)
            numbers *= factor
        numbers ^= numbers >> np.uint64(31)


def as_integers(bits: np.ndarray, high: int) -> np.ndarray:
    """Random uint64 as integers in [0, high), for high far below 2^32."""
    return ((bits >> np.uint64(32)) * np.uint64(high) >> np.uint64(32)).astype(np.int64)


def as_uniform(bits: np.ndarray) -> np.ndarray:
    """Random uint64 as floats in (0, 1), never 0 or 1."""
    return ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
