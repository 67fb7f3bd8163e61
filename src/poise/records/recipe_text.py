"""Recipes as they stand in records: one long line of Python, read field by field."""

from __future__ import annotations

import ast
from functools import lru_cache
from itertools import zip_longest

_CONTEXT = 30  # characters shown on either side of a difference in a line that is not Python


def differences(one: str, other: str) -> list[str]:
    """The fields in which two recipes differ, as `objective.weight.peak: 0.001, 0.01`; the seed of the run is none."""
    left, right = fields(one), fields(other)
    if left is None or right is None:
        return [] if one == other else [_first_difference(one, other)]
    names = dict.fromkeys([*left, *right])
    changed = [name for name in names if left.get(name) != right.get(name) and name != "seed"]
    shown = [name for name in changed if not any(name.startswith((f"{above}.", f"{above}[")) for above in changed)]
    return [f"{name or 'the recipe'}: {left.get(name, 'none')}, {right.get(name, 'none')}" for name in shown]


@lru_cache  # all runs of a method have one
def fields(recipe: str) -> dict[str, str] | None:
    """Every value of a recipe by its path; None if the line is not Python."""
    try:
        tree = ast.parse(recipe, mode="eval")
    except (SyntaxError, ValueError, RecursionError):
        return None
    found: dict[str, str] = {}
    _walk(tree.body, "", found)
    return found


def pretty(recipe: str, width: int = 88) -> str:
    """The recipe over several lines, indented; unchanged if the line is not Python."""
    try:
        tree = ast.parse(recipe, mode="eval")
    except (SyntaxError, ValueError, RecursionError):
        return recipe
    return _lines(tree.body, 0, width)


def _walk(node: ast.expr, path: str, found: dict[str, str]) -> None:
    parts = _parts(node)
    found[path] = ast.unparse(node.func) if isinstance(node, ast.Call) else type(node).__name__
    if not parts:
        found[path] = ast.unparse(node)
    for name, part in parts:
        below = f"{path}.{name}" if path and not name.startswith("[") else f"{path}{name}"
        _walk(part, below, found)


def _parts(node: ast.expr) -> list[tuple[str, ast.expr]]:
    if isinstance(node, ast.Call):
        numbered = [(f"[{number}]", part) for number, part in enumerate(node.args)]
        return numbered + [(word.arg or "**", word.value) for word in node.keywords]
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [(f"[{number}]", part) for number, part in enumerate(node.elts)]
    if isinstance(node, ast.Dict):
        keys = ["**" if key is None else f"[{ast.unparse(key)}]" for key in node.keys]
        return list(zip(keys, node.values, strict=True))
    return []


def _lines(node: ast.expr, indent: int, width: int) -> str:
    whole = ast.unparse(node)
    if indent + len(whole) <= width or not _parts(node):
        return whole
    opening, closing = _brackets(node)
    space = " " * (indent + 4)
    inner = [f"{space}{_label(node, name)}{_lines(part, indent + 4, width)}," for name, part in _parts(node)]
    return "\n".join([opening, *inner, " " * indent + closing])


def _brackets(node: ast.expr) -> tuple[str, str]:
    if isinstance(node, ast.Call):
        return f"{ast.unparse(node.func)}(", ")"
    return ("[", "]") if isinstance(node, ast.List) else ("(", ")") if isinstance(node, ast.Tuple) else ("{", "}")


def _label(node: ast.expr, name: str) -> str:
    if isinstance(node, ast.Dict):
        return f"{name[1:-1]}: "
    return "" if name.startswith("[") else f"{name}="


def _first_difference(one: str, other: str) -> str:
    pairs = enumerate(zip_longest(one, other))
    start = max(0, next(place for place, (left, right) in pairs if left != right) - _CONTEXT)
    return f"from character {start}: …{one[start : start + 2 * _CONTEXT]}…, …{other[start : start + 2 * _CONTEXT]}…"
