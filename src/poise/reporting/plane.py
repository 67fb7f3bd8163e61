"""The plane of an audit: the gain on the least useful features across, on the most useful ones up; 1 is neutral.

Regions are those of the verdict: over-robust below far = 1/4, brittle right of near = min(far, 1), the rest follows
utility; the two thresholds come from the audit. Both axes are logarithmic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from poise.reporting.audits import Point
from poise.reporting.markup import Markup, element
from poise.reporting.svg import Scale, box, drawing, line, short, words

_WIDTH, _HEIGHT = 460, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, _WIDTH - 10, 26, _HEIGHT - 40
_TICKS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30)


def plane(points: Sequence[Point], thresholds: Mapping[str, float], references: Sequence[Point] = ()) -> Markup:
    """Models with the intervals of both gains; references small and hollow, numbered."""
    shown = [*points, *references]
    x = _axis([p.near for p in shown], _LEFT, _RIGHT)
    y = _axis([p.far for p in shown], _BOTTOM, _TOP)
    parts = [words(_LEFT, 14, "Gain on the most useful features", "title"), *_regions(x, y, thresholds), *_grid(x, y)]
    for number, point in enumerate(references):
        parts += _reference(x, y, number + 1, point)
    for place, point in enumerate(points):
        parts += _model(x, y, place, point)
    label = "; ".join(f"{p.name}: near {p.near[0]:.2f}, far {p.far[0]:.2f}" for p in shown)
    return drawing(_HEIGHT, f"The robustness-sensitivity plane. {label}", *parts, width=_WIDTH)


def _axis(ends: Sequence[tuple[float, float, float]], start: float, end: float) -> Scale:
    """Around 1, and wide enough for every point."""
    low = min([0.1, *(side[0] / 1.5 for side in ends)])
    high = max([4.0, *(side[0] * 1.5 for side in ends)])
    return Scale(max(low, 0.01), high, start, end, logarithmic=True)


def _inside(scale: Scale, value: float) -> float:
    return scale(min(max(value, scale.low), scale.high))


def _regions(x: Scale, y: Scale, thresholds: Mapping[str, float]) -> list[Markup]:
    """Three areas and their names."""
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


def _model(x: Scale, y: Scale, place: int, point: Point) -> list[Markup]:
    at, up = _inside(x, point.near[0]), _inside(y, point.far[0])
    name = f"s{_colour(place)}"
    right = at > (x.start + x.end) / 2
    side = "end" if right else "start"
    return [
        line(_inside(x, point.near[1]), up, _inside(x, point.near[2]), up, f"interval {name}"),
        line(at, _inside(y, point.far[1]), at, _inside(y, point.far[2]), f"interval {name}"),
        box(at - 6, up - 6, 12, 12, _title(point), rx=6, class_=f"f{_colour(place)}"),
        words(at - 10 if right else at + 10, up + (18 if place % 2 else -9), point.name, "model-name", side),
    ]


def _reference(x: Scale, y: Scale, number: int, point: Point) -> list[Markup]:
    at, up = _inside(x, point.near[0]), _inside(y, point.far[0])
    dot = box(at - 6.5, up - 6.5, 13, 13, _title(point), rx=6.5, class_="hollow s0")
    return [dot, words(at, up + 3.5, str(number), "value", "middle")]


def _title(point: Point) -> str:
    return f"{point.name}: near {point.near[0]:.2f}, far {point.far[0]:.2f}"


def _colour(place: int) -> int:
    return (3, 1, 4, 5, 2, 6, 7)[place % 7]
