"""Measuring: every contestant on every test set, test set by test set, into a folder from which it continues.

    FOLDER/settings.json                 the benchmark, the data and the seed; a folder holds one evaluation
    FOLDER/examples.safetensors          labels, places in the whole set, and groups
    FOLDER/MODEL/tests/fog-3.safetensors the outcomes of a model on a test set

A test set is made once for all models. Whatever ends the command, at most the test sets under way are lost.

Axes: N examples, B of a batch, H rows, W columns.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from poise.errors import AuditError, RecordError
from poise.evaluation.benchmarks import Benchmark, Maker, TestSet
from poise.evaluation.contestants import Contestant
from poise.evaluation.outcomes import Outcomes, joined, outcomes_of, read_outcomes, write_outcomes
from poise.evaluation.shown import Report, Shown
from poise.io.documents import read_json, write_proved

SETTINGS = "settings.json"
KIND = "evaluation"


class ImageSource(Protocol):
    """Where the images of a test set come from."""

    def of(self, test: TestSet) -> tuple[Tensor, Iterator[tuple[int, Tensor]]]:
        """Labels [N], and batches as of `Shown.batches`."""


@dataclass(frozen=True, eq=False)
class Generated:
    """Test sets that are made from the clean images while they are shown."""

    shown: Shown
    make: Maker
    seed: int = 0
    batch: int = 100
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def of(self, test: TestSet) -> tuple[Tensor, Iterator[tuple[int, Tensor]]]:
        return self.shown.labels, self._batches(test)

    def _batches(self, test: TestSet) -> Iterator[tuple[int, Tensor]]:
        for start, images in self.shown.batches(self.batch):
            pixels = images.to(self.device)
            if test.severity:
                index = torch.tensor(self.shown.rows[start : start + len(images)])
                pixels = self.make(pixels, test.corruption, test.severity, index, self.seed)
            yield start, pixels


@dataclass(frozen=True, eq=False)
class FromFiles:
    """Test sets that are read from published files; the clean images are those of `clean`, if there are any."""

    read: Callable[[TestSet], Shown]
    clean: ImageSource | None = None
    batch: int = 100
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def of(self, test: TestSet) -> tuple[Tensor, Iterator[tuple[int, Tensor]]]:
        if not test.severity and self.clean is not None:
            return self.clean.of(test)
        shown = self.read(test)
        return shown.labels, ((start, images.to(self.device)) for start, images in shown.batches(self.batch))


@dataclass(frozen=True, eq=False)
class Stage:
    """The contestants that see the images at one size.

    pixels  a digest of all clean images.
    made    how the test sets compare with the published ones, in a sentence.
    """

    contestants: list[Contestant]
    source: ImageSource
    size: tuple[int, int]
    pixels: str
    made: str


@dataclass(frozen=True)
class Evaluation:
    """What the contestants of a folder have in common; `facts` must be equal for the folder to continue."""

    folder: Path
    benchmark: Benchmark
    tests: Sequence[TestSet]
    facts: dict[str, Any]

    def claim(self) -> None:
        """Begin the folder, or continue it; AuditError if it holds another evaluation or other files."""
        place = self.folder / SETTINGS
        facts = {"kind": KIND, **self.facts}
        if place.exists():
            _require_same(self.folder, facts)
            return
        if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise AuditError(f"{self.folder} contains other files: choose an empty or a new folder with --out")
        write_proved(place, facts)

    def home(self, name: str) -> Path:
        """The folder of a model."""
        return self.folder / folder_name(name)

    def file(self, name: str, test: TestSet) -> Path:
        return self.home(name) / "tests" / f"{test.name}.safetensors"


def folder_name(name: str) -> str:
    """A model's name as that of a folder."""
    return re.sub(r"[^\w.+-]+", "-", name).strip("-.") or "model"


