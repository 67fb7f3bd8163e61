"""Sweeps: lists of values to try for some fields of a method.

    Sweep(EXPERIMENT, "FCL", {"objective.weight.peak": (1e-4, 1e-3), "objective.select.k": (128, 256)})

A path starts at the method (`objective`, `augment`) or at the experiment (`plan`, `network`, `task`) and continues from
field to field; elements of a tuple are numbers: `augment.parts.1.size`. A trial is the recipe with a value at every
path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from math import prod
from typing import Any

from poise.checks import require_known
from poise.running.experiment import Build, Experiment, Method, Recipe

VALIDATION = "validation"


@dataclass(frozen=True)
class Sweep:
    """A method of an experiment, and the values to try.

    choices  {path: values}.
    score    the scores whose mean decides: "validation", or names of the task's validations (never tests).
    seeds    runs per trial.
    """

    experiment: Experiment
    method: str
    choices: Mapping[str, tuple[Any, ...]]
    score: tuple[str, ...] = (VALIDATION,)
    seeds: int = 3

    def __post_init__(self) -> None:
        require_known("method", self.method, [method.name for method in self.experiment.methods])
        if not self.choices or not self.score or self.seeds < 1:
            raise ValueError("a sweep needs choices, a score and at least one seed")
        for path, values in self.choices.items():
            if not isinstance(values, tuple) or not values:
                raise ValueError(f"{path}: {values!r} must be a tuple of at least one value")
            if len({repr(value) for value in values}) < len(values):
                raise ValueError(f"{path}: {values!r} contains a value twice")
            for value in values:
                replaced(self.recipe, path, value)

    def __len__(self) -> int:
        """The number of possible trials."""
        return prod(len(values) for values in self.choices.values())

    @property
    def recipe(self) -> Recipe:
        """The recipe that all trials start from."""
        return self.experiment.recipe(next(each for each in self.experiment.methods if each.name == self.method))

    def ends(self) -> Sweep:
        """A quick version: the first and last value of every list, one seed."""
        ends = {path: (values[0], values[-1]) if len(values) > 1 else values for path, values in self.choices.items()}
        return replace(self, choices=ends, seeds=1)

    def labels(self) -> dict[str, list[str]]:
        """The values as stored: {path: their reprs}."""
        return {path: [repr(value) for value in values] for path, values in self.choices.items()}

    def trial(self, name: str, labels: Mapping[str, str]) -> Experiment:
        """The experiment with these values, under its own name; {path: repr of the value}."""
        recipe = self.recipe
        for path, values in self.choices.items():
            recipe = replaced(recipe, path, next(value for value in values if repr(value) == labels[path]))
        others = self.experiment.methods
        methods = tuple(recipe.method if each.name == self.method else each for each in others)
        task, network, plan = recipe.task, recipe.network, recipe.plan
        return replace(self.experiment, name=name, methods=methods, task=task, network=network, plan=plan)


def replaced(recipe: Recipe, path: str, value: Any) -> Recipe:
    """The recipe with another value at a path. For an unknown path, a ValueError names the existing fields."""
    start = path.split(".")[0]
    whole = f"method.{path}" if start in {field.name for field in fields(Method)} - {"name"} else path
    if start in ("method", "name"):
        raise ValueError(f"{path}: a path starts with objective, augment, plan, network or task")
    changed: Recipe = _replaced(recipe, whole.split("."), path, value)
    return changed


def _replaced(held: Any, names: list[str], path: str, value: Any) -> Any:
    if not names:
        return value
    parts = _parts(held)
    name, *rest = names
    if name not in parts:
        raise ValueError(f"{path}: {_lacks(held, name, parts)}")
    try:
        return _rebuilt(held, {**parts, name: _replaced(parts[name], rest, path, value)})
    except TypeError as error:
        raise ValueError(f"{path}: {value!r} does not fit: {error}") from None


def _parts(held: Any) -> dict[str, Any]:
    if isinstance(held, Build):
        return held.settings
    if isinstance(held, tuple):
        return {str(place): part for place, part in enumerate(held)}
    if is_dataclass(held):
        return {field.name: getattr(held, field.name) for field in fields(held) if field.init}
    return {}


def _rebuilt(held: Any, parts: dict[str, Any]) -> Any:
    if isinstance(held, Build):
        return Build(held.network, **parts)
    return tuple(parts.values()) if isinstance(held, tuple) else replace(held, **parts)


def _lacks(held: Any, name: str, parts: dict[str, Any]) -> str:
    if isinstance(held, Recipe):
        return "a path starts with objective, augment, plan, network or task"
    if not parts:
        return f"{held!r} has no fields, so {name!r} does not exist"
    near = get_close_matches(name, parts, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(parts)}"
    return f"{type(held).__name__} has no {name!r}: {hint}"
