"""The runner: trains and tests the methods of an experiment for several seeds.

Finished runs are skipped, interrupted runs continue from their last checkpoint.

    <out>/<experiment>/experiment.json                   the columns, methods and groups of the table
    <out>/<experiment>/<method>/seed-03/record.json      a finished run
    <out>/models/<digest>/seed-03/                       a training that several runs share

Methods share their first epochs (see beginnings.py); the record has their number. Experiments whose tasks have the same
`training` share whole models: the second experiment only tests them.

`run_together` runs several experiments in one process, each method in all of them before the next method. So a trained
model is tested by all experiments at once, and what was compiled and loaded is used by all. Runs that need a training
of another process are retried later.
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
from poise.errors import NotFinite, OutOfTime, RecordError, TrainingError
from poise.io.documents import is_there, write_proved
from poise.io.files import Busy, held, remove_parts, require_lock
from poise.records.schema import EXPERIMENT, Record, fault_of_record, record_at
from poise.running.beginnings import beginning, quiet, quiet_epochs, shared_folder, trunk_lengths
from poise.running.experiment import Experiment, Method
from poise.running.judge import FILE as TESTED
from poise.running.judge import Judge, loader
from poise.running.record import RECIPE, Event, Listener, can_get_weights, keep_weights, notes, record_of, refuse_mixing
from poise.training.checkpoint import Checkpoint, has_checkpoint, newest
from poise.training.loop import Fit, fit
from poise.training.plan import in_layout


@dataclass(frozen=True, eq=False)
class Runner:
    """Runs an experiment and writes its results to a folder.

    share_trunks  train the epochs that methods have in common only once.
    keep_every    seconds between checkpoints.
    trackers      names of trackers that the numbers of every epoch go to, see trackers.py.
    testing       False scores the task's validations instead of its test sets, for sweeps.
    store         the folder of trainings that runs share; by default models/ in `out`.
    keep_models   save the weights in half precision beside the record.
    deadline      the time.monotonic() after which no run is started, and a running one stops at a checkpoint.
    """

    experiment: Experiment
    out: Path
    device: torch.device
    share_trunks: bool = True
    keep_every: float = 30.0
    trackers: tuple[str, ...] = ()
    listen: Listener = lambda event: None
    testing: bool = True
    store: Path | None = None
    keep_models: bool = False
    deadline: float = math.inf

    def run(self, methods: Sequence[str] | None = None, seeds: Sequence[int] | None = None) -> list[Path]:
        """Run methods and seeds, by default all, and return the paths of their records.

        Runs of other processes are skipped. All seeds of a method run before the next method, since they share its
        compiled step; only runs that need a training of another process are retried later.
        """
        wanted = self.begin(methods, seeds)
        in_turns([partial(self.attempt, method, seed) for method, seed in wanted])
        return self.finished(wanted)

    def begin(self, methods: Sequence[str] | None, seeds: Sequence[int] | None) -> list[tuple[Method, int]]:
        """Prepare the folder and return the requested runs.

        Raises TrainingError if they cannot be in one table with the runs in the folder.
        """
        wanted = self.experiment.runs(methods, seeds)
        refuse_mixing(self.folder, {method.folder: repr(self.experiment.recipe(method)) for method, _ in wanted})
        self.write(self.folder / EXPERIMENT, self.experiment.facts())
        for method, seed in wanted:
            try:
                self._read(method, seed)
            except RecordError as error:
                self.listen(Event(method.name, seed, "warning for", detail=f": {error}"))
        return wanted

    @cached_property
    def judge(self) -> Judge:
        """The judge of all runs, so that test sets are made once."""
        testing = self.testing and self.experiment.testing
        return Judge(self.experiment, self.experiment.task(), self.device, testing, self.deadline)

    @property
    def folder(self) -> Path:
        return self.out / self.experiment.name

    def record_path(self, method: Method, seed: int) -> Path:
        return self.folder / method.folder / f"seed-{seed:02d}" / "record.json"

    def finished(self, runs: Iterable[tuple[Method, int]]) -> list[Path]:
        """The paths of the records of finished runs."""
        return [self.record_path(method, seed) for method, seed in runs if self.record(method, seed)]

    def record(self, method: Method, seed: int) -> Record | None:
        """The record of a run; None if it is missing or damaged."""
        with suppress(RecordError):
            return self._read(method, seed)
        return None

    def _read(self, method: Method, seed: int) -> Record | None:
        path = self.record_path(method, seed)
        return record_at(path, self.experiment.name) if is_there(path) else None

    def is_finished(self, method: Method, seed: int) -> bool:
        """Whether a run has its record and, if models are kept, its weights as far as they still exist."""
        record, path = self.record(method, seed), self.record_path(method, seed)
        if record is None:
            return False
        return not (self.keep_models and can_get_weights(path, list(record.log), self.home(method, seed)))

    def attempt(self, method: Method, seed: int, again: bool = False) -> bool:
        """Run a method with a seed, unless it is finished, running in another process, or the deadline has passed.

        Returns False if another process is training what the run needs: try again later. A run is claimed only if it
        can start now.
        """
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
        """The folders of the trainings that a run shares with others: its model and the parts of its trunk."""
        lengths = self._lengths[method.name] if self.share_trunks else []
        return [self.home(method, seed), *(self._shared((beginning(method), each), seed) for each in lengths)]

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
        """Test a trained model in all processes; the first process writes the record."""
        path = self.record_path(method, seed)
        if self.keep_models and rank() == 0:
            keep_weights(path, model, self.experiment.network)
        if share(self.record(method, seed) is not None):
            return
        self.listen(Event(method.name, seed, "testing" if judge.testing else "validating"))
        tested = judge.at_the_end(model, path.with_name(TESTED))
        record = record_of(self.experiment, method, seed, done, tested, self.device, started)
        if fault := fault_of_record(json.loads(json.dumps(record))):
            raise TrainingError(f"{method.name} (seed {seed}) cannot be recorded: its {fault}")
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
        """Write the recipe of a run before it begins, to mark its folder."""
        path = self.record_path(method, seed).with_name(RECIPE)
        self.write(path, {"recipe": repr(self.experiment.recipe(method))})

    def _train(self, judge: Judge, method: Method, seed: int, model: nn.Module) -> Fit:
        """Train a model from its trunk on, or load what was trained already."""
        folder, own = self.home(method, seed), self.record_path(method, seed).parent
        with nullcontext() if folder == own else require_lock(folder):
            alone = not self.share_trunks or share(has_checkpoint(folder))
            branch = None if alone else self._branch(judge, method, seed)
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
        detail = "" if until is None else ", epochs shared with other methods"
        writing = notes(folder, self.trackers, self.experiment.name) if rank() == 0 else nullcontext(lambda log: None)
        with writing as note:
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
                note=note,
            )

    def _branch(self, judge: Judge, method: Method, seed: int, before: int = 0) -> Checkpoint | None:
        """The checkpoint from which a method branches: the end of the longest trunk that it shares.

        Without a shared trunk, it is the end of one that another experiment has trained, if any.

        before  if given, only trunks with fewer epochs.
        """
        shared = [epochs for epochs in self._lengths[method.name] if not before or epochs < before]
        if shared:
            return self._trunk(judge, method, seed, shared[-1])
        quiet_for = quiet_epochs(self.experiment, method, len(judge.task.train))
        return self._earlier_trunk(method, seed, before or quiet_for + 1)

    def _trunk(self, judge: Judge, method: Method, seed: int, epochs: int) -> Checkpoint:
        """The end of a trunk, trained part by part if needed; raises Busy if another process is training it."""
        folder = self._shared((beginning(method), epochs), seed)
        plain = replace(method, objective=quiet(method.objective))
        with require_lock(folder):
            begun = share(has_checkpoint(folder))
            branch = None if begun else self._branch(judge, method, seed, before=epochs)
            self._fit(judge, plain, seed, self.model(seed), folder, branch, until=epochs)
            share(None)  # wait until the first process has written its last checkpoint
            found = newest(folder, lambda sentence: None)
        if found is None or len(found.facts["log"]) != epochs:
            raise TrainingError(f"{folder} has no complete checkpoint: remove the folder to train it again")
        return found

    def _earlier_trunk(self, method: Method, seed: int, before: int) -> Checkpoint | None:
        """The end of the longest trunk with fewer epochs that another experiment has trained, if any."""
        for fewer in range(before - 1, 0, -1):
            found = newest(self._shared((beginning(method), fewer), seed), lambda sentence: None)
            if found is not None and len(found.facts["log"]) == fewer:
                return found
        return None

    def home(self, method: Method, seed: int) -> Path:
        """The folder in which a run is trained: a shared one if its task has `training`."""
        own, shares = self.record_path(method, seed).parent, hasattr(self.experiment.task, "training")
        return self._shared((method.objective, method.augment), seed) if shares else own

    def _shared(self, decides: Any, seed: int) -> Path:
        return shared_folder(self.store or self.out / "models", self.experiment, decides, seed)

    def model(self, seed: int) -> nn.Module:
        """The network with the initial weights of a seed, the same for all methods."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self.experiment.network()
        return in_layout(model.to(self.device), self.experiment.plan)

    def data(self, judge: Judge, method: Method, seed: int) -> Loader:
        return loader(*judge.train, self.experiment.plan, method.augment, seed)


