"""Experiments: a task, a network, a plan and the methods to compare; and how to load them from a user's file.

A task has training examples, a validation set to choose settings, and test sets. The `repr` of a recipe is its
configuration.

Axes: N images or sentences, H rows, W columns, C channels, T positions.
"""

from __future__ import annotations

import json
import re
import runpy
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from poise.checks import require_folder_name
from poise.data.augment import Augmentation
from poise.data.loading.pictures import Pictures
from poise.data.loading.sentences import TokenAugmentation
from poise.objectives.objective import Objective
from poise.records.columns import Column
from poise.records.schema import fault_of_experiment
from poise.tokens import Input, Tokens
from poise.training.plan import Plan


@dataclass(frozen=True, eq=False)
class Examples:
    """Examples x with labels y [N].

    x      uint8 images, as arrays [N, H, W] or [N, H, W, C] or tensors [N, C, H, W]; int32 word pieces [N, T] (see
           sentences.py) or Tokens; or floats [N, *D], such as a table of numbers [N, F].
    twins  rows [P, 2] of pairs that differ in the detail that decides the class, for the accuracy on pairs.
    """

    x: np.ndarray | Input
    y: np.ndarray | Tensor
    twins: np.ndarray | None = None

    def __post_init__(self) -> None:
        x, y = _described(self.x), _described(self.y)
        if not isinstance(self.x, Tokens) and not _is_readable(self.x.ndim, x):
            raise ValueError(
                f"x is {x}: give uint8 images [N, H, W] or [N, H, W, C] (0 to 255), int32 word pieces [N, T], or "
                "float32 numbers [N, F]"
            )
        if self.y.ndim != 1 or "int" not in y:
            raise ValueError(f"y is {y}: give one whole number per example [N]")
        if len(self.x) != len(self.y):
            raise ValueError(f"y has {len(self.y)} labels for {len(self.x)} examples")
        if self.twins is not None and (
            self.twins.ndim != 2 or self.twins.shape[1] != 2 or "int" not in str(self.twins.dtype)
        ):
            raise ValueError(f"twins is {_described(self.twins)}: give the rows of both examples of each pair [P, 2]")

    def __len__(self) -> int:
        return len(self.y)


def _is_readable(axes: int, described: str) -> bool:
    """Whether values are images, word pieces or numbers."""
    kind = described.split()[0]
    return (axes in (3, 4) and kind == "uint8") or (axes == 2 and kind == "int32") or (axes > 1 and kind == "float32")


def _described(values: np.ndarray | Input) -> str:
    held = values.ids if isinstance(values, Tokens) else values
    return f"{str(held.dtype).removeprefix('torch.')} {list(held.shape)}"


Make: TypeAlias = "Callable[[torch.device], Examples | Pictures]"  # makes a set for the device that tests it


@dataclass(frozen=True, eq=False)
class Task:
    """What to train on and what to test.

    validation   the set on which settings are chosen; None if all examples are used for training.
    tests        {score: function that makes the test set}; each set is made when it is needed.
    validations  variants of the validation set, with noise for example, that may also be used to choose settings.
    origins      for the record: the sources of test sets that have more than one.
    """

    train: Examples | Pictures
    validation: Examples | None
    tests: dict[str, Make]
    num_classes: int
    validations: dict[str, Make] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, examples in (("train", self.train), ("validation", self.validation)):
            if isinstance(examples, Examples):
                require_labels(name, examples, self.num_classes)


def require_labels(name: str, examples: Examples, num_classes: int) -> None:
    """Raise ValueError unless all labels are below the number of classes."""
    if len(examples) and not 0 <= int(examples.y.min()) <= int(examples.y.max()) < num_classes:
        low, high = int(examples.y.min()), int(examples.y.max())
        raise ValueError(f"{name} has labels from {low} to {high}: number the {num_classes} classes from 0")


class TaskRecipe(Protocol):
    """Builds a task.

    `training`, if present, is the part that determines the weights: experiments that agree in it share models.
    """

    def __call__(self) -> Task: ...


class Measures(Protocol):
    """Further scores of a trained model, by name."""

    def __call__(self, model: nn.Module, task: Task) -> dict[str, float]: ...


@dataclass(frozen=True, repr=False)
class Build:
    """A network to build, such as Build(LeNet, num_classes=15). Call it to build the network."""

    network: Callable[..., nn.Module]
    settings: dict[str, Any] = field(default_factory=dict)

    def __init__(self, network: Callable[..., nn.Module], **settings: Any) -> None:
        object.__setattr__(self, "network", network)
        object.__setattr__(self, "settings", settings)

    def __call__(self) -> nn.Module:
        return self.network(**self.settings)

    @property
    def name(self) -> str:
        return self.network.__name__

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in self.settings.items())})"


@dataclass(frozen=True)
class Method:
    """A method to compare: a row of the table."""

    name: str
    objective: Objective
    augment: Augmentation | TokenAugmentation | None = None

    @property
    def folder(self) -> str:
        """The name as a folder name: "PG+FCL" becomes pg-fcl."""
        return re.sub(r"(?:[^\w.]|_)+", "-", self.name.lower()).strip("-")


@dataclass(frozen=True)
class Recipe:
    """The configuration of a run without its seed. Runs whose recipes have the same repr belong to the same row."""

    task: TaskRecipe
    network: Build
    plan: Plan
    method: Method


