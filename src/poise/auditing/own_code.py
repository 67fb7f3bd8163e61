"""The user's own code: a module by its name or its file, and what it raises in one sentence."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from os import sep
from pathlib import Path
from sysconfig import get_path
from traceback import FrameSummary, extract_tb
from typing import Any

from poise.auditing.errors import AuditError

_NOT_THE_USERS = (Path(__file__).parents[1], Path(get_path("stdlib")))
_FOLDERS: set[Path] = set()  # of the files that were run


def called(function: Callable[[], Any], name: str) -> Any:
    """What the function gives; an AuditError with what it raises."""
    try:
        return function()
    except (Exception, SystemExit) as error:  # whatever the user's own code raises
        raise AuditError(f"{name} raised {raised(error)}") from None


def raised(error: BaseException) -> str:
    """The kind of an error, the line of the user's code that it comes from, and its own first line."""
    own = _frames(error)
    where = f" (line {own[-1].lineno} of {Path(own[-1].filename).name})" if own else ""
    return f"{type(error).__name__}{where}: {(str(error).splitlines() or [''])[0]}".removesuffix(": ")


def of_user(error: BaseException) -> bool:
    """Whether it was raised in the user's code, or below it."""
    return bool(_frames(error))


def _frames(error: BaseException) -> list[FrameSummary]:
    """Those of the user's code."""
    return [frame for frame in extract_tb(error.__traceback__) if not _installed(Path(frame.filename))]


def _installed(file: Path) -> bool:
    """Of Poise, a package or Python itself."""
    return "site-packages" in file.parts or any(each in file.parents for each in _NOT_THE_USERS)


def module_of(name: str) -> Any:
    """The module of a file or of a name. As when Python runs a file, its folder is the first place of imports."""
    if name.endswith(".py"):
        path = Path(name)
        if not path.is_file():
            raise AuditError(f"{name} is not a file")
        _import_from(path.resolve().parent)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise AuditError(f"{name} cannot be imported")
        load, module = spec.loader.exec_module, importlib.util.module_from_spec(spec)
        held = sys.modules.setdefault(path.stem, module)
        try:
            called(lambda: load(module), name)
        except AuditError:
            if held is module:
                del sys.modules[path.stem]
            raise
        return module
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise AuditError(f"{name} cannot be imported ({error}): is it on the path?") from None
    except (Exception, SystemExit) as error:  # whatever the user's own code raises
        raise AuditError(f"{name} raised {raised(error)}") from None


def _import_from(folder: Path) -> None:
    """A file finds its neighbours, and its own: not those of the same name beside the other model's file."""
    others = tuple(f"{each}{sep}" for each in _FOLDERS if each != folder)
    for name, module in list(sys.modules.items()):
        own = getattr(module, "__dict__", {})  # asked for by name, a module may load what it loads late
        file = str(own.get("__file__"))
        if not file.startswith(others) or file.startswith(f"{folder}{sep}"):
            continue
        top = name.partition(".")[0]
        if (folder / f"{top}.py").is_file() or (folder / top / "__init__.py").is_file():
            del sys.modules[name]
    _FOLDERS.add(folder)
    sys.path.insert(0, str(folder))
