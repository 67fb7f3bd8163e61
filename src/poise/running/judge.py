"""Scores of a trained model: accuracies, counts per class, and the experiment's own measures.

In distributed training each process tests a part of the batches, so all processes must call; the first process computes
the measures.

Finished test sets are saved until the record is written, since tests of ImageNet-C take hours:

    <run>/tested.jsonl    a digest of the weights and the tests, then a line for each set with the numbers of correct
                          and of all examples per class; each line has a checksum

A file of other weights or other tests is ignored. Sets from the first damaged line on are tested again.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from poise.data.loading.pictures import Pictures, StreamLoader
from poise.data.loading.resident import DeviceLoader, Loader, on_device
from poise.data.loading.sentences import TokenLoader, tokens_of
from poise.distributed import rank, share, sum_over_processes, union, world_size
from poise.errors import DataMismatch, out_of_time
from poise.evaluation.accuracy import count_batches, count_right
from poise.io.documents import is_intact, with_checksum
from poise.io.files import new_file
from poise.running.experiment import Examples, Experiment, Measures, Task, require_labels
from poise.tokens import Input, Tokens
from poise.training.engine import compiled, compiles
from poise.training.plan import Plan

FILE = "tested.jsonl"
_MANY = 50  # sets of 10,000 pictures


@dataclass(frozen=True, eq=False)
class Judge:
    """Scores the models of an experiment on a device.

    testing   False scores the task's validations instead of its test sets.
    deadline  the time.monotonic() after which no set is started: raises OutOfTime.
    """

    experiment: Experiment
    task: Task
    device: torch.device
    testing: bool = True
    deadline: float = math.inf

    def after_epoch(self, model: nn.Module) -> dict[str, Any]:
        """The log entry of an epoch: the accuracy on validation, and the experiment's `watch` measures."""
        watched = self._measured(self.experiment.watch, model)
        entry = {} if self.task.validation is None else {"validation": self._validation(model)}
        return {**entry, **({"measures": watched} if watched else {})}

    def at_the_end(self, model: nn.Module, kept: Path | None = None) -> dict[str, Any]:
        """The results for the record: scores, counts per class, and the accuracy on validation.

        kept  a file to save each finished set to; a later call continues with the next set.
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
        """The files that the experiment saves next to the record for figures, by name."""
        make = self.experiment.exhibits
        return make(model, self.task) if make is not None and self.testing and rank() == 0 else {}

    @cached_property
    def train(self) -> tuple[Input | Pictures, Tensor]:
        """The training examples and labels on the device, images in the plan's layout; streamed images stay on disk."""
        if isinstance(self.task.train, Pictures):
            return self.task.train, torch.from_numpy(self.task.train.source.labels).to(self.device)
        rows, labels = self._placed(self.task.train)
        layout = self.experiment.plan.layout
        images = isinstance(rows, Tensor) and rows.ndim == 4
        return (rows.contiguous(memory_format=layout) if images else rows), labels  # type: ignore[union-attr]

    @cached_property
    def _validation_set(self) -> tuple[Input, Tensor] | None:
        return None if self.task.validation is None else self._placed(self.task.validation)

    def _all_counts(self, model: nn.Module, kept: Path | None) -> dict[str, Tensor]:
        """Counts [L, 2] of every set, in the order of the task."""
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
        """Whether to compile the model: for many sets, with batches of one size.

        Streamed images come in batches of any size; for a few sets, compiling takes longer than it saves. `sets`
        includes the finished ones, so that a continued run makes the same choice.
        """
        streamed = isinstance(self.task.train, Pictures)
        return sets >= _MANY and not streamed and compiles(model, self.experiment.plan, self.device)

    def _damaged(self) -> dict[str, str]:
        """Streamed images that a process could not decode, and why."""
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
            require_labels("a test set", examples, self.task.num_classes)
            return self._counts(model, *self._placed(examples))
        bfloat16 = self.experiment.plan.precision == "bfloat16"
        batches = examples.in_order(self.device, rank(), world_size())
        counts = count_batches(model, batches, self.device, self.task.num_classes, bfloat16)
        counts = sum_over_processes(counts.to(self.device)).cpu()
        if not counts[:, 1].any():
            raise DataMismatch("no image of a test set can be decoded: see the warnings for their names")
        return counts

    def _counts(self, model: nn.Module, rows: Input, labels: Tensor) -> Tensor:
        bfloat16 = self.experiment.plan.precision == "bfloat16"
        counts = count_right(
            model, rows, labels, self.task.num_classes, bfloat16=bfloat16, part=rank(), parts=world_size()
        )
        return sum_over_processes(counts.to(self.device)).cpu()