def _require_same(folder: Path, facts: dict[str, Any]) -> None:
    try:
        held = read_json(folder / SETTINGS, KIND)
    except RecordError as error:
        raise AuditError(f"{error}: choose another folder with --out") from None
    for name, now in facts.items():
        if held.get(name) != now:
            raise AuditError(
                f"{folder} holds another evaluation ({name}: {str(held.get(name))[:40]}, not {str(now)[:40]}): choose "
                "another folder with --out"
            )


@dataclass(frozen=True, eq=False)
class Measured:
    """The outcomes of a contestant on every test set, and how long they took."""

    contestant: Contestant
    digest: str
    outcomes: dict[TestSet, Outcomes]
    seconds: dict[TestSet, float]


def measure_missing(evaluation: Evaluation, stage: Stage, progress: Report | None = None) -> list[Measured]:
    """Measure what is missing in the folder, and return all of it."""
    found = [Measured(each, each.digest(), {}, {}) for each in stage.contestants]
    for each in found:
        for test in evaluation.tests:
            _look(each, stage, test, evaluation.file(each.contestant.name, test))
    waiting = {test: [each for each in found if test not in each.outcomes] for test in evaluation.tests}
    done, total = 0, sum(map(len, waiting.values()))
    for test, missing in waiting.items():
        if missing:
            _measure(evaluation, missing, stage, test, progress, (done, total))
            done += len(missing)
    return found


def _look(measured: Measured, stage: Stage, test: TestSet, path: Path) -> None:
    """Take the outcomes of a file if they are whole and of this model."""
    held = read_outcomes(path)
    if held is None:
        return
    outcomes, facts = held
    if facts.get("model") != measured.digest:
        raise AuditError(
            f"{path.parent.parent} holds outcomes of another model called {measured.contestant.name}: rename one of "
            "them, or choose another folder with --out"
        )
    if facts.get("pixels") != stage.pixels:
        raise AuditError(f"{path} was measured on other images: choose another folder with --out")
    measured.outcomes[test], measured.seconds[test] = outcomes, float(facts.get("seconds", 0))


def _measure(
    evaluation: Evaluation,
    missing: Sequence[Measured],
    stage: Stage,
    test: TestSet,
    progress: Report | None,
    at: tuple[int, int],
) -> None:
    """One test set for all models that lack it; the time of making it counts for each of them."""
    labels, batches = stage.source.of(test)
    parts: dict[str, list[dict[str, Tensor]]] = {each.contestant.name: [] for each in missing}
    seconds = dict.fromkeys(parts, 0.0)
    count, before = len(labels), time.perf_counter()
    for start, pixels in batches:
        made = time.perf_counter() - before
        for number, each in enumerate(missing):
            if progress is not None:
                done = (at[0] * count) + start * len(missing) + number * len(pixels)
                progress(f"{each.contestant.name}, {test}", done, at[1] * count)
            began = time.perf_counter()
            name = each.contestant.name
            parts[name].append(_outcomes(each.contestant, pixels, labels[start : start + len(pixels)], test, start))
            seconds[name] += made + time.perf_counter() - began
        before = time.perf_counter()
    for each in missing:
        name = each.contestant.name
        each.outcomes[test], each.seconds[test] = joined(parts[name]), seconds[name]
        facts = {"test": test.name, "model": each.digest, "pixels": stage.pixels, "seconds": seconds[name]}
        write_outcomes(evaluation.file(name, test), each.outcomes[test], facts)


def _outcomes(contestant: Contestant, pixels: Tensor, labels: Tensor, test: TestSet, start: int) -> dict[str, Tensor]:
    logits = contestant(pixels)
    if logits.shape[1] != contestant.classes:
        raise AuditError(f"{contestant.name} returned {logits.shape[1]} logits after {contestant.classes}")
    try:
        return outcomes_of(logits, labels.to(logits.device))
    except AuditError as error:
        raise AuditError(f"{contestant.name} on {test}, from image {start} on: {error}") from None
