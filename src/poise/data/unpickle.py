"""Pickles from outside, read without trusting them: containers, numbers, strings and plain numpy arrays.

CIFAR and some MNIST packages come as pickles. A pickle can name any function, and even numpy's own types can be rebuilt
into something that reads foreign memory. So no name is looked up: the few that arrays need are answered by stand-ins,
which only note what the pickle says; the arrays are then built here, from plain types and checked sizes.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from poise.data.errors import DataUnsafe

PLAIN = {"u1", "i1", "b1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"}


class _Type:
    """Stands for numpy.dtype: a plain type and its byte order."""

    def __init__(self, code: str | bytes, *flags: object) -> None:
        self.code = code.decode("latin1") if isinstance(code, bytes) else code
        self.order = "|"
        if self.code not in PLAIN:
            raise DataUnsafe(f"the pickle asks for an array of {self.code!r}; only plain numbers are read")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1].decode("latin1") if isinstance(state[1], bytes) else state[1]
        if order not in ("<", ">", "|", "=") or any(part is not None for part in state[2:5]):
            raise DataUnsafe("the pickle asks for a structured array; only plain numbers are read")
        self.order = order


class _Array:
    """Stands for numpy.ndarray: shape, type, order of axes and bytes."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, self.shape, self.type, self.fortran, self.data = state

    def build(self) -> np.ndarray:
        if not isinstance(self.type, _Type) or not isinstance(self.data, bytes):
            raise DataUnsafe("the pickle holds an array that is not plain numbers")
        values = np.frombuffer(self.data, np.dtype(self.type.order + self.type.code))
        return values.reshape(self.shape, order="F" if self.fortran else "C")


def _reconstruct(kind: object, shape: object, code: object) -> _Array:
    return _Array()


def _encode(text: str, encoding: str) -> bytes:
    """How old protocols spell bytes."""
    if encoding != "latin1":
        raise DataUnsafe(f"the pickle asks for the codec {encoding!r}")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    """How old protocols spell b""; with an argument it would be a way to ask for any amount of memory."""
    return b""


ANSWERS: dict[tuple[str, str], object] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): _no_bytes,
    ("builtins", "bytes"): _no_bytes,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ANSWERS:
            raise DataUnsafe(f"the pickle asks for {module}.{name}; only numpy arrays are read")
        return ANSWERS[module, name]


def arrays_from_pickle(data: bytes) -> Any:
    """What a pickle of containers, numbers, strings and numpy arrays holds; DataUnsafe for anything else."""
    try:
        return _built(_Unpickler(io.BytesIO(data), encoding="bytes").load())
    except DataUnsafe:
        raise
    except Exception as error:  # a broken pickle can raise anything
        raise DataUnsafe(f"the pickle cannot be read: {error}") from None


def _built(value: Any) -> Any:
    if isinstance(value, _Array):
        return value.build()
    if isinstance(value, dict):
        return {_built(key): _built(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_built(item) for item in value)
    if isinstance(value, str | bytes | int | float | bool | None):
        return value
    raise DataUnsafe(f"the pickle holds a {type(value).__name__}; only numpy arrays are read")
