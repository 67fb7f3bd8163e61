"""Arrays of .npy files: the header must announce what the file holds, to the byte.

Numpy itself takes a longer file, and so reads a changed header as another array.
"""

from __future__ import annotations

import io
import math
import os
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from poise.io.files import regular

LONGEST_HEADER = 2**16


class _Header(NamedTuple):
    dtype: np.dtype
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    end: int


def map_npy(path: Path) -> np.ndarray:
    """The array of a file, memory-mapped and read-only; a ValueError says what is wrong with it."""
    with regular(path).open("rb") as stream:
        header = _read_header(stream.read(LONGEST_HEADER), os.fstat(stream.fileno()).st_size)
        if 0 in header.shape:  # nothing to map
            return np.zeros(header.shape, header.dtype)
        return np.memmap(stream, header.dtype, "r", header.end, header.shape, header.order)


def npy_from(data: bytes) -> np.ndarray:
    """The array in these bytes, which it shares; a ValueError says what is wrong with them."""
    header = _read_header(data[:LONGEST_HEADER], len(data))
    values = np.frombuffer(data, header.dtype, math.prod(header.shape), header.end)
    return values.reshape(header.shape, order=header.order)


def _read_header(start: bytes, size: int) -> _Header:
    """Of a file of that size."""
    stream = io.BytesIO(start)
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(stream)
        announced = math.prod(shape) * dtype.itemsize
    except Exception:  # whatever a damaged header makes numpy raise
        raise ValueError("its header is damaged") from None
    if dtype.hasobject:
        raise ValueError("it holds Python objects, not numbers")
    if min(shape, default=0) < 0 or announced != size - stream.tell():
        raise ValueError(f"it announces {dtype} {shape} and holds {size - stream.tell()} bytes, not {announced}")
    return _Header(dtype, shape, "F" if fortran else "C", stream.tell())
