"""The runner: methods x seeds, what is finished is left, what was begun goes on.

    <out>/<experiment>/experiment.json                   what a table needs to know
    <out>/<experiment>/<method>/seed-03/record.json      a finished run
    <out>/models/<digest>/seed-03/                       what is trained once for several runs

Methods with the same augmentation and loss do the same until their contrast switches on. That trunk is trained once per
seed, and each method branches from its checkpoint; the record says so. A task that says what of it decides the weights
(`training`) shares whole models as well: an experiment with other tests of the same recipes only tests.

Attempts in turns.

Several experiments in one process: method after method, and each method in all of them before the next.

What one experiment has trained, the others test right away, so that whatever has to be carried off a machine is records
and not models. What was compiled and loaded serves all. Runs that need what another process trains come later.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from poise.data.loading.resident import Loader
from poise.distributed import rank, share
from poise.errors import NotFinite, OutOfTime, TrainingError
from poise.io.files import sweep
from poise.io.json_files import RecordError, write_proved
from poise.io.locks import Busy, held, require_lock
from poise.records.schema import Record, record_at
from poise.records.shapes import EXPERIMENT, fault_of, wrong
from poise.running.beginnings import beginning, quiet, quiet_epochs, shared_folder, trunk_lengths
from poise.running.experiment import Experiment, Method
from poise.running.judge import FILE as TESTED
from poise.running.judge import Judge, loader
from poise.running.record import RECIPE, Event, Listener, can_get_weights, keep_weights, mixing, notes, record_of
from poise.training.checkpoint import Checkpoint, has_checkpoint, newest
from poise.training.loop import Fit, fit
from poise.training.plan import in_layout


def in_turns(attempts: Sequence[Callable[[bool], bool]], pause: float = 0.5) -> None:
    """Each attempt until it succeeds; one that does not comes again after the others, and is told so. Where none does,
    there is a pause of at least so many seconds, and as long as they took."""
    again = False
    while attempts:
        begun = time.monotonic()
        later = [attempt for attempt in attempts if not attempt(again)]
        if len(later) == len(attempts):
            time.sleep(max(pause, time.monotonic() - begun))
        attempts, again = later, True


def run_together(
    runners: Sequence[Runner], methods: Sequence[str] | None = None, seeds: Sequence[int] | None = None
) -> dict[Runner, list[Path]]:
    """The records of every runner; a method whose loss is not finite does not keep the others from being run."""
    for runner in runners:
        finished = all(runner.is_finished(*run) for run in runner.experiment.runs(methods, seeds))
        if time.monotonic() < runner.deadline and not finished:
            _ = runner.judge  # data that are missing are missed before the first hour, not after it
    wanted = {runner: runner.begin(methods, seeds) for runner in runners}
    failures: dict[tuple[Runner, str], str] = {}

    def attempt(runner: Runner, method: Method, seed: int, again: bool) -> bool:
        """As the runner's; of a method that failed no more seeds."""
        try:
            return (runner, method.name) in failures or runner.attempt(method, seed, again)
        except NotFinite as error:
            failures[runner, method.name] = str(error)  # not the error, which holds on to all that was on the device
            return True

    names = dict.fromkeys(method.name for runs in wanted.values() for method, _ in runs)
    in_turns(
        [
            partial(attempt, runner, method, seed)
            for name in names
            for runner in runners
            for method, seed in wanted[runner]
            if method.name == name
        ]
    )
    if failures:
        raise NotFinite("; ".join(failures.values()))
    return {runner: runner.finished(runs) for runner, runs in wanted.items()}


