"""Figures of an audit: curves over the strength of a perturbation, slices, and maps and bars of one example.

Axes: C channels, H rows, W columns of pixels.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from poise.reporting.audit_files import Audited
from poise.reporting.figures.svg import (
    WIDTH,
    Ramp,
    Scale,
    box,
    colour,
    drawing,
    frame,
    heading,
    line,
    polyline,
    scale_of,
    words,
)
from poise.reporting.rounding import number

USEFUL: Ramp = ((255, 255, 255), (252, 226, 180), (244, 170, 84), (196, 98, 24), (116, 48, 6))
SENSITIVE: Ramp = ((255, 255, 255), (196, 222, 240), (104, 164, 212), (36, 98, 168), (12, 44, 96))
_SLICES = 24  # of one column that are drawn
_COLUMNS = 40
_LETTER = 5.5  # units of width


def strength_plot(audited: Audited, what: str, title: str) -> Markup:
    """Near and far over the strengths of the perturbation, with intervals."""
    rows = audited.facts["perturbation"]
    sides = [[(row["strength"], row[f"{side}_{what}"]) for row in rows] for side in ("near", "far")]
    ends = [n[end] for side in sides for _, n in side for end in ("value", "low", "high") if n[end] is not None]
    x = scale_of([row["strength"] for row in rows], 46, WIDTH - 12)
    y = Scale(0, 1, 160, 26) if what == "accuracy" else scale_of([0.0, *ends], 160, 26)
    unit = "fraction of tokens removed" if audited.facts["data"]["kind"] == "tokens" else "sigma"
    parts = frame(x, y, title, unit)
    for place, side in enumerate(sides):
        points = [(at, n) for at, n in side if n["value"] is not None]
        parts += [polyline([(x(at), y(n["value"])) for at, n in points], f"mean s{place}")] if points else []
        for at, n in points:
            if n["low"] is not None:
                parts.append(line(x(at), y(n["low"]), x(at), y(n["high"]), f"interval s{place}"))
            parts.append(box(x(at) - 3, y(n["value"]) - 3, 6, 6, number(n["value"]), rx=3, class_=f"f{place}"))
    return drawing(192, f"{title} of {audited.name} under perturbation", *parts)


def slice_plot(column: str, entries: Sequence[dict[str, Any]], what: str) -> Markup:
    """A dot with its interval for each value of the column; of many values, the lowest ones."""
    known = [entry for entry in entries if entry["numbers"][what]["value"] is not None]
    known = sorted(known, key=lambda entry: float(entry["numbers"][what]["value"]))[:_SLICES]
    ends = [end for e in known for end in (e["numbers"][what]["low"], e["numbers"][what]["high"]) if end is not None]
    x = Scale(0, 1, 128, WIDTH - 12) if what == "accuracy" else scale_of([0.0, *ends], 128, WIDTH - 12)
    bottom = 26 + 15 * len(known)
    parts = [heading(12, f"{what.replace('_', ' ')} by {column}")]
    for place, entry in enumerate(known):
        held, y = entry["numbers"][what], 32 + 15 * place
        parts.append(words(122, y + 3.5, f"{str(entry['value'])[:14]} ({entry['examples']})", "small", "end"))
        if held["low"] is not None:
            parts.append(line(x(held["low"]), y, x(held["high"]), y, "interval s3"))
        parts.append(box(x(held["value"]) - 3.5, y - 3.5, 7, 7, number(held["value"]), rx=3.5, class_="f3"))
    parts.append(line(128, bottom, WIDTH - 12, bottom, "axis"))
    parts += [words(x(tick), bottom + 14, f"{tick:g}", "small", "middle") for tick in x.ticks(4)]
    return drawing(bottom + 20, f"{what} by {column}", *parts)


def bars(u: np.ndarray, s: np.ndarray, names: Sequence[str] = ()) -> Markup:
    """Utility up and sensitivity down, column by column; of many columns, those with the highest values."""
    up, down = u / max(u.max(), 1e-12), s / max(s.max(), 1e-12)
    shown = np.sort(np.argsort(-(up + down), kind="stable")[:_COLUMNS])
    step, middle, reach = (WIDTH - 20) / max(len(shown), 1), 70.0, 46.0
    parts = [words(10, 14, "utility up, sensitivity down", "small")]
    called = names if len(names) == len(u) else [f"feature {column}" for column in range(len(u))]
    named = called is names and step >= 4 * _LETTER
    for place, column in enumerate(shown):
        x, name = 10 + step * place, called[column]
        high, low = reach * up[column], reach * down[column]
        parts.append(box(x, middle - high, step * 0.8, high, f"{name}: utility {u[column]:.3g}", class_="f1"))
        parts.append(box(x, middle + 1, step * 0.8, low, f"{name}: sensitivity {s[column]:.3g}", class_="f3"))
        if named or step >= 12 or column % 5 == 0:
            short = name[: int(step / _LETTER)] if named else str(column)
            parts.append(words(x + step * 0.4, middle + reach + 14, short, "value", "middle"))
    return drawing(136, "Utility and sensitivity of one example, column by column", *parts)


def maps(x: np.ndarray, u: np.ndarray, s: np.ndarray) -> dict[str, str]:
    """The picture [C, H, W], its utility and its sensitivity by name, as data URIs."""
    low, high = min(0.0, float(x.min())), max(1.0, float(x.max()))
    pixels = ((x - low) / (high - low) * 255).round().astype(np.uint8).transpose(1, 2, 0)
    picture = pixels[:, :, 0] if pixels.shape[2] == 1 else pixels
    shown = {"picture": picture, "utility": _heat(u, USEFUL), "sensitivity": _heat(s, SENSITIVE)}
    return {name: f"data:image/png;base64,{base64.b64encode(png(image)).decode()}" for name, image in shown.items()}


def png(pixels: np.ndarray) -> bytes:
    """A PNG file of uint8 [H, W] or [H, W, 3], without filters."""
    height, width = pixels.shape[:2]
    kind = 0 if pixels.ndim == 2 else 2
    lines = np.ascontiguousarray(pixels, dtype=np.uint8).reshape(height, -1)
    raw = np.concatenate([np.zeros((height, 1), np.uint8), lines], 1).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    chunks = (_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(raw, 9)), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _heat(values: np.ndarray, ramp: Ramp) -> np.ndarray:
    """The norm over channels in the colours of a ramp, [H, W, 3]; the 99.5th percentile has the last colour."""
    strength = np.sqrt((values.astype(float) ** 2).sum(0))
    top = np.quantile(strength, 0.995) or strength.max() or 1.0
    names = [colour(ramp, level / 255) for level in range(256)]
    table = np.array([[int(name[at : at + 2], 16) for at in (1, 3, 5)] for name in names], dtype=np.uint8)
    found: np.ndarray = table[(np.clip(strength / top, 0, 1) * 255).round().astype(int)]
    return found
