"""`poise.__all__` is the contract: complete and documented."""

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import poise


@pytest.mark.torch
def test_all_is_what_can_be_asked_for_and_what_type_checkers_see() -> None:
    stub = ast.parse(Path(poise.__file__).with_suffix(".pyi").read_text())
    seen = {alias.name: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert sorted(poise.__all__) == sorted(seen)
    for name, module in seen.items():
        assert getattr(poise, name) is getattr(import_module(str(module)), name)


def test_the_package_alone_does_not_load_torch() -> None:
    code = "import sys, poise; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.torch
def test_all_names_load_without_the_compiler_of_torch() -> None:
    """It takes longer than everything else; a step of training loads it, with torch's optimizers."""
    code = (
        "import sys, poise; [getattr(poise, name) for name in poise.__all__]; assert 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'FLC'"):
        poise.FLC  # noqa: B018
    assert "FCL" in dir(poise)


@pytest.mark.torch
def test_every_public_class_and_function_has_a_docstring() -> None:
    def documented(value: object) -> bool:
        # A dataclass without a docstring of its own gets its signature as one.
        return bool(value.__doc__) and not value.__doc__.startswith(f"{getattr(value, '__name__', '')}(")

    things = {name: getattr(poise, name) for name in poise.__all__}
    assert [n for n, v in things.items() if (inspect.isclass(v) or inspect.isfunction(v)) and not documented(v)] == []
