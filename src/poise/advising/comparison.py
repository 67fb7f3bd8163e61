"""The experiments behind an advice: all candidates on the user's data, scored on validation sets with noise.

    <out>/advise/<method>/seed-00/record.json    a finished run
    <out>/advise/<method>/seed-00/right.json     which validation examples it has right, for paired intervals
    <out>/models/<digest>/seed-00/               its weights, which the test of the chosen method reads

If the recipe gives no validation set, seed s validates on fold s and its runs are in <out>/fold-<s>. The rounds are
those of successive halving (budget.py). What is finished is skipped, so a comparison that was killed continues where it
was.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from poise.advising.budget import SEEDS, Budget, kept, runs_of_rounds
from poise.advising.candidates import Candidate, candidates_for
from poise.advising.intervals import Right, Scores
from poise.advising.noisy_sets import columns, noisy_sets
from poise.advising.own_data import OwnData
from poise.classifier import both_classes, evaluating
from poise.data.loading.resident import as_read
from poise.errors import NotFinite
from poise.io.documents import read_json
from poise.running.experiment import Build, Examples, Experiment, Method, Task
from poise.running.judge import placed
from poise.running.record import Event
from poise.running.runner import Runner

Report = Callable[[str, int, int], None]  # what, runs done, runs in total


@dataclass(frozen=True)
class OwnTask:
    """The user's data as a task, whose tests are the noisy validation sets of a fold, or with `test` the test sets."""

    data: OwnData
    fold: int
    test: bool = False

    @property
    def training(self) -> str:
        """Identifies the training examples: validation and test share their models."""
        return f"{self.data.digest}, fold {self.fold}"

    def __repr__(self) -> str:
        return f"OwnTask({self.training!r}, test={self.test})"

    def __call__(self) -> Task:
        train, validation, _ = self.data.parts(self.fold)
        examples = self.data.test if self.test else validation
        if examples is None:
            raise ValueError(f"{self.data.path} does not define test")
        sets = noisy_sets(self.data, examples, "test" if self.test else f"validation {self.fold}")
        return Task(train, None, {name: _made(each) for name, each in sets.items()}, self.data.num_classes)


def _made(examples: Examples) -> Callable[[torch.device], Examples]:
    return lambda device: examples


def which_are_right(model: nn.Module, task: Task) -> dict[str, dict[str, Any]]:
    """right.json: for each set a 1 or a 0 for each example, in order."""
    device, found = next(model.parameters()).device, {}
    with evaluating(model), torch.inference_mode():
        for name, make in task.tests.items():
            rows, labels = placed(make(device), device)  # type: ignore[arg-type]
            parts = [
                both_classes(model(as_read(rows[start : start + 1000]))).argmax(1) == labels[start : start + 1000]
                for start in range(0, len(labels), 1000)
            ]
            found[name] = "".join("01"[right] for right in torch.cat(parts).tolist())
    return {"right": {"sets": found}}


def experiment_of(data: OwnData, budget: Budget, fold: int, test: bool = False) -> Experiment:
    """All candidates as an experiment; with `test`, of the test set."""
    tried = candidates_for(data, budget.steps(data.trained_on), budget.few)
    name = "advise" if data.validation is not None else f"fold-{fold}"
    return Experiment(
        name=f"test-{name}" if test else name,
        title=f"Methods for {data.path.name}",
        task=OwnTask(data, fold, test),
        network=Build(data.network),
        plan=budget.plan(data.trained_on),
        methods=tuple(each.method for each in tried),
        columns=columns(data),
        groups=(tuple(each.name for each in tried),),
        seeds=SEEDS[-1],
        rare_classes=data.rare,
        exhibits=which_are_right,
    )


def runners(
    data: OwnData, budget: Budget, out: Path, device: torch.device, test: bool = False, **options: Any
) -> list[Runner]:
    """The runner of each seed: one for all if there is a validation set, else one for each fold."""

    def make(fold: int) -> Runner:
        return Runner(experiment_of(data, budget, fold, test), out, device, share_trunks=False, **options)

    return [make(0)] * SEEDS[-1] if data.validation is not None else [make(seed) for seed in range(SEEDS[-1])]


def scores_of(data: OwnData) -> Scores:
    """The validation examples of each seed, and what is measured on them."""
    held = [data.parts(seed) for seed in range(SEEDS[-1])]
    return Scores(columns(data), [numbers for *_, numbers in held], [np.asarray(each.y) for _, each, _ in held])


