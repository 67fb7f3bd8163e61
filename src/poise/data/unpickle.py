"""Pickles from outside, read without trusting them: containers, numbers, strings and plain numpy arrays.

CIFAR and some MNIST packages come as pickles. A pickle can name any function, and even numpy's own types can be rebuilt
into something that reads foreign memory. So no name is looked up: the few that arrays need are answered by stand-ins,
which only note what the pickle says; the arrays are then built here, from plain types and checked sizes.

A few bytes can also ask for any amount of memory: by references that double ([x, x] of [y, y] of ...), by a far place
in the memo, by empty containers without end. So what is built may not be larger than the pickle, places are counted,
and steps too.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Callable
from typing import Any

import numpy as np

from poise.data.errors import DataUnsafe

PLAIN = {"u1", "i1", "b1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"}

MOST_STEPS = 2_000_000  # CIFAR-100, with a name for every picture, takes about 200,000
PUTS = ("PUT", "BINPUT", "LONG_BINPUT")


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


class _Bytes:
    """Stands for bytes as old protocols spell them, a text in latin1."""

    def __init__(self, text: str = "", encoding: str = "latin1") -> None:
        self.text = text
        if encoding != "latin1" or not isinstance(text, str):
            raise DataUnsafe(f"the pickle asks for the codec {encoding!r}")

    def __setstate__(self, state: object) -> None:
        raise DataUnsafe("the pickle asks to change bytes")


class _Function:
    """Stands for a function: it can be called, and not be changed."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., object]) -> None:
        self.call = call

    def __call__(self, *arguments: object) -> object:
        return self.call(*arguments)

    def __setstate__(self, state: object) -> None:
        raise DataUnsafe("the pickle asks to change a function")


def _reconstruct(kind: object, shape: object, code: object) -> _Array:
    return _Array()


def _no_bytes() -> bytes:
    """How old protocols spell b""; with an argument it would be a way to ask for any amount of memory."""
    return b""


ANSWERS: dict[tuple[str, str], object] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("numpy.core.multiarray", "_reconstruct"): _Function(_reconstruct),
    ("numpy._core.multiarray", "_reconstruct"): _Function(_reconstruct),
    ("_codecs", "encode"): _Bytes,
    ("__builtin__", "bytes"): _Function(_no_bytes),
    ("builtins", "bytes"): _Function(_no_bytes),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ANSWERS:
            raise DataUnsafe(f"the pickle asks for {module}.{name}; only numpy arrays are read")
        return ANSWERS[module, name]


def arrays_from_pickle(data: bytes) -> Any:
    """What a pickle of containers, numbers, strings and numpy arrays holds; DataUnsafe for anything else."""
    try:
        _require_few_steps(data)
        return _Builder(len(data)).build(_Unpickler(io.BytesIO(data), encoding="bytes").load())
    except DataUnsafe:
        raise
    except Exception as error:  # a broken pickle can raise anything
        raise DataUnsafe(f"the pickle cannot be read: {error}") from None


def _require_few_steps(data: bytes) -> None:
    """Read the steps without taking them; none may put a thing further away than there are things."""
    for step, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        if step >= MOST_STEPS:
            raise DataUnsafe(f"the pickle takes more than {MOST_STEPS} steps: no set has such a file")
        if opcode.name in PUTS and isinstance(argument, int) and argument > step:
            raise DataUnsafe(f"the pickle asks for {argument} places after {step} steps")


class _Builder:
    """Turns stand-ins into what they stand for, as long as there is room: every thing takes at least one byte."""

    def __init__(self, room: int) -> None:
        self.room = room

    def build(self, value: Any) -> Any:
        self._take(1)
        if isinstance(value, _Array):
            return self._array(value)
        if isinstance(value, dict):
            return {self.build(key): self.build(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)([self.build(item) for item in value])
        if isinstance(value, _Bytes):
            self._take(len(value.text))
            return value.text.encode("latin1")
        if isinstance(value, str | bytes):
            self._take(len(value))
        if isinstance(value, str | bytes | int | float | bool | None):
            return value
        raise DataUnsafe(f"the pickle holds a {type(value).__name__}; only numpy arrays are read")

    def _array(self, array: _Array) -> np.ndarray:
        data = self.build(array.data)
        if not isinstance(array.type, _Type) or not isinstance(data, bytes):
            raise DataUnsafe("the pickle holds an array that is not plain numbers")
        values = np.frombuffer(data, np.dtype(array.type.order + array.type.code))
        return values.reshape(array.shape, order="F" if array.fortran else "C")

    def _take(self, size: int) -> None:
        self.room -= size
        if self.room < 0:
            raise DataUnsafe("the pickle unfolds to more than it holds")
