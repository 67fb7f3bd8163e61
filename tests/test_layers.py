"""Imports point down: a module imports lower folders and peers of its own folder, never in a circle."""

import ast
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "poise"

LAYERS = [
    {"checks", "errors", "margin_kernel", "random"},
    {"tokens", "losses", "schedules", "distributed"},
    {"classifier", "io"},
    {"features", "models", "corruptions"},
    {"data", "records"},
    {"objectives", "reporting"},
    {"training"},
    {"inputs"},
    {"evaluation"},
    {"running", "auditing"},
    {"recipes", "advising"},
    {"cli"},
    {"__main__", "__init__"},
]


def layer_of(name: str) -> int:
    return next((number for number, names in enumerate(LAYERS) if name in names), -1)


def imports_of(path: Path) -> list[list[str]]:
    """The parts after `poise` of every import in a file."""
    tree = ast.parse(path.read_text())
    names = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    names += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    return [name.split(".")[1:] for name in names if name.split(".")[0] == "poise"]


def problem(path: Path, target: list[str]) -> str | None:
    own = path.relative_to(SOURCE).with_suffix("").parts
    if layer_of(own[0]) < 0 or (target and layer_of(target[0]) < 0):
        return f"{'.'.join(own)} → {'.'.join(target)}: not in the plan"
    if not target and own != ("cli", "options"):  # which says the version
        return f"{'.'.join(own)} may not import the package itself"
    if not target or own[0] == target[0] or layer_of(target[0]) < layer_of(own[0]):
        return None
    return f"{own[0]} may not import {target[0]}"


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle, if there are any."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path: Path) -> None:
    assert [found for target in imports_of(path) if (found := problem(path, target))] == []


def test_a_wrong_import_is_found() -> None:
    assert problem(SOURCE / "models" / "lenet.py", ["objectives", "fcl"]) == "models may not import objectives"
    assert problem(SOURCE / "features" / "utility.py", ["models", "split"]) == "features may not import models"
    assert circle({"fcl": {"objective"}, "objective": {"contrast"}, "contrast": {"fcl"}})


def test_no_module_imports_itself_through_others() -> None:
    graph = {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts): {".".join(target) for target in imports_of(path)}
        for path in SOURCE.rglob("*.py")
    }
    assert circle(graph) == []


def test_no_two_parts_share_a_name() -> None:
    """A name leads to one place. Not so in `cli` and `recipes`: a command has the name of what it runs."""
    parts = [
        path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).parts[0] not in ("cli", "recipes")
    ]
    modules = [path.parent.name if path.stem == "__init__" else path.stem for path in parts]
    names = [
        node.name
        for path in parts
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) or (isinstance(node, ast.FunctionDef) and not node.name.startswith("_"))
    ]
    assert [name for each in (modules, names) for name, count in Counter(each).items() if count > 1] == []


def test_files_and_functions_stay_small() -> None:
    long = []
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        long += [f"{path.name}: {text.count(chr(10))} lines"] if text.count("\n") > 500 else []
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= 50:
                long.append(f"{path.name}: {node.name}")
    assert long == []
