"""Compare and format the recipes in records, which are long lines of Python."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from itertools import zip_longest

_CONTEXT = 30  # characters shown on either side of a difference in a line that is not Python
_LONGEST = 200  # characters shown of a value
_SHARED = ("task", "network", "plan", "")  # fields that all methods of a table have in common; "" is the whole recipe
_OPAQUE = " (not Python: cannot be compared)"

_CALL = re.compile(r"([\w.]+|<lambda>)\((.*)\)", re.DOTALL)
_KEYWORD = re.compile(r"([^\W\d]\w*)=(?!=)")
_PIECE = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|.""", re.DOTALL)


def differences(one: str, other: str) -> list[str]:
    """The fields in which two recipes differ, such as `objective.weight.peak: 0.001, 0.01`; ignores the run's seed."""
    return [line for _, line in _differences(one, other)]


def common_differences(one: str, other: str) -> list[str]:
    """Like `differences`, for the fields that all methods of a table share, and for recipes that cannot be parsed."""
    shared = [(name, line) for name, line in _differences(one, other) if re.split(r"[.\[]", name)[0] in _SHARED]
    return [line for _, line in shared]


def _differences(one: str, other: str) -> list[tuple[str, str]]:
    """Pairs (field, line about its difference); the field is empty for a whole recipe."""
    left, right = recipe_fields(one), recipe_fields(other)
    if left is None or right is None:
        return [] if one == other else [("", f"the recipe: {_first_difference(one, other)}{_OPAQUE}")]
    names = dict.fromkeys([*left, *right])
    changed = [name for name in names if left.get(name) != right.get(name) and name != "seed"]
    shown = [name for name in changed if not any(name.startswith((f"{above}.", f"{above}[")) for above in changed)]
    return [(name, _line(name, left.get(name, "none"), right.get(name, "none"))) for name in shown]


def _line(name: str, one: str, other: str) -> str:
    told = f"{name or 'the recipe'}: {_short(one)}, {_short(other)}"
    return told if _is_python(one) and _is_python(other) else f"{told}{_OPAQUE}"


@lru_cache  # all runs of a method have the same recipe
def recipe_fields(recipe: str) -> dict[str, str] | None:
    """Every value of a recipe by its path; None if the line does not look like a call.

    A part that is not Python, such as `<lambda>(width=3)` or `<Task object at 0x7f…>`, is split as far as it looks like
    a call.
    """
    found: dict[str, str] = {}
    _walk_text(recipe, "", found)
    return found if found.get("") != recipe or _is_python(recipe) else None


def _walk_text(text: str, path: str, found: dict[str, str]) -> None:
    tree = _parsed(text)
    if tree is not None:
        _walk(tree, path, found)
        return
    call = _CALL.fullmatch(text)
    parts = None if call is None else _split(call[2])
    found[path] = text if call is None or parts is None else call[1]
    for number, part in enumerate(parts or ()):
        word = _KEYWORD.match(part)
        name, value = (f".{word[1]}", part[word.end() :]) if word else (f"[{number}]", part)
        _walk_text(value, f"{path}{name}".removeprefix("."), found)


def _split(inside: str) -> list[str] | None:
    """Split arguments at the commas outside strings and brackets; None if brackets do not match."""
    parts, depth = [""], 0
    for piece in _PIECE.findall(inside):
        depth += (piece in "([{") - (piece in ")]}")
        if depth < 0:
            return None
        if piece == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip() for part in parts if part.strip()] if depth == 0 else None


def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _short(value: str) -> str:
    return value if len(value) <= _LONGEST else f"{value[: _LONGEST - 1]}…"


def _is_python(text: str) -> bool:
    return _parsed(text) is not None


def pretty(recipe: str, width: int = 88) -> str:
    """Format a recipe over several indented lines; unchanged if it is not Python."""
    tree = _parsed(recipe)
    return recipe if tree is None else _lines(tree, 0, width)


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
