"""The answer of `poise advise` for a terminal, and as a page with the frontier, all methods and the lines to paste."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from poise.reporting.figures.forest import ForestBlock, ForestRow, forest
from poise.reporting.figures.svg import box, drawing, frame, polyline, scale_of, words
from poise.reporting.render import Cell, Sheet, render
from poise.reporting.statistics import DASH, Difference, number

_WIDTH, _HEIGHT = 520, 340


def answer_text(found: dict[str, Any]) -> str:
    """The sentence, the table, and the lines to paste."""
    rows = [_head(found), *(_row(row, found) for row in _ranked(found))]
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(f"{word:{size}}" for word, size in zip(row, sizes, strict=True)).rstrip() for row in rows]
    rule = "-" * (sum(sizes) + 2 * (len(sizes) - 1))
    parts = [found["sentence"], "\n".join([lines[0], rule, *lines[1:]]), _legend(found), *_tested(found)]
    if found["code"]:
        parts.append(found["code"])
    return "\n\n".join(parts)


def advice_page(found: dict[str, Any]) -> str:
    """One self-contained page."""
    return render(
        "advice",
        title=f"Advice for {found['recipe']}",
        sentence=found["sentence"],
        facts=_facts(found),
        frontier=frontier_figure(found),
        forest=forest_figure(found),
        sheet=Sheet(_head(found), [[Cell(word) for word in _row(row, found)] for row in _ranked(found)]),
        legend=_legend(found),
        tested=_tested(found),
        code=found["code"],
        failed=found["failed"],
    )


def _ranked(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The methods, those with more seeds and a higher score first."""
    return sorted(found["methods"], key=lambda row: (-row["seeds"], -row["score"]))


def _head(found: dict[str, Any]) -> list[str]:
    return ["method", "seeds", "score", "against XE", *found["columns"], "step"]


def _row(row: dict[str, Any], found: dict[str, Any]) -> list[str]:
    mark = " *" if row["name"] == found["chosen"] else ""
    gap = row["gaps"].get("score")
    columns = [number(row["columns"][name], 3) for name in found["columns"]]
    cost = DASH if row["cost"] is None else f"{row['cost']:.1f}x"
    return [f"{row['name']}{mark}", str(row["seeds"]), number(row["score"], 3), _said(gap), *columns, cost]


def _said(gap: dict[str, Any] | None) -> str:
    if gap is None:
        return DASH
    mean = number(gap["mean"], 3, sign=True)
    if gap["wide_low"] is None:
        return mean
    low, high = (number(gap[end], 3, sign=True) for end in ("wide_low", "wide_high"))
    return f"{mean} [{low}, {high}]"


def _legend(found: dict[str, Any]) -> str:
    return (
        f"score: the mean of {', '.join(found['columns'])}, on validation. against XE: the difference in score, with "
        "an interval over seeds and examples that holds for all methods at once. step: seconds, relative to XE. "
        "*: the answer. Methods with fewer seeds were left behind."
    )


def _tested(found: dict[str, Any]) -> list[str]:
    """The test of the chosen method, in words."""
    lines = [
        f"{name} on the test set: {', '.join(f'{column} {number(value, 3)}' for column, value in values.items())}."
        for name, values in found.get("test", {}).items()
    ]
    return ["\n".join(lines)] if lines else []


def _facts(found: dict[str, Any]) -> list[str]:
    data = found["data"]
    rare = f"rare: {', '.join(map(str, data['rare']))}" if data["rare"] else "no rare class"
    return [
        data["kind"],
        f"{data['train']} training examples",
        f"{data['validation']} for validation"
        if data["validation"]
        else "another fifth of them for validation per seed",
        f"{data['classes']} classes, {rare}",
        f"{data['epochs']} epochs of batches of {data['batch_size']}",
    ]


def _axes(found: dict[str, Any]) -> tuple[str, str]:
    return "noise", "rare" if "rare" in found["columns"] else "clean"


def _families(found: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(row["family"] for row in found["methods"]))


def frontier_figure(found: dict[str, Any]) -> Markup:
    """Every method in the plane of noise and rare classes; the line of a family goes over its settings."""
    across, up = _axes(found)
    points = {row["name"]: (row["columns"][across], row["columns"][up]) for row in found["methods"]}
    if not points:
        return drawing(40, "No method was finished")
    x = scale_of([a for a, _ in points.values()], 46, _WIDTH - 8)
    y = scale_of([b for _, b in points.values()], _HEIGHT - 34, 30)
    parts = frame(x, y, f"{up} against {across}, on validation", across)
    for place, family in enumerate(_families(found)):
        rows = [row for row in found["methods"] if row["family"] == family]
        places = [(x(a), y(b)) for a, b in (points[row["name"]] for row in rows)]
        if len(places) > 1:
            parts.append(polyline(places, f"mean s{place % 12}"))
        for row, (left, top) in zip(rows, places, strict=True):
            parts += _dot(left, top, row, place, row["name"] == found["chosen"], (across, up))
    names = _families(found)
    for place, family in enumerate(names):
        left, top = 46 + 240 * (place % 2), _HEIGHT + 14 * (place // 2)
        parts.append(box(left, top, 8, 8, rx=4, class_=f"f{place % 12}"))
        parts.append(words(left + 14, top + 8, family, "small"))
    height = _HEIGHT + 14 * ((len(names) + 1) // 2) + 6
    return drawing(height, f"{up} against {across} of all methods", *parts, width=_WIDTH)


def _dot(x: float, y: float, row: dict[str, Any], colour: int, chosen: bool, axes: tuple[str, str]) -> list[Markup]:
    shown = ", ".join(f"{name} {number(row['columns'][name], 3)}" for name in axes)
    title = f"{row['name']}: {shown}"
    side = 12 if chosen else 7
    dot = box(x - side / 2, y - side / 2, side, side, title, rx=side / 2, class_=f"f{colour % 12}")
    if not chosen:
        return [dot]
    near_the_right = x > _WIDTH * 0.6
    label = words(
        x - 10 if near_the_right else x + 10, y - 8, row["name"], "title", "end" if near_the_right else "start"
    )
    return [dot, label]


def forest_figure(found: dict[str, Any]) -> Markup | None:
    """Differences from cross-entropy with their intervals, of the methods with two seeds or more."""
    rows = [row for row in _ranked(found) if row["gaps"] and row["gaps"]["score"]["low"] is not None]
    if not rows:
        return None
    names = ["score", *found["columns"]]
    cells = [
        ForestRow(row["name"], tuple(_difference(row["gaps"][name], row["seeds"]) for name in names)) for row in rows
    ]
    return forest("Differences from cross-entropy", names, [ForestBlock("against cross-entropy", tuple(cells))], 130)


def _difference(gap: dict[str, Any], seeds: int) -> Difference:
    """Decided if the interval excludes 0."""
    outside = gap["low"] > 0 or gap["high"] < 0
    return Difference(gap["mean"], seeds, gap["low"], gap["high"], p=0.0 if outside else 1.0)
