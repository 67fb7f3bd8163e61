"""Sweeps: values to try for some fields of a method, and the search through them.

    Sweep(EXPERIMENT, "FCL", {"objective.weight.peak": (1e-4, 1e-3), "objective.select.k": (128, 256)})

A path starts at the method (`objective`, `augment`) or at the experiment (`plan`, `network`, `task`) and continues from
field to field; elements of a tuple are numbers: `augment.parts.1.size`. A trial is the recipe with a value at every
path. Optuna proposes trials, the runner trains them, and validation scores decide; test sets are not used.

    <out>/<experiment>/sweeps/<name>/sweep.json                          the values to try
    <out>/<experiment>/sweeps/<name>/journal.log                         Optuna's journal, shared by all processes
    <out>/<experiment>/sweeps/<name>/trials/<digest>/trial.json          the values of a trial
    <out>/<experiment>/sweeps/<name>/trials/<digest>/<method>/seed-00/   its runs

One process at a time claims a trial. If that process dies, its lock is released, and another process continues the
trial from the runs and checkpoints on disk.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import partial
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, TypeAlias

import torch

from poise.checks import require_choice, require_known
from poise.errors import NotFinite, RecordError, TrainingError
from poise.io.documents import read_json, text_of, write_proved
from poise.io.files import try_lock, wait_lock
from poise.records.recipe_text import differences
from poise.records.schema import SWEEP, TRIAL, in_words, score_of
from poise.running.experiment import Build, Experiment, Method, Recipe
from poise.running.fleets import run_fleets
from poise.running.record import Listener
from poise.running.runner import Runner

Sampler: TypeAlias = Literal["grid", "tpe"]
Labels: TypeAlias = dict[str, str]
_REMEDY = "use another --out, or another --name if the sweep is your own file"
_PAUSE = 0.05  # seconds between attempts to lock: claiming a trial is quick
_PATIENCE = 100  # repeated proposals in a row after which the search ends
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
        return math.prod(len(values) for values in self.choices.values())

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


@dataclass(frozen=True, eq=False)
class Search:
    """Tries the values of a sweep. Several processes with the same folder share the work.

    trials    the most settings to try; None tries all.
    seeds     runs per trial; None uses the sweep's.
    fleet     train the seeds of a trial as one batched model.
    deadline  the time.monotonic() after which no trial is started.
    """

    sweep: Sweep
    name: str
    out: Path
    device: torch.device
    sampler: Sampler = "grid"
    trials: int | None = None
    seeds: int | None = None
    fleet: bool = False
    keep_every: float = 30.0
    listen: Listener = lambda event: None
    deadline: float = math.inf

    def __post_init__(self) -> None:
        require_choice("sampler", self.sampler, "grid", "tpe")

    @property
    def folder(self) -> Path:
        return self.out / self.sweep.experiment.name / "sweeps" / self.name

    def run(self) -> None:
        """Try settings until enough were started or the deadline has passed. Skips trials of other processes."""
        self._describe()
        self._require_scores()
        study = _study(self.folder / "journal.log", self._study_name, self.sampler, self.sweep.labels())
        while time.monotonic() < self.deadline:
            with ExitStack() as locks:
                with wait_lock(self.folder, _PAUSE):
                    found = self._next(study, locks)
                if found is None:
                    return
                self._try(study, *found)

    @property
    def _seeds(self) -> int:
        return self.sweep.seeds if self.seeds is None else self.seeds

    @property
    def _study_name(self) -> str:
        """Another number of seeds is another study of the same trials; their finished runs are used again."""
        return f"{self.sampler}, {self._seeds} seeds"

    def _describe(self) -> None:
        """Write sweep.json; raises TrainingError if the folder holds another sweep."""
        path, sweep = self.folder / SWEEP, self.sweep
        plain = (sweep.recipe, dict(sweep.choices), sweep.score)
        recipe = f"Sweep(recipe={plain[0]!r}, choices={plain[1]!r}, score={plain[2]!r})"
        if path.exists():
            try:
                changed = differences(str(read_json(path, "sweep")["recipe"]), recipe)
            except (RecordError, KeyError):
                raise TrainingError(f"{path} is damaged: remove it") from None
            if changed:
                raise TrainingError(f"{path} describes another sweep (there, here): {'; '.join(changed)}; {_REMEDY}")
            return
        facts = {"name": self.name, "title": sweep.experiment.title, "method": sweep.method}
        scored = {"choices": sweep.labels(), "score": list(sweep.score)}
        write_proved(path, {**facts, **scored, "recipe": recipe})

    def _require_scores(self) -> None:
        """Raise TrainingError for unknown scores, before anything is trained.

        If the experiment has measures of its own, their names are known only after a run.
        """
        wanted = [name for name in self.sweep.score if name != VALIDATION]
        measured = self.sweep.experiment.measures is not None
        known = self.sweep.experiment.task().validations if wanted and not measured else {}
        for name in [] if measured else wanted:
            if name not in known:
                raise TrainingError(f"unknown score {name!r}: the task has {', '.join([VALIDATION, *known])}")

    def _next(self, study: Any, locks: ExitStack) -> tuple[int, Labels] | None:
        """Claim a trial and return its number and values; None when enough trials were started."""
        from optuna.trial import TrialState

        paths, begun = list(self.sweep.choices), []
        for trial in study.get_trials(deepcopy=False):
            if set(trial.params) == set(paths):  # otherwise its process died before it had all values
                labels = {path: trial.params[path] for path in paths}
                if trial.state == TrialState.RUNNING and locks.enter_context(try_lock(self._trial_folder(labels))):
                    now = study.get_trials(deepcopy=False)[trial.number]  # it may have ended while we waited
                    if now.state == TrialState.RUNNING:
                        return trial.number, labels
                begun += [labels] if labels not in begun else []
        enough = min(len(self.sweep), self.trials or len(self.sweep))
        for _ in range(_PATIENCE if len(begun) < enough else 0):
            trial = study.ask()
            labels = {path: trial.suggest_categorical(path, known) for path, known in self.sweep.labels().items()}
            if labels not in begun:
                locks.enter_context(wait_lock(self._trial_folder(labels), _PAUSE))
                return trial.number, labels
            _tell(study, trial.number, None)
        return None

    def _try(self, study: Any, number: int, labels: Labels) -> None:
        folder = self._trial_folder(labels)
        write_proved(folder / TRIAL, {"values": labels})
        try:
            records = self._records(labels)
        except NotFinite as error:
            write_proved(folder / TRIAL, {"values": labels, "failed": str(error)})
            _tell(study, number, None)
            return
        if len(records) == self._seeds:  # otherwise the deadline has passed, and the trial can be continued
            _tell(study, number, fmean(self._score(json.loads(text_of(path))) for path in records))

    def _score(self, record: dict[str, Any]) -> float:
        try:
            return score_of(record, self.sweep.score)
        except KeyError as error:
            there = ", ".join([VALIDATION, *record["scores"]])
            raise TrainingError(f"unknown score {error}: a run has {there}") from None

    def _records(self, labels: Labels) -> list[Path]:
        folder = self._trial_folder(labels)
        title = f"{self.sweep.method} with {in_words(labels)}"
        runner = Runner(
            self.sweep.trial(folder.name, labels),
            folder.parent,
            self.device,
            keep_every=self.keep_every,
            listen=lambda event: self.listen(replace(event, method=title)),
            testing=False,
            store=self.out / "models",
            deadline=self.deadline,
        )
        run = partial(run_fleets, runner) if self.fleet else runner.run
        return run([self.sweep.method], range(self._seeds))

    def _trial_folder(self, labels: Mapping[str, str]) -> Path:
        return self.folder / "trials" / sha256(json.dumps(labels, sort_keys=True).encode()).hexdigest()[:12]


def _study(journal: Path, name: str, sampler: Sampler, space: dict[str, list[str]]) -> Any:
    import optuna
    from optuna.storages.journal import JournalStorage

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with wait_lock(journal.parent, _PAUSE):
        try:
            storage = JournalStorage(Journal(journal))  # type: ignore[arg-type]
            study = optuna.create_study(study_name=name, storage=storage, direction="maximize", load_if_exists=True)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise TrainingError(f"{journal} is damaged: remove it; finished runs are saved") from None
    proposals = len(study.get_trials(deepcopy=False))
    samplers = optuna.samplers
    study.sampler = samplers.GridSampler(space, 0) if sampler == "grid" else samplers.TPESampler(seed=proposals)
    return study


def _tell(study: Any, number: int, score: float | None) -> None:
    """Report the score of a trial to Optuna; None if it failed or was proposed before."""
    from optuna.trial import TrialState

    with suppress(RuntimeError):  # after its last trial, the grid tries to stop Optuna's own loop
        study.tell(number, score, state=TrialState.FAIL if score is None else TrialState.COMPLETE)


class Journal:
    """A backend for optuna.storages.JournalStorage: one line of JSON for each event of a trial.

    Optuna's own backend cannot read a journal in which a full disk or a kill has truncated a line, and its lock
    outlives its process. Here a truncated line is dropped, and the lock is a folder lock.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """Yield the entries from this number on."""
        lines = self.path.read_bytes().split(b"\n")[:-1] if self.path.exists() else []
        entries = filter(None, map(_entry, lines))
        for number, entry in enumerate(entries):
            if number >= log_number_from:
                yield entry

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append entries after the last complete line."""
        content = "".join(f"{json.dumps(log, separators=(',', ':'))}\n" for log in logs).encode()
        try:
            with wait_lock(self.path.with_suffix(".lock"), _PAUSE), self.path.open("a+b") as stream:
                stream.seek(0)
                stream.truncate(stream.read().rfind(b"\n") + 1)
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None
