"""What a recipe of one's own imports from `poise.recipes`."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

from poise import recipes


@pytest.mark.torch
def test_every_name_is_what_type_checkers_see() -> None:
    text = Path(recipes.__file__).read_text()
    seen = {
        alias.name: node.module
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("poise.")
        for alias in node.names
    }
    assert sorted(seen) == recipes.__all__
    for name, module in seen.items():
        assert getattr(recipes, name) is getattr(import_module(str(module)), name)
        assert getattr(recipes, name).__doc__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Plam'"):
        recipes.Plam  # noqa: B018
