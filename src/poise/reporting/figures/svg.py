"""Figures side by side under a title, with their legend and notes.

Inline SVG: elements, scales, frames, colours, and labels beside points.

Colours of lines and text come from the page's style sheet, light and dark; those of heat maps are the same in both.

Labels never overlap each other, points, or lines to labels: one after the other, each takes the nearest free place
around its point, with a line to it if that is not beside the point.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import cos, pi, sin
from statistics import fmean
from zlib import crc32

from markupsafe import Markup, escape

from poise.corruptions.protocols import GROUPS
from poise.io.documents import printable
from poise.reporting.render import Sheet
from poise.reporting.statistics import number

Ramp = tuple[tuple[int, int, int], ...]

ACCURACY: Ramp = ((24, 32, 66), (33, 84, 124), (52, 140, 148), (131, 192, 158), (234, 240, 196))
DIFFERENCE: Ramp = ((150, 54, 42), (219, 142, 112), (243, 240, 234), (116, 170, 190), (28, 96, 128))
STRENGTH: Ramp = ((243, 240, 234), (186, 209, 214), (116, 170, 190), (28, 96, 128))


def colour(ramp: Ramp, share: float) -> str:
    """The colour at a share from 0 to 1 of a ramp."""
    at = min(1.0, max(0.0, share)) * (len(ramp) - 1)
    below, above = list(pairwise(ramp))[min(int(at), len(ramp) - 2)]
    rest = at - min(int(at), len(ramp) - 2)
    return "#" + "".join(f"{round(a + (b - a) * rest):02x}" for a, b in zip(below, above, strict=True))


def text_on(background: str) -> str:
    """Near black or white, whichever has more contrast."""
    channels = [int(background[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#141820" if luminance > 0.18 else "#ffffff"


_NEAR, _STEP, _FURTHEST = 9.0, 8.0, 420.0
_BESIDE = 16.0  # up to which no line is needed
_TURNS = (0, 8, 4, 12, 2, 6, 10, 14, 1, 7, 9, 15, 3, 5, 11, 13)  # sixteenths: right, left, below, above, between


@dataclass(frozen=True)
class Box:
    """An upright rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def around(cls, x: float, y: float, width: float, height: float) -> Box:
        return cls(x - width / 2, y - height / 2, x + width / 2, y + height / 2)

    @property
    def middle(self) -> tuple[float, float]:
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    def meets(self, other: Box) -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    def inside(self, other: Box) -> bool:
        across = self.left >= other.left and self.right <= other.right
        return across and self.top >= other.top and self.bottom <= other.bottom

    def nearest(self, x: float, y: float) -> tuple[float, float]:
        """The place inside that is nearest to a point."""
        return min(max(x, self.left), self.right), min(max(y, self.top), self.bottom)


