"""The user's own Python files: recipes and sweeps, and the modules beside them that they import."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

_FOLDERS: set[Path] = set()  # of the files that were run


def value_of(path: Path, name: str) -> Any:
    """What a file calls so, when it has run. As when Python runs it, its folder is the first place of imports."""
    folder = path.resolve().parent
    _FOLDERS.add(folder)
    sys.path.insert(0, str(folder))
    try:
        return runpy.run_path(str(path)).get(name)
    except (Exception, SystemExit) as error:  # whatever a file of someone else's may raise
        lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(path)]
        place = f"{path}, line {lines[-1]}" if lines else f"{path}"
        raise ValueError(f"{place}: {type(error).__name__}: {error}") from None


def neighbours() -> list[ModuleType]:
    """The modules that files of the user have imported from their own folders."""
    return [module for name, module in sys.modules.items() if any(_lies_in(f, name, module) for f in _FOLDERS)]


def _lies_in(folder: Path, name: str, module: ModuleType) -> bool:
    """As a module of this name would lie there: not deeper, as an environment may."""
    stem = folder.joinpath(*name.split("."))
    file = getattr(module, "__dict__", {}).get("__file__")
    return file is not None and Path(file) in (stem.with_suffix(".py"), stem / "__init__.py")
