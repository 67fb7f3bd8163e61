"""The index of experiments: their names, methods and descriptions, and how to find one, in Poise or in a user's file.

A recipe module has EXPERIMENTS, {length: experiments}, with one experiment for each part of its table, such as a data
set. The whole table and each part have a name. Names are available without importing torch or the recipes.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from poise.checks import require_known

if TYPE_CHECKING:
    from poise.running.experiment import Experiment
    from poise.running.sweeps import Sweep

Version: TypeAlias = Literal["full", "compressed", "quick"]
FIRST_LOOK = (
    "A miniature: less data and shorter training, so that it runs in minutes. Compare its rows with each other, not "
    "with the paper. The full run, {full.name}, has {full.plan.epochs} epochs and {full.seeds} seeds; "
    "its results: {page}"
)
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
    "rare-details": (
        "rare_details.parts",
        (
            *("rare-digits", "rare-digits-bilinear", "rare-digits-nearest"),
            *("corner-cifar", "cifar10-lt", "cifar10-lt-choice"),
        ),
    ),
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
_BASELINES = tuple(
    f"{name}{word}" for name in ("RandAugment", "TrivialAugment", "PixMix", "PRIME", "SAM") for word in ("", "+random")
)
_CIFAR = (*_CONTRASTS, *_PATCHES, "GN+XE", "GN+FCL", "AugMix", "AugMix+FCL", "AugMix+random", *_BASELINES)
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
        *("XE", "XE, adjusted", "recommended", "AugMix", "AugMix, adjusted", "AugMix+recommended"),
        *(f"{name}{word} {each}" for name, own in _RARE.items() for word in ("", ", adjusted") for each in own),
    ),
}


def method_names(experiments: Sequence[str] = ()) -> list[str]:
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


def find_experiments(name: str, length: Version = "full") -> tuple[Experiment, ...]:
    """The experiments of a table, or the one with this name."""
    require_known("experiment", name, [*FILES, *WHOLE])
    whole = WHOLE.get(name, name)
    lengths: dict[str, tuple[Experiment, ...]] = _module(whole).EXPERIMENTS
    if length not in lengths:
        raise ValueError(f"{whole} has no {length} version: choose from {', '.join(lengths)}")
    found = lengths[length]
    if length == "quick":
        found = tuple(_as_first_look(*both, PAGES[whole]) for both in zip(found, lengths["full"], strict=True))
    return found if name in FILES else (_part(name, found, length),)


def _part(name: str, found: tuple[Experiment, ...], length: Version) -> Experiment:
    """The part with this name; not every part of a table has every length."""
    for each in found:
        if each.name.removesuffix(f"-{length}") == name:
            return each
    lengths = _module(WHOLE[name]).EXPERIMENTS
    known = [
        other for other, those in lengths.items() if name in {each.name.removesuffix(f"-{other}") for each in those}
    ]
    raise ValueError(f"{name} has no {length} version: choose from {', '.join(known)}")


def _as_first_look(small: Experiment, full: Experiment, page: str) -> Experiment:
    """The miniature with a notice of what it is, without the paper's numbers: its own cannot be compared with them."""
    return replace(small, paper={}, notice=FIRST_LOOK.format(full=full, page=page))


def find_sweep(name: str, which: str | None = None, length: Version = "full") -> tuple[str, Sweep]:
    """A sweep of the experiment with this name, and the sweep's name; the first one by default."""
    found = find_experiments(name, length)
    make = getattr(_module(WHOLE.get(name, name)), "sweeps", None)
    if make is None:
        others = [other for other in FILES if hasattr(_module(other), "sweeps")]
        raise ValueError(f"{name} has no sweep: choose from {', '.join(others)}")
    if len(found) > 1:
        raise ValueError(f"{name} has several parts: sweep {' or '.join(FILES[name][1])}")
    sweeps: dict[str, Sweep] = make(found[0])
    chosen = next(iter(sweeps)) if which is None else which
    require_known("sweep", chosen, sweeps)
    return chosen, sweeps[chosen].ends() if length == "quick" else sweeps[chosen]


def experiment_from_file(path: Path) -> Experiment:
    """Run a user's Python file and return its EXPERIMENT."""
    from poise.running.experiment import Experiment, value_of

    found = value_of(path, "EXPERIMENT")
    if not isinstance(found, Experiment):
        raise ValueError(f"{path} must define EXPERIMENT, a poise.recipes.Experiment")
    return found


def sweep_from_file(path: Path) -> Sweep:
    """Run a user's Python file and return its SWEEP."""
    from poise.running.experiment import value_of
    from poise.running.sweeps import Sweep

    found = value_of(path, "SWEEP")
    if not isinstance(found, Sweep):
        raise ValueError(f"{path} must define SWEEP, a poise.recipes.Sweep")
    return found


def _module(name: str) -> Any:
    return import_module(f"poise.recipes.{FILES[name][0]}")
