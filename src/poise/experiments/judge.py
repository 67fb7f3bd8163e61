"""What a trained model is worth: accuracies, the counts behind them, and what the experiment measures besides.

Several processes count a part of the batches each, and all of them must ask; what is measured, the first one measures.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from poise.data.errors import DataMismatch
from poise.data.streamed import Pictures
from poise.data.task import Examples, Task
from poise.distributed import rank, share, sum_over_processes, union, world_size
from poise.experiments.experiment import Experiment, Measures
from poise.experiments.placing import placed
from poise.experiments.tested import read_tested
from poise.tokens import Input
from poise.training.accuracy import count_batches, count_right
from poise.training.compiling import compiled, compiles
from poise.training.errors import out_of_time

_MANY = 50  # sets of 10,000 pictures


@dataclass(frozen=True, eq=False)
class Judge:
    """Scores the models of an experiment on a device.

    testing   False leaves the test sets alone and scores the task's validations instead.
    deadline  a time.monotonic() after which no set is begun: OutOfTime.
    """

    experiment: Experiment
    task: Task
    device: torch.device
    testing: bool = True
    deadline: float = math.inf

    def after_epoch(self, model: nn.Module) -> dict[str, Any]:
        """For the log: the accuracy on validation, and what the experiment watches."""
        watched = self._measured(self.experiment.watch, model)
        entry = {} if self.task.validation is None else {"validation": self._validation(model)}
        return {**entry, **({"measures": watched} if watched else {})}

    def at_the_end(self, model: nn.Module, kept: Path | None = None) -> dict[str, Any]:
        """For the record: scores, the counts behind them, and the accuracy on validation.

        kept  a file for the sets that are behind it: asked again, it goes on with the next one.
        """
        counts = self._all_counts(model, kept)
        measured = self._measured(self.experiment.measures, model)
        return {
            "scores": {**{name: _accuracy(each) for name, each in counts.items()}, **measured},
            "classes": {name: each.tolist() for name, each in counts.items() if name in self.experiment.by_class},
            "validation": self._validation(model),
            "origins": self.task.origins if self.testing else {},
            **({"damaged": damaged} if (damaged := self._damaged()) else {}),
        }

    def exhibits(self, model: nn.Module) -> dict[str, dict[str, Any]]:
        """For figures: what the experiment keeps beside the record of a test, by name."""
        make = self.experiment.exhibits
        return make(model, self.task) if make is not None and self.testing and rank() == 0 else {}

    @cached_property
    def train(self) -> tuple[Input | Pictures, Tensor]:
        """The training examples and labels on the device, images in the plan's layout; pictures that are streamed stay
        where they are."""
        if isinstance(self.task.train, Pictures):
            return self.task.train, torch.from_numpy(self.task.train.source.labels).to(self.device)
        rows, labels = self._placed(self.task.train)
        layout = self.experiment.plan.layout
        return (rows.contiguous(memory_format=layout) if isinstance(rows, Tensor) else rows), labels

    @cached_property
    def _validation_set(self) -> tuple[Input, Tensor] | None:
        return None if self.task.validation is None else self._placed(self.task.validation)

    def _all_counts(self, model: nn.Module, kept: Path | None) -> dict[str, Tensor]:
        """[L, 2] for every set, in their order."""
        sets = self.task.tests if self.testing else self.task.validations
        tested = read_tested(kept, model, self.experiment.task, self.experiment.plan, self.testing, self.task.origins)
        if isinstance(self.task.train, Pictures):
            self.task.train.damaged.update({Path(path): why for path, why in tested.damaged.items()})
        with _tuned(), compiled(model) if self._compiles(model, len(sets)) else nullcontext():
            for name, make in sets.items():
                if name in tested.counts:
                    continue
                if share(time.monotonic() >= self.deadline):
                    raise out_of_time(f"{len(tested.counts)} of {len(sets)} tests")
                tested.add(name, self._count(model, make(self.device)), self._damaged())
        return {name: tested.counts[name] for name in sets}

    def _compiles(self, model: nn.Module, sets: int) -> bool:
        """Pictures of a stream come in batches of any size; for a few sets, compiling takes longer than it saves. Those
        that are behind a run count, so that it ends as it began."""
        streamed = isinstance(self.task.train, Pictures)
        return sets >= _MANY and not streamed and compiles(model, self.experiment.plan, self.device)

    def _damaged(self) -> dict[str, str]:
        """Streamed pictures that a process could not decode, and why."""
        train = self.task.train
        return union({str(path): why for path, why in train.damaged.items()}) if isinstance(train, Pictures) else {}

    def _measured(self, measures: Measures | None, model: nn.Module) -> dict[str, float]:
        seen = self.task if self.testing else replace(self.task, tests={})
        return {} if measures is None or rank() > 0 else measures(model, seen)

    def _validation(self, model: nn.Module) -> float | None:
        return None if self._validation_set is None else _accuracy(self._counts(model, *self._validation_set))

    def _placed(self, examples: Examples) -> tuple[Input, Tensor]:
        return placed(examples, self.device)

    def _count(self, model: nn.Module, examples: Examples | Pictures) -> Tensor:
        if isinstance(examples, Examples):
            return self._counts(model, *self._placed(examples))
        bfloat16 = self.experiment.plan.precision == "bfloat16"
        batches = examples.in_order(self.device, rank(), world_size())
        counts = count_batches(model, batches, self.device, self.task.num_classes, bfloat16)
        counts = sum_over_processes(counts.to(self.device)).cpu()
        if not counts[:, 1].any():
            raise DataMismatch("no picture of a test can be decoded: see the warnings for their names")
        return counts

    def _counts(self, model: nn.Module, rows: Input, labels: Tensor) -> Tensor:
        bfloat16 = self.experiment.plan.precision == "bfloat16"
        counts = count_right(
            model, rows, labels, self.task.num_classes, bfloat16=bfloat16, part=rank(), parts=world_size()
        )
        return sum_over_processes(counts.to(self.device)).cpu()


@contextmanager
def _tuned() -> Iterator[None]:
    """cuDNN looks for its fastest kernels: many sets have batches of one size."""
    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def _accuracy(counts: Tensor) -> float:
    """Right of all, from [L, 2]."""
    right, all_of_them = (int(total) for total in counts.sum(0))
    return right / max(all_of_them, 1)
