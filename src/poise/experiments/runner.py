"""The runner: methods x seeds, what is finished is left, what was begun goes on.

    <out>/<experiment>/experiment.json                   what a table needs to know
    <out>/<experiment>/<method>/seed-03/record.json      a finished run
    <out>/<experiment>/trunks/<digest>/seed-03/          a beginning that several methods share

Methods with the same augmentation and loss do the same until their contrast switches on. That trunk is trained once per
seed, and each method branches from its checkpoint; the record says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from poise.data.loader import Loader
from poise.data.task import Examples, Task
from poise.distributed import rank, share
from poise.experiments.environment import surroundings
from poise.experiments.experiment import Experiment, Method
from poise.experiments.folders import busy, differing, slug
from poise.experiments.logs import notes
from poise.experiments.placing import loader, placed
from poise.experiments.trunks import beginning, loss_of, quiet_steps
from poise.objectives.xe import XE
from poise.reporting.files import write_json
from poise.tokens import Input
from poise.training.accuracy import count_right
from poise.training.checkpoint import Checkpoint, newest
from poise.training.errors import TrainingError
from poise.training.loop import Fit, Now, fit
from poise.training.plan import in_layout


@dataclass(frozen=True)
class Event:
    """What the runner tells while it works: a run, and where it stands."""

    method: str
    seed: int
    what: str
    now: Now | None = None


Listener = Callable[[Event], None]


@dataclass(frozen=True, eq=False)
class Runner:
    """Runs an experiment into a folder.

    share_trunks  train what methods have in common once.
    keep_every    seconds between checkpoints.
    tensorboard   write the epochs for TensorBoard, too.
    testing       False leaves the test sets alone and scores the task's validations instead: for sweeps.
    trunks        the folder of shared beginnings; by default one beside the methods.
    """

    experiment: Experiment
    out: Path
    device: torch.device
    share_trunks: bool = True
    keep_every: float = 30.0
    tensorboard: bool = False
    listen: Listener = lambda event: None
    testing: bool = True
    trunks: Path | None = None

    def run(self, methods: Sequence[str] | None = None, seeds: Sequence[int] | None = None) -> list[Path]:
        """The records of these methods and seeds, in that order; what another process is at is left to it."""
        chosen = [method for method in self.experiment.methods if methods is None or method.name in methods]
        numbers = range(self.experiment.seeds) if seeds is None else seeds
        self._write(self.folder / "experiment.json", self.experiment.facts())
        for method in chosen:
            for seed in numbers:
                differing(self.record_path(method, seed), repr(self.experiment.recipe(method)))
        task: Task | None = None
        for seed in numbers:
            for method in chosen:
                path = self.record_path(method, seed)
                with busy(path.parent) as mine:
                    if not mine:
                        self.listen(Event(method.name, seed, "is run by another process"))
                    elif share(path.exists()):
                        self.listen(Event(method.name, seed, "is finished"))
                    else:
                        task = task or self.experiment.task()
                        self._one(task, method, seed)
        return [path for method in chosen for seed in numbers if (path := self.record_path(method, seed)).exists()]

    @property
    def folder(self) -> Path:
        return self.out / self.experiment.name

    def record_path(self, method: Method, seed: int) -> Path:
        return self.folder / slug(method.name) / f"seed-{seed:02d}" / "record.json"

    def _one(self, task: Task, method: Method, seed: int) -> None:
        started = datetime.now(UTC)
        path = self.record_path(method, seed)
        self._write(path.with_name("recipe.json"), {"recipe": repr(self.experiment.recipe(method))})
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        epochs = self._trunk_epochs(task, method)
        branch = self._trunk(task, method, seed, epochs) if epochs else None
        model, data = self._model(seed), self._data(task, method, seed)
        done = self._fit(task, method, seed, model, data, path.parent, branch=branch)
        if rank() > 0:
            return
        self.listen(Event(method.name, seed, "is tested" if self.testing else "is validated"))
        record = {
            "version": 1,
            "experiment": self.experiment.name,
            "method": method.name,
            "seed": seed,
            "recipe": repr(self.experiment.recipe(method)),
            **self._tested(task, model, path.parent),
            "log": done.log,
            "trunk": {"epochs": epochs} if epochs else None,
            "seconds": done.seconds,
            "peak_memory": torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else None,
            **surroundings(self.device),
            "engine": done.engine,
            "started": started.isoformat(timespec="seconds"),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        self._write(path, record)
        self.listen(Event(method.name, seed, "is finished"))

    def _write(self, path: Path, content: dict[str, Any]) -> None:
        if rank() == 0:
            write_json(path, content)

    def _fit(
        self,
        task: Task,
        method: Method,
        seed: int,
        model: nn.Module,
        data: Loader,
        folder: Path,
        branch: Checkpoint | None = None,
        until: int | None = None,
    ) -> Fit:
        validation = placed(task.validation, self.device)
        what = "is trained" if until is None else "is trained, the part that methods share"
        return fit(
            model,
            method.objective,
            data,
            self.experiment.plan,
            folder=folder,
            branch=branch,
            until=until,
            validate=lambda model: _accuracy(self._counts(model, *validation, task.num_classes)),
            keep_every=self.keep_every,
            progress=lambda now: self.listen(Event(method.name, seed, what, now)),
            warn=lambda sentence: self.listen(Event(method.name, seed, sentence)),
            note=notes(folder, self.tensorboard) if rank() == 0 else lambda log: None,
        )

    def _trunk_epochs(self, task: Task, method: Method) -> int:
        """Epochs that the method shares with another one: whole epochs before the first of them switches on."""
        steps = len(task.train) // self.experiment.plan.batch_size
        quiet = {
            other.name: quiet_steps(other.objective, self.experiment.plan.epochs * steps) // steps
            for other in self.experiment.methods
            if beginning(other) == beginning(method)
        }
        sharing = [epochs for epochs in quiet.values() if epochs > 0]
        return min(sharing) if self.share_trunks and quiet[method.name] > 0 and len(sharing) > 1 else 0

    def _trunk(self, task: Task, method: Method, seed: int, epochs: int) -> Checkpoint:
        """The shared beginning, trained if it is not there yet; another process that is at it is waited for."""
        recipe = (self.experiment.task, self.experiment.network, self.experiment.plan, beginning(method), epochs)
        home = self.trunks or self.folder / "trunks"
        folder = home / sha256(repr(recipe).encode()).hexdigest()[:12] / f"seed-{seed:02d}"
        plain = replace(method, objective=XE(loss=loss_of(method)))
        while True:
            with busy(folder) as mine:
                if mine:
                    self._fit(task, plain, seed, self._model(seed), self._data(task, plain, seed), folder, until=epochs)
                    share(None)  # the first process has written its last checkpoint
                    found = newest(folder, lambda sentence: None)
                    if found is None or len(found.facts["log"]) != epochs:
                        raise TrainingError(f"{folder} has no whole checkpoint: remove it to train it again")
                    return found
            time.sleep(1)

    def _model(self, seed: int) -> nn.Module:
        """The network with the first weights of a seed, the same for all methods."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self.experiment.network()
        return in_layout(model.to(self.device), self.experiment.plan)

    def _data(self, task: Task, method: Method, seed: int) -> Loader:
        return loader(task.train, self.experiment.plan, method.augment, seed, self.device)

    def _tested(self, task: Task, model: nn.Module, folder: Path) -> dict[str, Any]:
        """Scores, the counts behind them, and the accuracy on validation."""
        sets = task.tests if self.testing else task.validations
        counts = {name: self._count(model, make(), task.num_classes) for name, make in sets.items()}
        scores = {name: _accuracy(each) for name, each in counts.items()}
        seen = task if self.testing else replace(task, tests={})
        if self.experiment.measures is not None:
            scores |= self.experiment.measures(model, seen)
        if self.experiment.exhibits is not None and self.testing:
            for name, content in self.experiment.exhibits(model, seen).items():
                write_json(folder / f"{name}.json", {"version": 1, **content}, indent=None)
        return {
            "scores": scores,
            "classes": {name: each.tolist() for name, each in counts.items()},
            "validation": _accuracy(self._count(model, task.validation, task.num_classes)),
        }

    def _count(self, model: nn.Module, examples: Examples, num_classes: int) -> Tensor:
        return self._counts(model, *placed(examples, self.device), num_classes)

    def _counts(self, model: nn.Module, rows: Input, labels: Tensor, num_classes: int) -> Tensor:
        return count_right(model, rows, labels, num_classes, bfloat16=self.experiment.plan.precision == "bfloat16")


def _accuracy(counts: Tensor) -> float:
    """Right of all, from [L, 2]."""
    right, all_of_them = (int(total) for total in counts.sum(0))
    return right / max(all_of_them, 1)
