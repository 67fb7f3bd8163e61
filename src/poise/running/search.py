"""The search through a sweep: Optuna proposes, the runner runs, validation decides.

    <out>/<experiment>/sweeps/<name>/sweep.json                          what is tried
    <out>/<experiment>/sweeps/<name>/journal.log                         Optuna's journal, shared by all processes
    <out>/<experiment>/sweeps/<name>/trials/<digest>/trial.json          the values of a trial
    <out>/<experiment>/sweeps/<name>/trials/<digest>/<method>/seed-00/   its runs, as ever

Trials are claimed one process at a time. A process that is gone leaves a claim that nobody holds: the next one goes on
with its trial, from the runs and checkpoints on disk. No test set is touched.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, TypeAlias

import torch

from poise.checks import require_choice
from poise.errors import NotFinite, TrainingError
from poise.io.json_files import RecordError, read_json, write_proved
from poise.io.locks import try_lock, wait_lock
from poise.records.recipe_text import differences
from poise.records.sweeps import SWEEP, TRIAL, in_words, score_of
from poise.running.fleets import run_fleets
from poise.running.journal import Journal
from poise.running.record import Listener
from poise.running.runner import Runner
from poise.running.sweep import VALIDATION, Sweep

Sampler: TypeAlias = Literal["grid", "tpe"]
Labels: TypeAlias = dict[str, str]
_REMEDY = "use another --out, or another --name for a file of yours"
_PAUSE = 0.05  # seconds: trials are claimed in no time
_PATIENCE = 100  # proposals in a row that were tried before, after which a sampler has nothing new to say


@dataclass(frozen=True, eq=False)
class Search:
    """Tries the values of a sweep; several processes with the same folder share the work.

    trials    settings to try at most; None tries all.
    seeds     runs per trial; None takes the sweep's.
    fleet     train the seeds of a trial as one model.
    deadline  a time.monotonic() after which nothing more is begun.
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
        """Try until enough settings were begun, or time is over; those that another process is at are left to it."""
        self._describe()
        self._require_scores()
        study = _study(self.folder / "journal.log", self._study_name, self.sampler, self.sweep.labels())
        while time.monotonic() < self.deadline:
            with ExitStack() as held:
                with wait_lock(self.folder, _PAUSE):
                    found = self._next(study, held)
                if found is None:
                    return
                self._try(study, *found)

    @property
    def _seeds(self) -> int:
        return self.sweep.seeds if self.seeds is None else self.seeds

    @property
    def _study_name(self) -> str:
        """More seeds are another study of the same trials: what is on disk is not run again."""
        return f"{self.sampler}, {self._seeds} seeds"

    def _describe(self) -> None:
        """sweep.json, or a TrainingError if there is one of another sweep."""
        path, sweep = self.folder / SWEEP, self.sweep
        plain = (sweep.recipe, dict(sweep.choices), sweep.score)
        recipe = f"Sweep(recipe={plain[0]!r}, choices={plain[1]!r}, score={plain[2]!r})"
        if path.exists():
            try:
                changed = differences(str(read_json(path, "sweep")["recipe"]), recipe)
            except (RecordError, KeyError):
                raise TrainingError(f"{path} is damaged: remove it") from None
            if changed:
                raise TrainingError(f"{path} is of another sweep (there, here): {'; '.join(changed)}; {_REMEDY}")
            return
        facts = {"name": self.name, "title": sweep.experiment.title, "method": sweep.method}
        scored = {"choices": sweep.labels(), "score": list(sweep.score)}
        write_proved(path, {**facts, **scored, "recipe": recipe})

    def _require_scores(self) -> None:
        """Before anything is trained; what an experiment measures itself is known only when it has."""
        wanted = [name for name in self.sweep.score if name != VALIDATION]
        measured = self.sweep.experiment.measures is not None
        known = self.sweep.experiment.task().validations if wanted and not measured else {}
        for name in [] if measured else wanted:
            if name not in known:
                raise TrainingError(f"score {name!r}: the task has {', '.join([VALIDATION, *known])}")

    def _next(self, study: Any, held: ExitStack) -> tuple[int, Labels] | None:
        """The number and values of a trial that is ours from now on; None when enough were begun."""
        from optuna.trial import TrialState

        paths, begun = list(self.sweep.choices), []
        for trial in study.get_trials(deepcopy=False):
            if set(trial.params) == set(paths):  # else its process was gone before it had any values
                labels = {path: trial.params[path] for path in paths}
                if trial.state == TrialState.RUNNING and held.enter_context(try_lock(self._trial_folder(labels))):
                    return trial.number, labels
                begun += [labels] if labels not in begun else []
        enough = min(len(self.sweep), self.trials or len(self.sweep))
        for _ in range(_PATIENCE if len(begun) < enough else 0):
            trial = study.ask()
            labels = {path: trial.suggest_categorical(path, known) for path, known in self.sweep.labels().items()}
            if labels not in begun:
                held.enter_context(wait_lock(self._trial_folder(labels), _PAUSE))
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
        if len(records) == self._seeds:  # else time was over, and the trial stays begun
            _tell(study, number, fmean(self._score(json.loads(path.read_text())) for path in records))

    def _score(self, record: dict[str, Any]) -> float:
        try:
            return score_of(record, self.sweep.score)
        except KeyError as error:
            there = ", ".join([VALIDATION, *record["scores"]])
            raise TrainingError(f"score {error}: a run has {there}") from None

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
    """The score of a trial; None for one that has none."""
    from optuna.trial import TrialState

    with suppress(RuntimeError):  # after its last trial, the grid would stop a loop of Optuna's own
        study.tell(number, score, state=TrialState.FAIL if score is None else TrialState.COMPLETE)
