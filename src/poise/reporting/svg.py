"""Drawing: scales, ticks and a frame, as inline SVG whose colours come from the page (light and dark)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from poise.reporting.markup import Markup, element

WIDTH = 340  # of every figure: readable on a phone, several side by side on a desk
_BOLD = 7.4  # a letter of a title in the widest common face


@dataclass(frozen=True)
class Scale:
    """Values to places: `low` is at `start`, `high` at `end`."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = (self._flat(number) for number in (self.low, self.high, value))
        return self.start + (self.end - self.start) * ((at - low) / (high - low) if high > low else 0.5)

    def ticks(self, count: int = 4) -> list[float]:
        """Round values inside the scale."""
        return _powers(self.low, self.high) if self.logarithmic else _steps(self.low, self.high, count)

    def _flat(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value


def scale_of(values: Iterable[float], start: float, end: float, logarithmic: bool = False) -> Scale:
    """A scale that holds all values, with a little room; logarithmic only if all are positive and far apart."""
    held = list(values)
    low, high = min(held), max(held)
    if logarithmic and low > 0 and high > 20 * low:
        return Scale(low, high, start, end, logarithmic=True)
    room = 0.04 * (high - low) or 0.05 * abs(high) or 1.0
    return Scale(low - room, high + room, start, end)


def drawing(height: float, label: str, *parts: str, width: float = WIDTH) -> Markup:
    """A whole figure; `label` is for those who cannot see it."""
    box = f"0 0 {width:g} {height:g}"
    return element("svg", *parts, viewBox=box, role="img", aria_label=label, class_="figure")


def words(x: float, y: float, content: str, class_: str, anchor: str = "start", fill: str | None = None) -> Markup:
    style = f"fill: {fill}" if fill else None
    return element("text", content, x=_place(x), y=_place(y), class_=class_, text_anchor=anchor, style=style)


def heading(x: float, content: str) -> Markup:
    """The title of a figure, from `x` on; of one that is too long the ends, and the whole under the pointer."""
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
    return found if len(found) > 1 else _steps(low, high, count + 1)  # one alone is no scale


def _powers(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1,) if len(powers) > 4 else (1, 3)
    return [f * 10.0**p for p in powers for f in factors if low <= f * 10.0**p <= high]
