"""What a trained model scores: on the tests of a task, or on its validations."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from poise.data.loader import on_device
from poise.data.task import Examples, Task
from poise.training.accuracy import count_right


@dataclass(frozen=True)
class Judge:
    """Counts what a model has right, on a device."""

    num_classes: int
    device: torch.device
    bfloat16: bool

    def accuracy(self, model: nn.Module, examples: Examples) -> float:
        return _accuracy(self._counts(model, examples))

    def record(self, model: nn.Module, task: Task, testing: bool, by_class: Collection[str]) -> dict[str, Any]:
        """Scores, the counts behind those that are wanted by class, and the accuracy on validation, if there is any."""
        sets = task.tests if testing else task.validations
        with _tuned():
            counts = {name: self._counts(model, make(self.device)) for name, make in sets.items()}
        return {
            "scores": {name: _accuracy(each) for name, each in counts.items()},
            "classes": {name: each.tolist() for name, each in counts.items() if name in by_class},
            "validation": None if task.validation is None else self.accuracy(model, task.validation),
            "origins": task.origins if testing else {},
        }

    def _counts(self, model: nn.Module, examples: Examples) -> torch.Tensor:
        images, labels = on_device(examples.x, examples.y, self.device)
        return count_right(model, images, labels, self.num_classes, bfloat16=self.bfloat16)


@contextmanager
def _tuned() -> Iterator[None]:
    """cuDNN looks for its fastest kernels: many sets have batches of one size."""
    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def _accuracy(counts: torch.Tensor) -> float:
    """Right of all, from [L, 2]."""
    right, all_of_them = (int(total) for total in counts.sum(0))
    return right / max(all_of_them, 1)
