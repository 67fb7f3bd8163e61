"""The names and descriptions of the experiments in Poise, available without importing the experiments."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

# name: module, and the names of its parts if there are several
FILES: dict[str, tuple[str, tuple[str, ...]]] = {
    "sentiment": ("sentiment.treebank", ()),
    "synthetic-mnist": ("synthetic_mnist.table_1", ()),
    "synthetic-mnist-ablation": ("synthetic_mnist.ablation", ()),
    "synthetic-mnist-frontier": ("synthetic_mnist.rare_against_noise", ()),
    "synthetic-mnist-choices": ("synthetic_mnist.choices", ()),
    "synthetic-mnist-scalings": (
        "synthetic_mnist.scalings",
        tuple(f"synthetic-mnist-{part}" for part in ("bilinear", "frontier-bilinear", "nearest", "frontier-nearest")),
    ),
    "noisy-cifar": ("cifar.noisy_cifar", ("noisy-cifar10", "noisy-cifar100")),
    "cifar-c": ("cifar.cifar_c", ("cifar10-c", "cifar100-c")),
    "cifar-controls": ("cifar.controls", ("cifar-controls-noisy", "cifar-controls-c")),
    "cifar-choices": ("cifar.choices", ("cifar10-frontier", "cifar100-choices")),
    "imagenet-c": ("imagenet_c", ()),
    "rare-details": ("rare_details.digits", ("rare-digits", "rare-digits-bilinear", "rare-digits-nearest")),
}
# The committed page about each file's results.
_DIGITS = "docs/synthetic-mnist.md"
PAGES = {
    **dict.fromkeys((name for name in FILES if name.startswith("synthetic-mnist")), _DIGITS),
    **dict.fromkeys(("noisy-cifar", "cifar-c"), "docs/cifar.md"),
    **dict.fromkeys(("cifar-controls", "cifar-choices"), "docs/cifar/controls.md"),
    "imagenet-c": "docs/imagenet.md",
    "rare-details": "docs/rare-details.md",
    "sentiment": "docs/sentiment.md",
}
WHOLE = {part: whole for whole, (_, parts) in FILES.items() for part in parts}

# The methods of each file's experiments, for shell completion; a test compares them with those of the recipes.
_CONTRASTS = ("XE", "XE+Gaussian", "CL+Gaussian", "FCL")
_PATCHES = ("PG+XE", "PG+FCL")
_PEAKS = ("0.0003", "0.001", "0.003", "0.01", "0.03", "0.1")
_CURVES = ("CL+Gaussian", "FCL", "random")
_VARIANTS = ("swapped", "no far view", "margin", "far x 100", "uneven", "graded", "smooth", "confident", "decisive")
_FRONTIER = tuple(f"{name} {peak}" for name in _CURVES for peak in _PEAKS)
_CIFAR = (*_CONTRASTS, *_PATCHES, "GN+XE", "GN+FCL", "AugMix", "AugMix+FCL")
_CIFAR_PEAKS = ("3e-05", "0.0001", "0.0003", "0.001", "0.003")
_STATISTICS = ("batch statistics", "moving statistics", "moving statistics, lambda 0", "own forward")
_RARE_PEAKS, _RARE_SIGMAS = ("0.001", "0.01", "0.03", "0.1"), ("0.1", "0.15", "0.2", "0.25")
_RARE = {
    **dict.fromkeys(("FCL", "random", "oracle", "CL+Gaussian"), _RARE_PEAKS),
    **dict.fromkeys(("XE+Gaussian", "Gaussian noise", "Patch Gaussian"), _RARE_SIGMAS),
}
_METHODS: dict[str, tuple[str, ...]] = {
    "sentiment": ("XE", "FCL"),
    "synthetic-mnist": (*_CONTRASTS, "FCL, margin", "Gaussian augmentation", *_PATCHES),
    "synthetic-mnist-ablation": (
        *("FCL", "XE", "k = 32", "k = 64", "k = 128", "k = 392", "sigma = 0.1", "sigma = 0.25", "sigma = 1.0"),
        *("clipped to [0, 1]", "tau = 0.05", "tau = 0.5", "tau = 1.0", "sum over the batch", "no warm-up"),
        "from epoch 10",
    ),
    "synthetic-mnist-frontier": (
        *_FRONTIER,
        *(f"{name} {peak}" for name in (*_VARIANTS, "none dropped") for peak in _PEAKS),
        *(f"margin {peak}" for peak in ("0.3", "1", "3", "10")),
    ),
    "synthetic-mnist-choices": (
        *("XE", "FCL"),
        *(f"Gaussian, sigma = {sigma}" for sigma in (0.05, 0.1, 0.2, 0.3, 0.5)),
        *(f"patch of {size}, sigma = {sigma}" for size in (7, 14) for sigma in (0.1, 0.2, 0.5)),
    ),
    "synthetic-mnist-scalings": (*_CONTRASTS, *_FRONTIER),
    "noisy-cifar": _CIFAR,
    "cifar-c": _CIFAR,
    "cifar-controls": (
        *("FCL", "XE", "CL+Gaussian", "XE+Gaussian"),
        *(f"FCL, {what}" for what in ("sigma 0", "random k", "mean", "85 pixels", "256 pixels", "clipped")),
        *(f"FCL, {what}" for what in _STATISTICS),
        *("CL+Gaussian, batch statistics", "XE+Gaussian, mean", "XE+Gaussian, moving statistics"),
        "XE+Gaussian, running statistics, from epoch 300",
    ),
    "cifar-choices": (
        "XE",
        *(f"{name} {peak}" for name in ("FCL", "random", "CL+Gaussian") for peak in _CIFAR_PEAKS),
        *("FCL", "CL+Gaussian", "FCL, random k", "FCL, swapped", "FCL, no far view"),
    ),
    "imagenet-c": (*_CONTRASTS, *_PATCHES),
    "rare-details": (
        *("XE", "XE, adjusted", "recommended"),
        *(f"{name}{word} {each}" for name, own in _RARE.items() for word in ("", ", adjusted") for each in own),
    ),
}


def names() -> Iterator[str]:
    yield from FILES


def methods(experiments: Sequence[str] = ()) -> list[str]:
    """The names of the methods of these experiments or parts; of all experiments if none of them is known."""
    known = [WHOLE.get(name, name) for name in experiments if name in WHOLE or name in FILES]
    return list(dict.fromkeys(method for name in known or FILES for method in _METHODS[name]))


def about(name: str) -> str:
    """The first line of the experiment's file, and the names of its parts."""
    file, parts = FILES[name]
    source = Path(__file__).parent / f"{file.replace('.', '/')}.py"
    text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    line = text.splitlines()[0]
    return f"{line} Parts: {', '.join(parts)}." if parts else line
