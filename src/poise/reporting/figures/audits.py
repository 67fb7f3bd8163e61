"""Figures of an audit: curves over the strength of a perturbation, slices, and maps and bars of one example.

Axes: C channels, H rows, W columns of pixels.

The plane of an audit: the gain on the least useful features across, on the most useful ones up; 1 is neutral.

Regions are those of the verdict: over-robust below far = 1/4, brittle right of near = min(far, 1), the rest follows
utility; the two thresholds come from the audit. Both axes are logarithmic. Labels never overlap, however close the
points are (svg.py).
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from poise.reporting.figures.svg import (
    WIDTH,
    Box,
    Placed,
    Ramp,
    Scale,
    Wanted,
    box,
    colour,
    drawing,
    element,
    frame,
    heading,
    line,
    place_labels,
    polyline,
    scale_of,
    short,
    words,
)
from poise.reporting.statistics import number


@dataclass(frozen=True)
class Point:
    """A model in the plane: near and far gain, each (value, low, high); a reference ships with Poise."""

    name: str
    near: tuple[float, float, float]
    far: tuple[float, float, float]
    reference: bool = False


_WIDTH, _HEIGHT = 460, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, _WIDTH - 10, 26, _HEIGHT - 40
_TICKS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30)
_NAME, _NUMBER = (10.0, 18.0), (8.5, 14.0)  # width and height of a letter on a phone, where letters are largest
_LONGEST = 32  # letters of a name
_NAMED = 3  # more models are labelled by letters


def plane(points: Sequence[Point], thresholds: Mapping[str, float], references: Sequence[Point] = ()) -> Markup:
    """Models with the intervals of both gains, by name or, if there are many, by letter; references by number."""
    shown = [*points, *references]
    x = _axis([p.near for p in shown], _LEFT, _RIGHT)
    y = _axis([p.far for p in shown], _BOTTOM, _TOP)
    parts = [words(_LEFT, 14, "Gain on the most useful features", "title"), *_regions(x, y, thresholds), *_grid(x, y)]
    texts = [*(letters(points) or [_short(p.name) for p in points]), *(str(n + 1) for n in range(len(references)))]
    covered = [each for p in points for each in _model_covers(x, y, p)]
    covered += [Box.around(*_at(x, y, p), 9, 9) for p in references]
    places = place_labels(
        [
            Wanted(*_at(x, y, p), letter * len(text), high)
            for p, text, (letter, high) in zip(
                shown, texts, [_NAME] * len(points) + [_NUMBER] * len(references), strict=True
            )
        ],
        [*_region_names(x, y), *covered],
        Box(x.start + 2, y.end + 2, x.end - 2, y.start - 2),
    )
    for row, point in enumerate(references):
        parts += [*_lead(x, y, point, places[len(points) + row]), _reference(x, y, point)]
    for row, point in enumerate(points):
        parts += [*_lead(x, y, point, places[row]), *_model(x, y, row, point, 6 if len(points) <= _NAMED else 4)]
    for row, (text, place) in enumerate(zip(texts, places, strict=True)):
        parts += _label(text, place, "model-name" if row < len(points) else "small")
    label = "; ".join(f"{p.name}: near {p.near[0]:.2f}, far {p.far[0]:.2f}" for p in shown)
    return drawing(_HEIGHT, f"The robustness-sensitivity plane. {label}", *parts, width=_WIDTH)


def letters(points: Sequence[Point]) -> list[str]:
    """Labels A, B, C, … for many points; empty if names fit."""
    if len(points) <= _NAMED:
        return []
    return [chr(ord("A") + n % 26) + (str(n // 26 + 1) if n >= 26 else "") for n in range(len(points))]


def _axis(ends: Sequence[tuple[float, float, float]], start: float, end: float) -> Scale:
    """A scale around 1 that holds every point."""
    low = min([0.1, *(side[0] / 1.5 for side in ends)])
    high = max([4.0, *(side[0] * 1.5 for side in ends)])
    return Scale(max(low, 0.01), high, start, end, logarithmic=True)


def _inside(scale: Scale, value: float) -> float:
    return scale(min(max(value, scale.low), scale.high))


def _regions(x: Scale, y: Scale, thresholds: Mapping[str, float]) -> list[Markup]:
    """The three regions and their names."""
    least_far, neutral = thresholds["least_far"], thresholds["neutral"]
    floor, corner = _inside(y, least_far), _inside(x, neutral)
    meet = _inside(x, least_far)
    brittle = [(meet, floor), (corner, _inside(y, neutral)), (corner, y.end), (x.end, y.end), (x.end, floor)]
    follows = [(x.start, floor), (x.start, y.end), (corner, y.end), (corner, _inside(y, neutral)), (meet, floor)]
    robust = [(x.start, floor), (x.end, floor), (x.end, y.start), (x.start, y.start)]
    shapes = [
        element("polygon", points=" ".join(f"{a:.1f},{b:.1f}" for a, b in corners), class_=f"region {name}")
        for name, corners in (("follows", follows), ("brittle", brittle), ("robust", robust))
    ]
    return [
        *shapes,
        words(x.start + 8, y.end + 16, "follows utility", "region-name"),
        words(x.end - 8, y.end + 16, "brittle", "region-name", "end"),
        words(x.start + 8, y.start - 8, "over-robust", "region-name"),
    ]


def _grid(x: Scale, y: Scale) -> list[Markup]:
    parts = [line(x.start, y.start, x.end, y.start, "axis"), line(x.start, y.start, x.start, y.end, "axis")]
    for tick in _TICKS:
        if x.low <= tick <= x.high:
            parts.append(words(x(tick), y.start + 14, short(tick), "small", "middle"))
        if y.low <= tick <= y.high:
            parts.append(words(x.start - 6, y(tick) + 3.5, short(tick), "small", "end"))
    parts.append(words(x.end, y.start + 30, "gain on the least useful features (1 is neutral)", "small", "end"))
    return [*parts, line(_inside(x, 1), y.start, _inside(x, 1), y.end, "grid")]


def _at(x: Scale, y: Scale, point: Point) -> tuple[float, float]:
    return _inside(x, point.near[0]), _inside(y, point.far[0])


def _model(x: Scale, y: Scale, place: int, point: Point, half: float) -> list[Markup]:
    at, up = _at(x, y, point)
    name = f"s{model_colour(place)}"
    return [
        line(_inside(x, point.near[1]), up, _inside(x, point.near[2]), up, f"interval {name}"),
        line(at, _inside(y, point.far[1]), at, _inside(y, point.far[2]), f"interval {name}"),
        box(at - half, up - half, 2 * half, 2 * half, _title(point), rx=half, class_=f"f{model_colour(place)}"),
    ]


def _reference(x: Scale, y: Scale, point: Point) -> Markup:
    at, up = _at(x, y, point)
    return box(at - 3.5, up - 3.5, 7, 7, _title(point), rx=3.5, class_="hollow s0")


def _model_covers(x: Scale, y: Scale, point: Point) -> list[Box]:
    """The boxes of a model's dot and intervals."""
    at, up = _at(x, y, point)
    left, right = (_inside(x, end) for end in point.near[1:])
    low, high = (_inside(y, end) for end in point.far[1:])
    return [Box.around(at, up, 12, 12), Box(left, up - 1, right, up + 1), Box(at - 1, high, at + 1, low)]


