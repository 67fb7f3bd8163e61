"""The most telling examples of an audit: maps beside a picture, token strips, or bars for the columns of a table.

Axes: C channels, H rows, W columns, T tokens.

Pictures inside a page: arrays as PNG, as a data URI, without a package more.

Axes: H rows, W columns.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from poise.reporting.audit_files import Audited
from poise.reporting.figures.svg import WIDTH, Ramp, box, colour, drawing, text_on, words
from poise.reporting.markup import Markup, element, join


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


USEFUL: Ramp = ((255, 255, 255), (252, 226, 180), (244, 170, 84), (196, 98, 24), (116, 48, 6))
SENSITIVE: Ramp = ((255, 255, 255), (196, 222, 240), (104, 164, 212), (36, 98, 168), (12, 44, 96))
_COLUMNS = 40
_LETTER = 5.5  # units of width


def examples(audited: Audited) -> Markup:
    """All of them, with why they were chosen."""
    entries = audited.facts["telling"]
    groups = list(dict.fromkeys(entry["why"] for entry in entries))
    parts = []
    for why in groups:
        held = [(n, entry) for n, entry in enumerate(entries) if entry["why"] == why]
        shown = [_example(audited, place, entry) for place, entry in held]
        wide = any("words" in entry for _, entry in held)
        parts += [
            element("h4", why[0].upper() + why[1:]),
            element("div", *shown, class_="sentences" if wide else "tiles"),
        ]
    return join(parts)


def _example(audited: Audited, place: int, entry: dict[str, Any]) -> Markup:
    x, u, s = (audited.arrays[f"{part}_{place}"] for part in "xus")
    if "words" in entry:
        drawn: Markup = strip(entry["words"], entry["feature"], u, s)
    elif x.ndim == 3 and x.shape[0] in (1, 3):
        drawn = tiles(x, u, s)
    else:
        drawn = bars(u.ravel(), s.ravel(), audited.facts["data"].get("feature_names") or ())
    return element("figure", drawn, element("figcaption", _caption(audited.facts, entry)))


def tiles(x: np.ndarray, u: np.ndarray, s: np.ndarray) -> Markup:
    """The picture [C, H, W], its utility and its sensitivity, in colours of the 99.5th percentile."""
    low, high = min(0.0, float(x.min())), max(1.0, float(x.max()))
    pixels = ((x - low) / (high - low) * 255).round().astype(np.uint8).transpose(1, 2, 0)
    picture = pixels[:, :, 0] if pixels.shape[2] == 1 else pixels
    shown = {"picture": picture, "utility": _map(u, USEFUL), "sensitivity": _map(s, SENSITIVE)}
    cells = [
        element("div", element("img", src=data_uri(image), alt=name, class_="pixels"), element("span", name))
        for name, image in shown.items()
    ]
    return element("div", *cells, class_="triple")


def strip(spoken: Sequence[str], feature: Sequence[bool], u: np.ndarray, s: np.ndarray) -> Markup:
    """Every token with its utility above its sensitivity; what cannot be removed stays plain."""
    shares = [values / max(float(values.max(initial=0.0)), 1e-12) for values in (u, s)]
    cells = []
    for place, word in enumerate(spoken):
        if not feature[place]:
            cells.append(element("span", element("span", word), class_="token special"))
            continue
        marks = [
            element("i", style=f"background: {colour(ramp, float(share[place]))}", title=f"{name} {values[place]:.3g}")
            for name, ramp, share, values in (
                ("utility", USEFUL, shares[0], u),
                ("sensitivity", SENSITIVE, shares[1], s),
            )
        ]
        back = colour(USEFUL, float(shares[0][place]))
        spoken_word = element("span", word, style=f"background: {back}; color: {text_on(back)}")
        cells.append(element("span", spoken_word, marks[1], class_="token"))
    return element("div", *cells, class_="strip")


def bars(u: np.ndarray, s: np.ndarray, names: Sequence[str] = ()) -> Markup:
    """Utility up and sensitivity down, column by column; of many columns those that matter most."""
    shown = np.sort(np.argsort(-(u / max(u.max(), 1e-12) + s / max(s.max(), 1e-12)), kind="stable")[:_COLUMNS])
    step, middle, reach = (WIDTH - 20) / max(len(shown), 1), 70.0, 46.0
    parts = [words(10, 14, "utility up, sensitivity down", "small")]
    named = len(names) == len(u) and step >= 4 * _LETTER

    def called(column: int) -> str:
        return names[column] if len(names) == len(u) else f"feature {column}"

    for place, column in enumerate(shown):
        up, down = reach * u[column] / max(u.max(), 1e-12), reach * s[column] / max(s.max(), 1e-12)
        x = 10 + step * place
        parts.append(box(x, middle - up, step * 0.8, up, f"{called(column)}: utility {u[column]:.3g}", class_="f1"))
        parts.append(
            box(x, middle + 1, step * 0.8, down, f"{called(column)}: sensitivity {s[column]:.3g}", class_="f3")
        )
        if named or step >= 12 or column % 5 == 0:
            short = called(column)[: int(step / _LETTER)] if named else str(column)
            parts.append(words(x + step * 0.4, middle + reach + 14, short, "value", "middle"))
    return drawing(136, "Utility and sensitivity of one example, column by column", *parts)


def _map(values: np.ndarray, ramp: Ramp) -> np.ndarray:
    strength = np.sqrt((values.astype(float) ** 2).sum(0))
    top = np.quantile(strength, 0.995) or strength.max() or 1.0
    return painted(np.clip(strength / top, 0, 1), ramp)


def _caption(facts: dict[str, Any], entry: dict[str, Any]) -> str:
    names = facts["data"]["class_names"]
    label, predicted = (names[n] if n < len(names) else str(n) for n in (entry["label"], entry["predicted"]))
    told = f"{label}" if label == predicted else f"{label}, taken for {predicted}"
    which = f"{entry.get('source') or 'example ' + str(entry['example'])}: " if entry["example"] >= 0 else ""
    parts = [f"{which}{told} ({entry['confidence']:.2f})"]
    for key, name in (("near_gain", "near"), ("far_gain", "far"), ("observed_rank_correlation", "rank correlation")):
        parts += [f"{name} {entry[key]:.2f}"] if entry[key] is not None else []
    return " · ".join(parts)
