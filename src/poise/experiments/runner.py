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
from torch import nn

from poise.data.loader import DeviceLoader
from poise.distributed import rank, share
from poise.experiments.environment import surroundings
from poise.experiments.experiment import Experiment, Method
from poise.experiments.folders import busy, differing, slug
from poise.experiments.judge import Judge
from poise.experiments.logs import notes
from poise.experiments.trunks import beginning, loss_of, quiet_steps
from poise.objectives.xe import XE
from poise.reporting.files import write_json
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
        chosen, numbers = self.begin(methods, seeds)
        judge: Judge | None = None
        for seed in numbers:
            for method in chosen:
                path = self.record_path(method, seed)
                with busy(path.parent) as mine:
                    if not mine:
                        self.listen(Event(method.name, seed, "is run by another process"))
                    elif share(path.exists()):
                        self.listen(Event(method.name, seed, "is finished"))
                    else:
                        judge = judge or self.judge()
                        self._one(judge, method, seed)
        return [path for method in chosen for seed in numbers if (path := self.record_path(method, seed)).exists()]

    def begin(self, methods: Sequence[str] | None, seeds: Sequence[int] | None) -> tuple[list[Method], Sequence[int]]:
        """The methods and seeds to run; a TrainingError if their folders hold runs with other recipes."""
        chosen = [method for method in self.experiment.methods if methods is None or method.name in methods]
        numbers = range(self.experiment.seeds) if seeds is None else seeds
        self.write(self.folder / "experiment.json", self.experiment.facts())
        for method in chosen:
            for seed in numbers:
                differing(self.record_path(method, seed), repr(self.experiment.recipe(method)))
        return chosen, numbers

    @property
    def folder(self) -> Path:
        return self.out / self.experiment.name

    def judge(self) -> Judge:
        testing = self.testing and self.experiment.testing
        return Judge(self.experiment, self.experiment.task(), self.device, testing)

    def record_path(self, method: Method, seed: int) -> Path:
        return self.folder / slug(method.name) / f"seed-{seed:02d}" / "record.json"

    def _one(self, judge: Judge, method: Method, seed: int) -> None:
        started = datetime.now(UTC)
        path = self.record_path(method, seed)
        self.write(path.with_name("recipe.json"), {"recipe": repr(self.experiment.recipe(method))})
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        epochs = self._trunk_epochs(judge, method)
        branch = self._trunk(judge, method, seed, epochs) if epochs else None
        model, data = self.model(seed), self.data(judge, method, seed)
        done = self._fit(judge, method, seed, model, data, path.parent, branch=branch)
        if rank() == 0:
            self.write_record(judge, method, seed, model, done, started, {"epochs": epochs} if epochs else None)

    def write_record(
        self, judge: Judge, method: Method, seed: int, model: nn.Module, done: Fit, started: datetime, trunk: Any = None
    ) -> None:
        """Test a trained model, and write down what the run came to."""
        self.listen(Event(method.name, seed, "is tested" if judge.testing else "is validated"))
        record = {
            "version": 1,
            "experiment": self.experiment.name,
            "method": method.name,
            "seed": seed,
            "recipe": repr(self.experiment.recipe(method)),
            **judge.at_the_end(model),
            "log": done.log,
            "trunk": trunk,
            "seconds": done.seconds,
            "peak_memory": torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else None,
            **surroundings(self.device),
            "engine": done.engine,
            "started": started.isoformat(timespec="seconds"),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        self.write(self.record_path(method, seed), record)
        self.listen(Event(method.name, seed, "is finished"))

    def write(self, path: Path, content: dict[str, Any]) -> None:
        if rank() == 0:
            write_json(path, content)

    def _fit(
        self,
        judge: Judge,
        method: Method,
        seed: int,
        model: nn.Module,
        data: DeviceLoader,
        folder: Path,
        branch: Checkpoint | None = None,
        until: int | None = None,
    ) -> Fit:
        what = "is trained" if until is None else "is trained, the part that methods share"
        return fit(
            model,
            method.objective,
            data,
            self.experiment.plan,
            folder=folder,
            branch=branch,
            until=until,
            validate=judge.after_epoch,
            keep_every=self.keep_every,
            progress=lambda now: self.listen(Event(method.name, seed, what, now)),
            warn=lambda sentence: self.listen(Event(method.name, seed, sentence)),
            note=notes(folder, self.tensorboard) if rank() == 0 else lambda log: None,
        )

    def _trunk_epochs(self, judge: Judge, method: Method) -> int:
        """Epochs that the method shares with another one: whole epochs before the first of them switches on."""
        steps = len(judge.task.train) // self.experiment.plan.batch_size
        quiet = {
            other.name: quiet_steps(other.objective, self.experiment.plan.epochs * steps) // steps
            for other in self.experiment.methods
            if beginning(other) == beginning(method)
        }
        sharing = [epochs for epochs in quiet.values() if epochs > 0]
        return min(sharing) if self.share_trunks and quiet[method.name] > 0 and len(sharing) > 1 else 0

    def _trunk(self, judge: Judge, method: Method, seed: int, epochs: int) -> Checkpoint:
        """The shared beginning, trained if it is not there yet; another process that is at it is waited for."""
        recipe = (self.experiment.task, self.experiment.network, self.experiment.plan, beginning(method), epochs)
        home = self.trunks or self.folder / "trunks"
        folder = home / sha256(repr(recipe).encode()).hexdigest()[:12] / f"seed-{seed:02d}"
        plain = replace(method, objective=XE(loss=loss_of(method)))
        while True:
            with busy(folder) as mine:
                if mine:
                    self._fit(judge, plain, seed, self.model(seed), self.data(judge, plain, seed), folder, until=epochs)
                    share(None)  # the first process has written its last checkpoint
                    found = newest(folder, lambda sentence: None)
                    if found is None or len(found.facts["log"]) != epochs:
                        raise TrainingError(f"{folder} has no whole checkpoint: remove it to train it again")
                    return found
            time.sleep(1)

    def model(self, seed: int) -> nn.Module:
        """The network with the first weights of a seed, the same for all methods."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self.experiment.network()
        return in_layout(model.to(self.device), self.experiment.plan)

    def data(self, judge: Judge, method: Method, seed: int) -> DeviceLoader:
        return DeviceLoader(*judge.train, self.experiment.plan.batch_size, method.augment, seed)
