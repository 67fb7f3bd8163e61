"""`poise.__all__` is the contract: complete and documented."""

import inspect

import poise


def test_all_is_what_is_exported() -> None:
    exported = [name for name, value in vars(poise).items() if not name.startswith("_") and not inspect.ismodule(value)]
    assert sorted(poise.__all__) == sorted(exported)  # ruff keeps __all__ in order


def test_every_public_class_and_function_has_a_docstring() -> None:
    def documented(value: object) -> bool:
        # A dataclass without a docstring of its own gets its signature as one.
        return bool(value.__doc__) and not value.__doc__.startswith(f"{getattr(value, '__name__', '')}(")

    things = {name: getattr(poise, name) for name in poise.__all__}
    assert [n for n, v in things.items() if (inspect.isclass(v) or inspect.isfunction(v)) and not documented(v)] == []