@dataclass(frozen=True, eq=False)
class Compared:
    """Candidates and their results so far.

    rounds    {name: number of rounds it took part in}.
    failed    {name: reason} of those whose loss was not finite.
    finished  whether all rounds are complete.
    """

    tried: tuple[Candidate, ...]
    right: dict[str, Right]
    seconds: dict[str, float]
    rounds: dict[str, int]
    failed: dict[str, str]
    finished: bool


def run_rounds(
    data: OwnData,
    budget: Budget,
    out: Path,
    device: torch.device,
    deadline: float,
    report: Report,
    keep: bool = False,
) -> Compared:
    """Run the rounds until the deadline; `keep` keeps the weights of candidates that were left behind."""
    tried = candidates_for(data, budget.steps(data.trained_on), budget.few)
    baseline, others = tried[0], list(tried[1:])
    runs = _Runs(report, runs_of_rounds(len(others)) + SEEDS[-1])
    runs.begin(runners(data, budget, out, device, deadline=deadline, listen=runs.listen))
    scores, rounds, finished = scores_of(data), dict[str, int](), True
    for number, (seeds, count) in enumerate(zip(SEEDS, kept(len(others)), strict=True)):
        if number:
            left = [each for each in others if each.name not in runs.failed]
            ranked = sorted(left, key=lambda each: -scores.mean(runs.right(each.name, SEEDS[number - 1])))
            runs.forget([] if keep else ranked[count:])
            others = ranked[:count]
        rounds |= {each.name: number + 1 for each in others}
        order = [(each, seed) for seed in range(seeds) for each in (baseline, *others)]
        finished = all(runs.run(each.name, seed) for each, seed in order)
        if not finished:
            break
    right = {each.name: found for each in tried if (found := runs.right(each.name, SEEDS[-1]))}
    return Compared(tried, right, runs.seconds_per_step(tried), rounds, runs.failed, finished)


class _Runs:
    """The runs of one comparison: starts those that are missing, and reads what they left."""

    def __init__(self, report: Report, total: int) -> None:
        self.report, self.failed = report, dict[str, str]()
        self._runners: list[Runner] = []
        self._seen, self._done, self._total = set[tuple[str, int]](), 0, total

    def begin(self, runners: list[Runner]) -> None:
        self._runners = runners
        for runner in dict.fromkeys(runners):
            runner.begin(None, None)

    def run(self, name: str, seed: int) -> bool:
        """Run a seed of a candidate; False if the deadline came first."""
        if name in self.failed:
            return True
        runner, method = self._runners[seed], self._method(name, seed)
        finished, known = runner.is_finished(method, seed), (name, seed) in self._seen
        self._seen.add((name, seed))
        if finished:
            self._total -= not known  # finished by an earlier command
            return True
        try:
            while not runner.attempt(method, seed, again=True):
                time.sleep(1)  # another process trains what it needs
        except NotFinite as error:
            self.failed[name] = str(error)
            return True
        self._done += 1
        return runner.is_finished(method, seed)

    def right(self, name: str, seeds: int) -> Right:
        """{seed: {set: which are right}} of the first seeds, as far as they are finished."""
        found = {}
        for seed in range(seeds):
            runner, method = self._runners[seed], self._method(name, seed)
            if runner.is_finished(method, seed):
                content = read_json(runner.record_path(method, seed).with_name("right.json"), "record")
                found[seed] = {
                    name: np.frombuffer(bits.encode(), np.uint8) == ord("1") for name, bits in content["sets"].items()
                }
        return found

    def seconds_per_step(self, tried: Sequence[Candidate]) -> dict[str, float]:
        found = {}
        for each in tried:
            records = [runner.record(each.method, seed) for seed, runner in enumerate(self._runners)]
            spent = [r.seconds / r.log[-1]["step"] for r in records if r is not None and r.seconds and r.log]
            if spent:
                found[each.name] = float(np.median(spent))
        return found

    def forget(self, dropped: Sequence[Candidate]) -> None:
        """Remove the weights of candidates that were left behind: nothing will test them."""
        for each in dropped:
            for seed, runner in enumerate(self._runners):
                shutil.rmtree(runner.home(each.method, seed), ignore_errors=True)

    def listen(self, event: Event) -> None:
        epoch = "" if event.now is None else f", epoch {event.now.epoch + 1} of {event.now.epochs}"
        self.report(f"{event}{epoch}", self._done, self._total)

    def _method(self, name: str, seed: int) -> Method:
        return next(each for each in self._runners[seed].experiment.methods if each.name == name)
