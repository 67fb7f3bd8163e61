"""The names of the experiments that come with Poise, and what each is about; known without importing any of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

# name: file, and the names of its parts where there is more than one
FILES: dict[str, tuple[str, tuple[str, ...]]] = {
    "sentiment": ("sentiment", ()),
    "synthetic-mnist": ("synthetic_mnist", ()),
    "synthetic-mnist-ablation": ("synthetic_mnist_ablation", ()),
    "synthetic-mnist-frontier": ("synthetic_mnist_frontier", ()),
    "synthetic-mnist-choices": ("synthetic_mnist_choices", ()),
    "synthetic-mnist-scalings": (
        "synthetic_mnist_scalings",
        tuple(f"synthetic-mnist-{part}" for part in ("bilinear", "frontier-bilinear", "nearest", "frontier-nearest")),
    ),
    "noisy-cifar": ("noisy_cifar", ("noisy-cifar10", "noisy-cifar100")),
    "cifar-c": ("cifar_c", ("cifar10-c", "cifar100-c")),
    "cifar-controls": ("cifar_controls", ("cifar-controls-noisy", "cifar-controls-c")),
    "imagenet-c": ("imagenet_c", ()),
}
WHOLE = {part: whole for whole, (_, parts) in FILES.items() for part in parts}


def names() -> Iterator[str]:
    yield from FILES


def about(name: str) -> str:
    """The first line of the experiment's file, and the names of its parts."""
    file, parts = FILES[name]
    text = ast.get_docstring(ast.parse(Path(__file__).with_name(f"{file}.py").read_text(encoding="utf-8"))) or ""
    line = text.splitlines()[0]
    return f"{line} Parts: {', '.join(parts)}." if parts else line