def run_together(
    runners: Sequence[Runner], methods: Sequence[str] | None = None, seeds: Sequence[int] | None = None
) -> dict[Runner, list[Path]]:
    """Run several experiments and return the paths of their records.

    If the loss of a method is not finite, the other methods still run; NotFinite is raised at the end.
    """
    for runner in runners:
        finished = all(runner.is_finished(*run) for run in runner.experiment.runs(methods, seeds))
        if time.monotonic() < runner.deadline and not finished:
            _ = runner.judge  # reports missing data now, not after the first hours
    wanted = {runner: runner.begin(methods, seeds) for runner in runners}
    failures: dict[tuple[Runner, str], str] = {}

    def attempt(runner: Runner, method: Method, seed: int, again: bool) -> bool:
        """Like `Runner.attempt`, but skips further seeds of a method that failed."""
        try:
            return (runner, method.name) in failures or runner.attempt(method, seed, again)
        except NotFinite as error:
            failures[runner, method.name] = str(error)  # not the error, whose traceback keeps device memory alive
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


def in_turns(attempts: Sequence[Callable[[bool], bool]], pause: float = 0.5) -> None:
    """Call each attempt until it returns True; those that return False are called again after the others.

    Each gets whether it is called again. If all return False, pause for as long as the calls took, at least `pause`
    seconds.
    """
    again = False
    while attempts:
        begun = time.monotonic()
        later = [attempt for attempt in attempts if not attempt(again)]
        if len(later) == len(attempts):
            time.sleep(max(pause, time.monotonic() - begun))
        attempts, again = later, True


def _tidy(run: Path) -> None:
    """Remove the files of a process that was killed after it had written the record."""
    with suppress(OSError):
        (run / TESTED).unlink(missing_ok=True)
    remove_parts(run)