@dataclass(frozen=True, eq=False)
class Runner:
    """Runs an experiment into a folder.

    share_trunks  train what methods have in common once.
    keep_every    seconds between checkpoints.
    tensorboard   write the epochs for TensorBoard, too.
    testing       False leaves the test sets alone and scores the task's validations instead: for sweeps.
    store         the folder of what runs share; by default models/ in `out`.
    keep_models   write the weights in half precision beside the record.
    deadline      a time.monotonic() after which nothing more is begun.
    """

    experiment: Experiment
    out: Path
    device: torch.device
    share_trunks: bool = True
    keep_every: float = 30.0
    tensorboard: bool = False
    listen: Listener = lambda event: None
    testing: bool = True
    store: Path | None = None
    keep_models: bool = False
    deadline: float = math.inf

    def run(self, methods: Sequence[str] | None = None, seeds: Sequence[int] | None = None) -> list[Path]:
        """The records of these methods and seeds, in that order; what another process is at is left to it. A method has
        all its seeds before the next one begins, but for those that have to wait: a process compiles a step once, and
        uses it for all."""
        wanted = self.begin(methods, seeds)
        in_turns([partial(self.attempt, method, seed) for method, seed in wanted])
        return self.finished(wanted)

    def begin(self, methods: Sequence[str] | None, seeds: Sequence[int] | None) -> list[tuple[Method, int]]:
        """The runs that are asked for; a TrainingError if they cannot stand in one table with what is there."""
        wanted = self.experiment.runs(methods, seeds)
        mixing(self.folder, {method.folder: repr(self.experiment.recipe(method)) for method, _ in wanted})
        facts = self.experiment.facts()
        if fault := wrong(json.loads(json.dumps(facts)), EXPERIMENT):
            raise TrainingError(f"{self.experiment.name} would have no table: its {fault}")
        self.write(self.folder / "experiment.json", facts)
        for method, seed in wanted:
            try:
                self._read(method, seed)
            except RecordError as error:
                self.listen(Event(method.name, seed, "warning for", detail=f": {error}"))
        return wanted

    @cached_property
    def judge(self) -> Judge:
        """The same for all that is run: test sets are made once."""
        testing = self.testing and self.experiment.testing
        return Judge(self.experiment, self.experiment.task(), self.device, testing, self.deadline)

    @property
    def folder(self) -> Path:
        return self.out / self.experiment.name

    def record_path(self, method: Method, seed: int) -> Path:
        return self.folder / method.folder / f"seed-{seed:02d}" / "record.json"

    def finished(self, runs: Iterable[tuple[Method, int]]) -> list[Path]:
        """The records of those that have one."""
        return [self.record_path(method, seed) for method, seed in runs if self.record(method, seed)]

    def record(self, method: Method, seed: int) -> Record | None:
        """What a table takes for the record of a run: none that is damaged."""
        with suppress(RecordError):
            return self._read(method, seed)
        return None

    def _read(self, method: Method, seed: int) -> Record | None:
        path = self.record_path(method, seed)
        return record_at(path, self.experiment.name) if path.exists() else None

    def is_finished(self, method: Method, seed: int) -> bool:
        """Whether there is nothing left to do for a run; weights that are gone do not count."""
        record, path = self.record(method, seed), self.record_path(method, seed)
        if record is None:
            return False
        return not (self.keep_models and can_get_weights(path, list(record.log), self._home(method, seed)))

    def attempt(self, method: Method, seed: int, again: bool = False) -> bool:
        """A run, unless it is finished, another process is at it, or the time is over; False if another process is at
        what it needs, so that it has to come again. Only who can begin at once takes it."""
        own, say = self.record_path(method, seed).parent, partial(Event, method.name, seed)
        finished, taken = share((self.is_finished(method, seed), held(own)))
        if finished or taken:
            if finished and rank() == 0:
                _tidy(own)
            self.listen(say("finished") if finished else say("skipping", detail=": another process is running it"))
        elif not share(time.monotonic() >= self.deadline):
            try:
                if share(any(held(folder) for folder in self._needs(method, seed))):
                    raise Busy
                with require_lock(own):
                    self._one(self.judge, method, seed)
            except Busy:
                if not again:
                    self.listen(say("waiting to train", detail=": another process is training what it needs"))
                return False
            except OutOfTime as error:
                self.listen(say("stopping", detail=f": {error}"))
            except NotFinite as error:
                raise NotFinite(f"{method.name} (seed {seed}): {error}") from None
        return True

    def _needs(self, method: Method, seed: int) -> list[Path]:
        """The folders of what a run shares with others: its model, and the parts of its trunk."""
        lengths = self._lengths[method.name] if self.share_trunks else []
        return [self._home(method, seed), *(self._shared((beginning(method), each), seed) for each in lengths)]

    @cached_property
    def _lengths(self) -> dict[str, list[int]]:
        return trunk_lengths(self.experiment, len(self.judge.task.train))

    def _one(self, judge: Judge, method: Method, seed: int) -> None:
        started, model = datetime.now(UTC), self.model(seed)
        self.write_recipe(method, seed)
        done = self._train(judge, method, seed, model)
        self.write_record(judge, method, seed, model, done, started)

    def write_record(
        self, judge: Judge, method: Method, seed: int, model: nn.Module, done: Fit, started: datetime
    ) -> None:
        """Test a trained model in all processes, and write down in the first what the run came to."""
        path = self.record_path(method, seed)
        if self.keep_models and rank() == 0:
            keep_weights(path, model, self.experiment.network)
        if share(self.record(method, seed) is not None):
            return
        self.listen(Event(method.name, seed, "testing" if judge.testing else "validating"))
        tested = judge.at_the_end(model, path.with_name(TESTED))
        record = record_of(self.experiment, method, seed, done, tested, self.device, started)
        if fault := fault_of(json.loads(json.dumps(record))):
            raise TrainingError(f"{method.name} (seed {seed}) cannot be written down: its {fault}")
        for name, content in judge.exhibits(model).items():
            write_proved(path.with_name(f"{name}.json"), content, indent=None)
        self.write(path, record)
        if rank() == 0:
            path.with_name(TESTED).unlink(missing_ok=True)
        self.listen(Event(method.name, seed, "finished"))

    def write(self, path: Path, content: dict[str, Any]) -> None:
        if rank() == 0:
            write_proved(path, content)

    def write_recipe(self, method: Method, seed: int) -> None:
        """Before a run begins: what is in its folder belongs to it."""
        path = self.record_path(method, seed).with_name(RECIPE)
        self.write(path, {"recipe": repr(self.experiment.recipe(method))})

    def _train(self, judge: Judge, method: Method, seed: int, model: nn.Module) -> Fit:
        """The whole run of a model, from its trunk on; what is trained already is only read."""
        folder, own = self._home(method, seed), self.record_path(method, seed).parent
        with nullcontext() if folder == own else require_lock(folder):
            apart = not self.share_trunks or share(has_checkpoint(folder))
            branch = None if apart else self._beginning(judge, method, seed)
            return self._fit(judge, method, seed, model, folder, branch=branch)

    def _fit(
        self,
        judge: Judge,
        method: Method,
        seed: int,
        model: nn.Module,
        folder: Path,
        branch: Checkpoint | None = None,
        until: int | None = None,
    ) -> Fit:
        detail = "" if until is None else ", beginning shared with other methods"
        return fit(
            model,
            method.objective,
            self.data(judge, method, seed),
            self.experiment.plan,
            folder=folder,
            branch=branch,
            until=until,
            validate=judge.after_epoch,
            keep_every=self.keep_every,
            deadline=self.deadline,
            progress=lambda now: self.listen(Event(method.name, seed, "training", now, detail)),
            warn=lambda sentence: self.listen(Event(method.name, seed, "warning for", detail=f": {sentence}")),
            note=notes(folder, self.tensorboard) if rank() == 0 else lambda log: None,
        )

    def _beginning(self, judge: Judge, method: Method, seed: int, before: int = 0) -> Checkpoint | None:
        """The end of what a method has in common with others, of fewer epochs than `before` where that is given;
        without company, of what another experiment has left."""
        shared = [epochs for epochs in self._lengths[method.name] if not before or epochs < before]
        if shared:
            return self._trunk(judge, method, seed, shared[-1])
        quiet_for = quiet_epochs(self.experiment, method, len(judge.task.train))
        return self._left(method, seed, before or quiet_for + 1)

    def _trunk(self, judge: Judge, method: Method, seed: int, epochs: int) -> Checkpoint:
        """The shared beginning, trained part by part if need be; Busy if another process is at it."""
        folder = self._shared((beginning(method), epochs), seed)
        plain = replace(method, objective=quiet(method.objective))
        with require_lock(folder):
            begun = share(has_checkpoint(folder))
            branch = None if begun else self._beginning(judge, method, seed, before=epochs)
            self._fit(judge, plain, seed, self.model(seed), folder, branch, until=epochs)
            share(None)  # the first process has written its last checkpoint
            found = newest(folder, lambda sentence: None)
        if found is None or len(found.facts["log"]) != epochs:
            raise TrainingError(f"{folder} has no complete checkpoint: remove the folder to train it again")
        return found

    def _left(self, method: Method, seed: int, before: int) -> Checkpoint | None:
        """The end of the longest trunk with fewer epochs, where another experiment has left one."""
        for fewer in range(before - 1, 0, -1):
            found = newest(self._shared((beginning(method), fewer), seed), lambda sentence: None)
            if found is not None and len(found.facts["log"]) == fewer:
                return found
        return None

    def _home(self, method: Method, seed: int) -> Path:
        """Where a run is trained: where others can find it, if the task says what decides its weights."""
        own, shares = self.record_path(method, seed).parent, hasattr(self.experiment.task, "training")
        return self._shared((method.objective, method.augment), seed) if shares else own

    def _shared(self, decides: Any, seed: int) -> Path:
        return shared_folder(self.store or self.out / "models", self.experiment, decides, seed)

    def model(self, seed: int) -> nn.Module:
        """The network with the first weights of a seed, the same for all methods."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self.experiment.network()
        return in_layout(model.to(self.device), self.experiment.plan)

    def data(self, judge: Judge, method: Method, seed: int) -> Loader:
        return loader(*judge.train, self.experiment.plan, method.augment, seed)


def _tidy(run: Path) -> None:
    """Remove what a process left that was killed after it had written the record."""
    with suppress(OSError):
        (run / TESTED).unlink(missing_ok=True)
    sweep(run)
