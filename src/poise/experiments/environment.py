"""Where a run happened: commit, versions, device."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch


def surroundings(device: torch.device) -> dict[str, Any]:
    """For the record."""
    return {
        "commit": _commit(),
        "version_of_poise": _version("poise"),
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": _version("numpy")},
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else f"{_processor()}, {_threads()}",
    }


def _commit() -> str | None:
    """That of the checkout this file lies in, with a + if the package differs from it; None for an installed one."""
    here = Path(__file__).parents[1]
    try:
        found = _git(here, "rev-parse", "--short", "HEAD")
        return found + ("+" if _git(here, "status", "--porcelain", "--", str(here)) else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    return platform.machine() or "CPU"


def _threads() -> str:
    count = torch.get_num_threads()
    return f"{count} thread{'s' if count > 1 else ''}"