@contextmanager
def _tuned() -> Iterator[None]:
    """Let cuDNN select its fastest kernels in the block: many sets have batches of one size."""
    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def _accuracy(counts: Tensor) -> float:
    """The accuracy from counts [L, 2]."""
    right, all_of_them = (int(total) for total in counts.sum(0))
    return right / max(all_of_them, 1)


def placed(examples: Examples, device: torch.device) -> tuple[Input, Tensor]:
    """Examples on a device: images and numbers as a tensor, word pieces as Tokens, and their labels."""
    x, y = examples.x, examples.y
    if isinstance(x, Tensor) or (isinstance(x, np.ndarray) and x.dtype != np.int32):
        return on_device(x, y, device)
    sentences = x.to(device) if isinstance(x, Tokens) else tokens_of(x, device)
    return sentences, (y if isinstance(y, Tensor) else torch.from_numpy(np.array(y))).long().to(device)


def loader(rows: Input | Pictures, labels: Tensor, plan: Plan, augment: Any, seed: int) -> Loader:
    """A loader of training batches that fits the kind of examples: streamed images, sentences, or images."""
    if isinstance(rows, Pictures):
        return StreamLoader(rows, labels, plan.batch_size, augment, seed, plan.layout)
    if isinstance(rows, Tokens):
        return TokenLoader(rows, labels, plan.batch_size, augment, seed)
    return DeviceLoader(rows, labels, plan.batch_size, augment, seed)


@dataclass(frozen=True, eq=False)
class Tested:
    """Results of the finished test sets: counts [L, 2] by set, and the images that could not be decoded.

    path  the file to save them to; None saves nothing.
    """

    path: Path | None = None
    lines: list[str] = field(default_factory=list)
    counts: dict[str, Tensor] = field(default_factory=dict)
    damaged: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, counts: Tensor, damaged: dict[str, str]) -> None:
        """Add a set. The first process saves it, without syncing the disk."""
        self.counts[name] = counts
        if self.path is None or rank() > 0:
            return
        line = {"test": name, "counts": counts.tolist(), "damaged": damaged}
        self.lines.append(json.dumps(with_checksum(line)))
        with new_file(self.path, within=self.path.parent) as stream:
            stream.write("\n".join(self.lines).encode())


def read_tested(path: Path | None, model: nn.Module, *tests: object) -> Tested:
    """The saved results for these weights and tests, as the first process finds them, in all processes."""
    if path is None:
        return Tested()
    lines = share(_found(path, _digest(model, tests)) if rank() == 0 else [])
    sets = [json.loads(line) for line in lines[1:]]
    counts = {each["test"]: torch.tensor(each["counts"]) for each in sets}
    return Tested(path, lines, counts, {name: why for each in sets for name, why in each["damaged"].items()})


def _found(path: Path, digest: str) -> list[str]:
    """The lines of the file up to the first damaged one; the head of a new file if it does not match the digest."""
    head = json.dumps(with_checksum({"version": 2, "digest": digest}))
    try:
        lines = path.read_text().splitlines()
    except (OSError, ValueError):
        return [head]
    return [head, *takewhile(_is_intact_line, lines[1:])] if lines[:1] == [head] else [head]


def _is_intact_line(line: str) -> bool:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and is_intact(content)


def _digest(model: nn.Module, tests: tuple[object, ...]) -> str:
    digest = sha256(repr(tests).encode())
    for name, tensor in model.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
