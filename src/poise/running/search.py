"""Search through a sweep: Optuna proposes settings, the runner trains them, validation scores decide.

    <out>/<experiment>/sweeps/<name>/sweep.json                          the values to try
    <out>/<experiment>/sweeps/<name>/journal.log                         Optuna's journal, shared by all processes
    <out>/<experiment>/sweeps/<name>/trials/<digest>/trial.json          the values of a trial
    <out>/<experiment>/sweeps/<name>/trials/<digest>/<method>/seed-00/   its runs

One process at a time claims a trial. If that process dies, its lock is released, and another process continues the
trial from the runs and checkpoints on disk. Test sets are not used.
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
from poise.errors import NotFinite, RecordError, TrainingError
from poise.io.documents import read_json, text_of, write_proved
from poise.io.files import try_lock, wait_lock
from poise.records.recipe_text import differences
from poise.records.schema import SWEEP, TRIAL, in_words, score_of
from poise.running.fleets import run_fleets
from poise.running.journal import Journal
from poise.running.record import Listener
from poise.running.runner import Runner
from poise.running.sweep import VALIDATION, Sweep

Sampler: TypeAlias = Literal["grid", "tpe"]
Labels: TypeAlias = dict[str, str]
_REMEDY = "use another --out, or another --name if the sweep is your own file"
_PAUSE = 0.05  # seconds between attempts to lock: claiming a trial is quick
_PATIENCE = 100  # repeated proposals in a row after which the search ends


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
