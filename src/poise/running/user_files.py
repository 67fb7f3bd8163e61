"""Load recipes and sweeps from the user's Python files, and find the modules that these import."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

_FOLDERS: set[Path] = set()  # folders of the files that were run


def value_of(path: Path, name: str) -> Any:
    """Run a file and return the value of a name in it. Its folder comes first in `sys.path`, as in a Python script."""
    folder = path.resolve().parent
    _FOLDERS.add(folder)
    sys.path.insert(0, str(folder))
    try:
        return runpy.run_path(str(path)).get(name)
    except (Exception, SystemExit) as error:  # a user's file may raise anything
        lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(path)]
        place = f"{path}, line {lines[-1]}" if lines else f"{path}"
        raise ValueError(f"{place}: {type(error).__name__}: {error}") from None


def neighbours() -> list[ModuleType]:
    """The modules that the user's files have imported from their own folders."""
    return [module for name, module in sys.modules.items() if any(_is_in(f, name, module) for f in _FOLDERS)]


def _is_in(folder: Path, name: str, module: ModuleType) -> bool:
    """Whether a module was imported from this folder itself, not from an environment inside it."""
    stem = folder.joinpath(*name.split("."))
    file = getattr(module, "__dict__", {}).get("__file__")
    return file is not None and Path(file) in (stem.with_suffix(".py"), stem / "__init__.py")