@dataclass(frozen=True)
class Experiment:
    """The definition of a table.

    groups     methods that are compared with each other: the first of each group with the others.
    details    further tables, {title: columns}, each corrected for its own columns.
    paper      {method: {column: (mean, std)}}; std is None if the paper does not give it.
    overlaps   {method: corruptions that its training resembles}.
    measures   further scores of a trained model besides its accuracies; in a sweep, the task it gets has no tests.
    watch      what to measure after every epoch, for the log.
    exhibits   files that a run saves next to its record for figures, {name: content of name.json}.
    testing    False for a study that selects settings: it uses the task's validations and no test set.
    frontier   two columns that trade off; methods called "NAME SETTING" are then curves over them.
    reference  the errors that the mean corruption error divides by, one of `REFERENCE_ERRORS`, if any.
    notice     a sentence above tables and pages, for example that this is a miniature.
    """

    name: str
    title: str
    task: TaskRecipe
    network: Build
    plan: Plan
    methods: tuple[Method, ...]
    columns: tuple[Column, ...]
    groups: tuple[tuple[str, ...], ...]
    details: dict[str, tuple[Column, ...]] = field(default_factory=dict)
    seeds: int = 10
    paper: dict[str, dict[str, tuple[float, float | None]]] = field(default_factory=dict)
    overlaps: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rare_classes: tuple[int, ...] = ()
    class_names: tuple[str, ...] = ()
    measures: Measures | None = None
    watch: Measures | None = None
    exhibits: Callable[[nn.Module, Task], dict[str, dict[str, Any]]] | None = None
    testing: bool = True
    frontier: tuple[str, ...] = ()
    reference: str = ""
    notice: str = ""

    def __post_init__(self) -> None:
        require_folder_name("an experiment", self.name)
        _require_free("an experiment", self.name)
        if not self.methods:
            raise ValueError(f"the experiment {self.name!r} has no methods: it needs at least one")
        folders = [method.folder for method in self.methods]
        for method in self.methods:
            _require_free("a method", method.folder)
            if folders.count(method.folder) > 1 or not method.folder.strip("."):
                raise ValueError(
                    f"the method {method.name!r} needs a name that differs from all others in its letters and digits"
                )
        names = [method.name for method in self.methods]
        unknown = {name for group in self.groups for name in group} - set(names)
        if len(set(names)) < len(names) or unknown:
            raise ValueError(f"methods must have distinct names, and groups must name methods: {names}, {unknown}")
        if fault := fault_of_experiment(json.loads(json.dumps(self.facts()))):
            raise ValueError(f"no table can be made of the experiment {self.name!r}: its {fault}")

    @property
    def by_class(self) -> set[str]:
        """The tests whose counts per class are saved: those of a column with one test or with selected classes."""
        parts = [column for columns in self.details.values() for column in columns if column.classes or column.worst]
        return {
            name
            for column in (*self.columns, *parts)
            for name in column.of
            if len(column.of) == 1 or column.classes or column.worst
        }

    def runs(
        self, methods: Sequence[str] | None = None, seeds: Sequence[int] | None = None
    ) -> list[tuple[Method, int]]:
        """Methods x seeds: all of them, or the given ones."""
        chosen = [method for method in self.methods if methods is None or method.name in methods]
        return [(method, seed) for method in chosen for seed in (range(self.seeds) if seeds is None else seeds)]

    def recipe(self, method: Method) -> Recipe:
        return Recipe(self.task, self.network, self.plan, method)

    def facts(self) -> dict[str, Any]:
        """The content of experiment.json: all that a table needs."""
        paper = {
            method: {column: {"mean": mean, "std": std} for column, (mean, std) in row.items()}
            for method, row in self.paper.items()
        }
        return {
            "name": self.name,
            "title": self.title,
            "columns": _plain(self.columns),
            "details": {title: _plain(columns) for title, columns in self.details.items()},
            "methods": [method.name for method in self.methods],
            "groups": [list(group) for group in self.groups],
            "paper": paper,
            "overlaps": {name: list(seen) for name, seen in self.overlaps.items()},
            "rare_classes": list(self.rare_classes),
            "class_names": list(self.class_names),
            **({"frontier": list(self.frontier)} if self.frontier else {}),
            **({"reference": self.reference} if self.reference else {}),
            **({"notice": self.notice} if self.notice else {}),
        }


def _plain(columns: tuple[Column, ...]) -> list[dict[str, Any]]:
    return [{key: value for key, value in asdict(column).items() if value} for column in columns]


_RESERVED = ("fleets", "models", "sweeps")  # folders next to those of methods and experiments


def _require_free(kind: str, folder: str) -> None:
    if folder.lower() in _RESERVED:
        raise ValueError(f"{kind} is called {folder!r}, a folder name that Poise uses itself: choose another name")


_FOLDERS: set[Path] = set()  # folders of the files that were run


def value_of(path: Path, name: str) -> Any:
    """Run a file and return the value of a name in it; None if it does not define the name."""
    return module_values(path).get(name)


def module_values(path: Path) -> dict[str, Any]:
    """Run a file and return its values by name. Its folder comes first in `sys.path`, as in a Python script."""
    folder = path.resolve().parent
    _FOLDERS.add(folder)
    sys.path.insert(0, str(folder))
    try:
        return runpy.run_path(str(path))
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