@dataclass(frozen=True)
class Wanted:
    """The size of a label and the point that it is for."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Placed:
    """The box of a label; `leads` is the end of the line from its point, None if the label is beside the point."""

    box: Box
    leads: tuple[float, float] | None


def place_labels(wanted: Sequence[Wanted], taken: Sequence[Box], area: Box) -> list[Placed | None]:
    """A place for each label inside the area and outside the boxes taken; None if none is free."""
    free = _Free(area, [*taken])
    return [free.take(each) for each in wanted]


class _Free:
    def __init__(self, area: Box, taken: list[Box]) -> None:
        self.area, self.taken, self.labels = area, taken, list[Box]()

    def take(self, wanted: Wanted) -> Placed | None:
        """The nearest free place whose line crosses no label; if there is none, the nearest free place."""
        first = None
        for box in _around(wanted):
            if not box.inside(self.area) or any(box.meets(other) for other in self.taken):
                continue
            way = _dots((wanted.x, wanted.y), box.nearest(wanted.x, wanted.y))
            first = first or (box, way)
            if not any(dot.meets(other) for dot in way for other in self.labels):
                return self._hold(wanted, box, way)
        return None if first is None else self._hold(wanted, *first)

    def _hold(self, wanted: Wanted, box: Box, way: list[Box]) -> Placed:
        self.labels.append(box)
        self.taken += [box, *way]
        x, y = box.nearest(wanted.x, wanted.y)
        far = (x - wanted.x) ** 2 + (y - wanted.y) ** 2 > _BESIDE**2
        return Placed(box, (x, y) if far else None)


def _around(wanted: Wanted) -> Iterator[Box]:
    """Boxes in rings around the point, from the nearest to the furthest."""
    gap = _NEAR
    while gap < _FURTHEST:
        for turn in _TURNS:
            right, down = cos(turn * pi / 8), sin(turn * pi / 8)
            x, y = wanted.x + right * (gap + wanted.width / 2), wanted.y + down * (gap + wanted.height / 2)
            yield Box.around(x, y, wanted.width, wanted.height)
        gap += _STEP


def _dots(start: tuple[float, float], end: tuple[float, float]) -> list[Box]:
    """Small boxes along the line between two places."""
    count = max(1, int((abs(end[0] - start[0]) + abs(end[1] - start[1])) / 4))
    parts = [number / count for number in range(count + 1)]
    return [
        Box.around(start[0] + part * (end[0] - start[0]), start[1] + part * (end[1] - start[1]), 2, 2) for part in parts
    ]


def element(name: str, /, *children: str, **attributes: object) -> Markup:
    """`<name attributes>children</name>`; `class_` is class, `stroke_width` is stroke-width, None leaves one out."""
    named = [
        f' {key.rstrip("_").replace("_", "-")}="{_escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    ]
    return Markup(f"<{name}{''.join(named)}>{''.join(map(_escaped, children))}</{name}>")


def _escaped(value: object) -> Markup:
    return value if isinstance(value, Markup) else escape(printable(str(value)))


WIDTH = 340  # of every figure: readable on a phone, several side by side on a desktop
_BOLD = 7.4  # width of a letter of a title in the widest common font


@dataclass(frozen=True)
class Scale:
    """Maps values to places: `low` to `start`, `high` to `end`."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = (self._flat(number) for number in (self.low, self.high, value))
        return self.start + (self.end - self.start) * ((at - low) / (high - low) if high > low else 0.5)

    def ticks(self, count: int = 4) -> list[float]:
        """Round values within the scale."""
        return _powers(self.low, self.high) if self.logarithmic else _steps(self.low, self.high, count)

    def _flat(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value


def scale_of(values: Iterable[float], start: float, end: float, logarithmic: bool = False) -> Scale:
    """A scale that holds all values with a margin; logarithmic only if all are positive and span a factor of 20."""
    held = list(values)
    low, high = min(held), max(held)
    if logarithmic and low > 0 and high > 20 * low:
        return Scale(low, high, start, end, logarithmic=True)
    room = 0.04 * (high - low) or 0.05 * abs(high) or 1.0
    return Scale(low - room, high + room, start, end)


def drawing(height: float, label: str, *parts: str, width: float = WIDTH) -> Markup:
    """A figure; `label` is its text for screen readers."""
    box = f"0 0 {width:g} {height:g}"
    return element("svg", *parts, viewBox=box, role="img", aria_label=label, class_="figure")


def words(x: float, y: float, content: str, class_: str, anchor: str = "start", fill: str | None = None) -> Markup:
    style = f"fill: {fill}" if fill else None
    return element("text", content, x=_place(x), y=_place(y), class_=class_, text_anchor=anchor, style=style)


def heading(x: float, content: str) -> Markup:
    """The title of a figure; a long one is cut in the middle and shown in full under the pointer."""
    room = int((WIDTH - x) / _BOLD)
    if len(content) <= room:
        return words(x, 14, content, "title")
    kept = f"{content[: room // 2]}…{content[room // 2 + 1 - room :]}"
    return element("text", kept, element("title", content), x=_place(x), y="14", class_="title")


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return element("path", d=f"M{_place(x1)} {_place(y1)}L{_place(x2)} {_place(y2)}", class_=class_)


def polyline(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    path = "L".join(f"{_place(x)} {_place(y)}" for x, y in points)
    return element("path", d=f"M{path}", class_=class_)


def box(x: float, y: float, width: float, height: float, title: str = "", **attributes: object) -> Markup:
    """A rectangle; `title` shows under the pointer."""
    inner = [element("title", title)] if title else []
    places = {"x": _place(x), "y": _place(y), "width": _place(width), "height": _place(height)}
    return element("rect", *inner, **places, **attributes)


def frame(x: Scale, y: Scale, title: str, x_name: str) -> list[Markup]:
    """Title, grid lines and labels."""
    parts = [heading(x.start, title), words(x.end, y.start + 26, x_name, "small", "end")]
    for tick in y.ticks():
        parts.append(line(x.start, y(tick), x.end, y(tick), "grid"))
        parts.append(words(x.start - 6, y(tick) + 3.5, short(tick), "small", "end"))
    parts += [words(x(tick), y.start + 14, short(tick), "small", "middle") for tick in x.ticks(5)]
    return [*parts, line(x.start, y.start, x.end, y.start, "axis")]


def short(value: float) -> str:
    """A tick's label: `0`, `.25`, `1.5`, `400`, `1e-4`."""
    if value and (abs(value) < 0.001 or abs(value) >= 100_000):
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    text = f"{value:.6g}"
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def _place(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _steps(low: float, high: float, count: int) -> list[float]:
    if high <= low:
        return [low]
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    found = [round(n * step, 12) for n in range(first, math.floor(high / step + 1e-9) + 1)]
    return found if len(found) > 1 else _steps(low, high, count + 1)  # a single tick is not enough to read a scale


def _powers(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1,) if len(powers) > 4 else (1, 3)
    return [f * 10.0**p for p in powers for f in factors if low <= f * 10.0**p <= high]


Cells = Mapping[str, Mapping[int, float]]  # corruption → severity → accuracy


def heat_map(title: str, cells: Cells, reach: float | None = None) -> Markup:
    """Corruptions by severity and their mean; with `reach`, differences from -reach to +reach."""
    severities = sorted({severity for row in cells.values() for severity in row})
    side = (WIDTH - 128) / (len(severities) + 1)
    parts = [heading(0, title)]
    parts += [words(122 + side * (n + 0.5), 30, str(s), "small", "middle") for n, s in enumerate(severities)]
    parts.append(words(128 + side * (len(severities) + 0.5), 30, "mean", "small", "middle"))
    y = 19.0
    for before, (name, values) in zip([None, *cells], cells.items(), strict=False):
        y += 17 if before is None or _group(before) == _group(name) else 22
        parts.append(words(116, y + 12, name.replace("_", " "), "small", "end"))
        for n, severity in enumerate(severities):
            if severity in values:
                parts += _heat_cell(122 + side * n, y, side, values[severity], reach, f"{name}, severity {severity}")
        mean = fmean(values.values())
        parts += _heat_cell(128 + side * len(severities), y, side, mean, reach, f"{name}, mean")
    return drawing(y + 20, f"{title}: accuracy per corruption and severity", *parts)


def _group(corruption: str) -> str:
    return next((name for name, members in GROUPS.items() if corruption in members), "extra")


def _heat_cell(x: float, y: float, side: float, value: float, reach: float | None, title: str) -> list[Markup]:
    share = value if reach is None else 0.5 + value / (2 * reach)
    fill = colour(ACCURACY if reach is None else DIFFERENCE, share)
    label = number(value, 2) if reach is None else number(value, 2, sign=True)
    shown = words(x + side / 2 - 0.5, y + 12, label, "value", "middle", fill=text_on(fill))
    return [box(x, y, side - 1, 16, f"{title}: {number(value, sign=reach is not None)}", fill=fill), shown]


COLOURS = 12  # methods that the style sheet tells apart
_OWN = {
    "XE": 0,
    "XE+Gaussian": 1,
    "CL+Gaussian": 2,
    "FCL": 3,
    "recommended": 4,
    "FCL, margin": 5,
    "Gaussian augmentation": 6,
    "PG+XE": 7,
    "random": 8,
    "PG+FCL": 9,
    "AugMix": 10,
    "AugMix+FCL": 11,
}
_SETTING = re.compile(r" [\d.e-]+$")  # "FCL 0.01" has FCL's colour


def colours_of(methods: Sequence[str]) -> dict[str, int]:
    """A colour for each method: its own on every page; others take one that their name gives, or the next free one."""
    found: dict[str, int] = {}
    own = {name: _OWN[base] for name in methods if (base := _SETTING.sub("", name)) in _OWN}
    for name in [*own, *(each for each in methods if each not in own)]:
        place = own.get(name, crc32(name.encode()) % COLOURS)
        free = [(place + step) % COLOURS for step in range(COLOURS)]
        found[name] = next((each for each in free if each not in found.values()), place)
    return found


@dataclass(frozen=True)
class Key:
    """An entry of a legend; `colour` is any CSS colour."""

    name: str
    colour: str


@dataclass(frozen=True)
class Figures:
    """Figures and what is needed to read them.

    note    above the figures.
    below   a note below them.
    sheet   the same numbers as a table, folded away.
    folded  whether the figures themselves are folded away.
    """

    title: str
    figures: Sequence[Markup]
    legend: Sequence[Key] = ()
    note: str = ""
    below: str = ""
    sheet: Sheet | None = None
    folded: bool = False


def legend(names: Sequence[str]) -> list[Key]:
    """Methods in the colours that figures give them."""
    colours = colours_of(names)
    return [Key(name, f"var(--c{colours[name]})") for name in names]