def _region_names(x: Scale, y: Scale) -> list[Box]:
    """The boxes of the names of the three regions."""
    top, bottom = (y.end + 2, y.end + 22), (y.start - 24, y.start - 2)
    return [
        Box(x.start, top[0], x.start + 118, top[1]),
        Box(x.end - 58, top[0], x.end, top[1]),
        Box(x.start, bottom[0], x.start + 92, bottom[1]),
    ]


def _lead(x: Scale, y: Scale, point: Point, place: Placed | None) -> list[Markup]:
    return [line(*_at(x, y, point), *place.leads, "lead")] if place is not None and place.leads is not None else []


def _label(text: str, place: Placed | None, class_: str) -> list[Markup]:
    if place is None:
        return []  # the titles of its point and of the drawing still name it
    middle, centre = place.box.middle
    return [words(middle, centre + 4.5, text, class_, "middle")]


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _title(point: Point) -> str:
    return f"{point.name}: near {point.near[0]:.2f}, far {point.far[0]:.2f}"


def model_colour(place: int) -> int:
    """The colour of a model by its place in the list."""
    return (3, 1, 4, 5, 2, 6, 7)[place % 7]


USEFUL: Ramp = ((255, 255, 255), (252, 226, 180), (244, 170, 84), (196, 98, 24), (116, 48, 6))
SENSITIVE: Ramp = ((255, 255, 255), (196, 222, 240), (104, 164, 212), (36, 98, 168), (12, 44, 96))
_SLICES = 24  # of one column that are drawn
_COLUMNS = 40
_LETTER = 5.5  # units of width


def strength_plot(facts: Mapping[str, Any], what: str, title: str) -> Markup:
    """Near and far over the strengths of the perturbation, with intervals."""
    rows = facts["perturbation"]
    sides = [[(row["strength"], row[f"{side}_{what}"]) for row in rows] for side in ("near", "far")]
    ends = [n[end] for side in sides for _, n in side for end in ("value", "low", "high") if n[end] is not None]
    x = scale_of([row["strength"] for row in rows], 46, WIDTH - 12)
    y = Scale(0, 1, 160, 26) if what == "accuracy" else scale_of([0.0, *ends], 160, 26)
    unit = "fraction of tokens removed" if facts["data"]["kind"] == "tokens" else "sigma"
    parts = frame(x, y, title, unit)
    for place, side in enumerate(sides):
        points = [(at, n) for at, n in side if n["value"] is not None]
        parts += [polyline([(x(at), y(n["value"])) for at, n in points], f"mean s{place}")] if points else []
        for at, n in points:
            if n["low"] is not None:
                parts.append(line(x(at), y(n["low"]), x(at), y(n["high"]), f"interval s{place}"))
            parts.append(box(x(at) - 3, y(n["value"]) - 3, 6, 6, number(n["value"]), rx=3, class_=f"f{place}"))
    return drawing(192, f"{title} of {facts['model']['name']} under perturbation", *parts)


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
