"""Pictures inside a page: arrays as PNG, as a data URI, without a package more.

Axes: H rows, W columns.
"""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

from poise.reporting.colours import Ramp, colour


def data_uri(pixels: np.ndarray) -> str:
    """uint8 [H, W] or [H, W, 3] as `data:image/png;base64,...`."""
    return f"data:image/png;base64,{base64.b64encode(png(pixels)).decode()}"


def png(pixels: np.ndarray) -> bytes:
    """The bytes of a PNG file; every line is stored as it is (filter 0)."""
    height, width = pixels.shape[:2]
    kind = 0 if pixels.ndim == 2 else 2
    lines = np.ascontiguousarray(pixels, dtype=np.uint8).reshape(height, -1)
    raw = np.concatenate([np.zeros((height, 1), np.uint8), lines], 1).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(raw, 9)) + _chunk(b"IEND", b"")
    )


def painted(values: np.ndarray, ramp: Ramp) -> np.ndarray:
    """Shares from 0 to 1 [H, W] in the colours of a ramp [H, W, 3]."""
    names = [colour(ramp, level / 255) for level in range(256)]
    table = np.array([[int(name[at : at + 2], 16) for at in (1, 3, 5)] for name in names], dtype=np.uint8)
    found: np.ndarray = table[np.clip(values * 255, 0, 255).round().astype(int)]
    return found


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
