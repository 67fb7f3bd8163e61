"""What to install where a package is missing."""

from __future__ import annotations

TORCH = "needs PyTorch, which is not installed: pip install torch (see https://pytorch.org/get-started)"


def is_torch(error: ModuleNotFoundError) -> bool:
    """Whether it is torch that is missing."""
    return (error.name or "").partition(".")[0] == "torch"


def install(extra: str) -> str:
    """How to install the packages of an extra."""
    return f'pip install ".[{extra}]" in a clone of Poise'
