"""The plane of an audit: every point has a label, and every label can be read."""

import random
import re
from itertools import combinations

import pytest

from poise.reporting.audit_page import references
from poise.reporting.figures.audits import Point, letters, plane
from poise.reporting.figures.svg import Box, Wanted, place_labels

THRESHOLDS = {"least_far": 0.25, "neutral": 1.0}


def close_points(count: int, seed: int) -> list[Point]:
    """Within a few pixels of each other, amid the reference points."""
    draw = random.Random(seed)
    gains = [(0.8 * draw.uniform(0.95, 1.05), 1.35 * draw.uniform(0.95, 1.05)) for _ in range(count)]
    return [Point(f"model {n}", (a, a * 0.97, a * 1.03), (b, b * 0.97, b * 1.03)) for n, (a, b) in enumerate(gains)]


def label_boxes(svg: str) -> dict[str, Box]:
    """Of the largest letters, those of a phone, as the browser would draw them."""
    found = {}
    for x, y, class_, text in re.findall(
        r'<text x="([\d.]+)" y="([\d.]+)" class="([\w-]+)" text-anchor="middle"[^>]*>([^<]+)<', svg
    ):
        if class_ == "model-name":
            found[text] = Box.around(float(x), float(y) - 5, 9.5 * len(text), 16)
        elif float(y) < 360:  # below are the ticks
            found[text] = Box.around(float(x), float(y) - 4, 7.5 * len(text), 12)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_labels_of_ten_near_points_do_not_meet(seed: int) -> None:
    points = close_points(10, seed)
    boxes = label_boxes(plane(points, THRESHOLDS, references("pictures")))
    assert {*letters(points), *(str(n + 1) for n in range(len(references("pictures"))))} <= boxes.keys()
    assert [pair for pair in combinations(boxes, 2) if boxes[pair[0]].meets(boxes[pair[1]])] == []


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_models_have_their_names_beside_them(count: int) -> None:
    points = close_points(count, 7)
    boxes = label_boxes(plane(points, THRESHOLDS, references("pictures")))
    assert letters(points) == [] and {point.name for point in points} <= boxes.keys()
    assert not any(boxes[a].meets(boxes[b]) for a, b in combinations(boxes, 2))


def test_points_of_one_place_and_long_names() -> None:
    far_away = [Point("x" * 60, (5.0, 4.0, 6.0), (0.001, 0.001, 0.002))] * 3
    drawn = plane(far_away, THRESHOLDS, references("pictures") * 3)
    assert "x" * 31 + "…" in drawn and f"{'x' * 60}: near 5.00" in drawn


def test_labels_stay_inside_and_off_what_is_drawn() -> None:
    area, dot = Box(0, 0, 200, 100), Box.around(100, 50, 12, 12)
    placed = place_labels([Wanted(100, 50, 40, 18)] * 6, [dot], area)
    boxes = [each.box for each in placed if each is not None]
    assert len(boxes) == 6 and all(box.inside(area) and not box.meets(dot) for box in boxes)
    assert not any(a.meets(b) for a, b in combinations(boxes, 2))
    assert placed[0].leads is None and any(each.leads is not None for each in placed if each)
    assert place_labels([Wanted(100, 50, 300, 18)], [], area) == [None]  # no room


def test_many_models_get_letters_of_their_own() -> None:
    names = letters(close_points(60, 0))
    assert len({*names}) == 60 and names[:2] == ["A", "B"] and names[26] == "A2"
