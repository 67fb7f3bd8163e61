"""The plane of an audit: the gain on the least useful features across, on the most useful ones up; 1 is neutral.

Regions are those of the verdict: over-robust below far = 1/4, brittle right of near = min(far, 1), the rest follows
utility; the two thresholds come from the audit. Both axes are logarithmic. Labels never overlap, however close the
points are (svg.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from poise.reporting.audit_files import Point
from poise.reporting.figures.svg import (
    Box,
    Placed,
    Scale,
    Wanted,
    box,
    drawing,
    element,
    line,
    place_labels,
    short,
    words,
)

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
    for number, point in enumerate(references):
        parts += [*_lead(x, y, point, places[len(points) + number]), _reference(x, y, point)]
    for number, point in enumerate(points):
        parts += [*_lead(x, y, point, places[number]), *_model(x, y, number, point, 6 if len(points) <= _NAMED else 4)]
    for number, (text, place) in enumerate(zip(texts, places, strict=True)):
        parts += _label(text, place, "model-name" if number < len(points) else "small")
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
