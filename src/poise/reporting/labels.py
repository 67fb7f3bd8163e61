"""Labels beside points that may lie close together: no label lies on another, on a point, or on a line to a label.

One after the other, each label takes the nearest place around its point that is free. If it is not beside its point, a
line leads there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import cos, pi, sin

_NEAR, _STEP, _FURTHEST = 9.0, 8.0, 420.0
_BESIDE = 16.0  # as far without a line
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
        """The place in it that is nearest to a point."""
        return min(max(x, self.left), self.right), min(max(y, self.top), self.bottom)


@dataclass(frozen=True)
class Wanted:
    """A label of a size for a point."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Placed:
    """Where the label lies; `leads` is the end of the line from its point, None where it lies beside it."""

    box: Box
    leads: tuple[float, float] | None


def place_labels(wanted: Sequence[Wanted], taken: Sequence[Box], area: Box) -> list[Placed | None]:
    """A place for each label inside the area, off what is taken; None where none is free."""
    free = _Free(area, [*taken])
    return [free.take(each) for each in wanted]


class _Free:
    def __init__(self, area: Box, taken: list[Box]) -> None:
        self.area, self.taken, self.labels = area, taken, list[Box]()

    def take(self, wanted: Wanted) -> Placed | None:
        """The nearest free place whose line crosses no label; in a crowd, the nearest free place."""
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
    """Rings around the point, each a little further."""
    gap = _NEAR
    while gap < _FURTHEST:
        for turn in _TURNS:
            right, down = cos(turn * pi / 8), sin(turn * pi / 8)
            x, y = wanted.x + right * (gap + wanted.width / 2), wanted.y + down * (gap + wanted.height / 2)
            yield Box.around(x, y, wanted.width, wanted.height)
        gap += _STEP


def _dots(start: tuple[float, float], end: tuple[float, float]) -> list[Box]:
    """The line between two places, as small boxes."""
    count = max(1, int((abs(end[0] - start[0]) + abs(end[1] - start[1])) / 4))
    parts = [number / count for number in range(count + 1)]
    return [
        Box.around(start[0] + part * (end[0] - start[0]), start[1] + part * (end[1] - start[1]), 2, 2) for part in parts
    ]
