"""Pickles from outside, read by an unpickler that knows numpy arrays and nothing else.

CIFAR and some MNIST packages come as pickles. A pickle can name any function; here only the two that rebuild an array
and what old protocols need for bytes are answered.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from poise.data.errors import DataUnsafe

_ARRAYS = {(f"numpy.{core}.multiarray", "_reconstruct") for core in ("core", "_core")}


class _Arrays(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ARRAYS:
            return _reconstruct
        if (module, name) in {("numpy", "ndarray"), ("numpy", "dtype")}:
            return getattr(np, name)
        if (module, name) == ("_codecs", "encode"):
            return _encode
        if (module, name) in {("__builtin__", "bytes"), ("builtins", "bytes")}:
            return _no_bytes
        raise DataUnsafe(f"the pickle asks for {module}.{name}; only numpy arrays are read")


def _reconstruct(kind: type, shape: tuple[int, ...], code: Any) -> np.ndarray:
    if kind is not np.ndarray:
        raise DataUnsafe(f"the pickle asks for an array of type {kind!r}; only numpy.ndarray is read")
    return np.ndarray.__new__(np.ndarray, (0,), "b")


def _encode(text: str, encoding: str) -> bytes:
    if encoding not in ("latin1", "latin-1", "ascii"):
        raise DataUnsafe(f"the pickle asks for the codec {encoding!r}")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    """How old protocols spell b""; with an argument it would be a way to ask for any amount of memory."""
    return b""


def arrays_from_pickle(data: bytes) -> Any:
    """What a pickle of containers, numbers, strings and numpy arrays holds; DataUnsafe for anything else."""
    try:
        return _Arrays(io.BytesIO(data), encoding="bytes").load()
    except DataUnsafe:
        raise
    except Exception as error:  # a broken pickle can raise anything
        raise DataUnsafe(f"the pickle cannot be read: {error}") from None
