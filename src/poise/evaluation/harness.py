"""`poise.benchmark`: modules on a benchmark from Python, with the numbers, files and page of `poise evaluate`.

Axes: N images, H rows, W columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn

from poise.checks import require_several, require_whole
from poise.classifier import evaluating
from poise.errors import AuditError
from poise.evaluation.benchmarks import benchmark_of
from poise.evaluation.contestants import Contestant, contestant
from poise.evaluation.measuring import Evaluation, Generated, Stage, measure_missing
from poise.evaluation.preparing import Prepared, deviation_of, require_size, settings_of
from poise.evaluation.recording import comparisons_of, evaluation_record, main_mean, save_evaluation
from poise.evaluation.shown import Report, Shown, decode_all, from_loader
from poise.inputs.classifiers import Normalized
from poise.inputs.examples import AuditExamples, match_classes, sample
from poise.inputs.images import from_array, open_pictures
from poise.inputs.model_sources import normalization
from poise.reporting.evaluation_page import summary_of

Data: TypeAlias = "str | Path | tuple[Any, Any] | Iterable[Any]"
MeanStd: TypeAlias = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True)
class Benchmarked:
    """The records of the models, by name, and the paired differences of every two; `print` shows the leaderboard."""

    records: dict[str, dict[str, Any]]
    comparisons: list[dict[str, Any]]

    def __getitem__(self, name: str) -> dict[str, Any]:
        return self.records[name]

    def __str__(self) -> str:
        return summary_of(list(self.records.values()))


def benchmark(
    models: nn.Module | Mapping[str, nn.Module],
    data: Data,
    name: str = "cifar10-c",
    *,
    normalize: str | MeanStd | None = None,
    corruptions: Sequence[str] | None = None,
    severities: Sequence[int] | None = None,
    classes: Sequence[str] = (),
    groups: Mapping[str, Sequence[Any]] | None = None,
    examples: int | None = None,
    seed: int = 0,
    batch_size: int = 100,
    out: Path | str | None = None,
    progress: Report | None = None,
) -> Benchmarked:
    """Test modules on the corruptions of a benchmark, made while they are tested; see docs/evaluate.md.

    models     a module, or {name: module}: images [N, 3, H, W] to logits [N, L], alone or under the name "logits".
               Modules are set to eval mode and restored.
    data       (images, labels) as tensors or arrays; a loader of (x, y), in the same order every time; a folder, an
               .npz file, or the name of a set, as of `poise evaluate --data`. Images are bytes, or floats in [0, 1].
    name       the benchmark: "cifar10-c", "imagenet-c", "cifar10-c-bar", "pixel-noise" and others.
    normalize  "imagenet", "half", or (mean, std), for modules that expect normalized images.
    classes    the names of the modules' classes, if a folder has them in another order.
    groups     {column: a value per example}, for the worst group.
    examples   the number of examples, at random; of a loader the first ones.
    out        a folder for records, tables and the page, from which a stopped call continues.
    progress   called with words, and the numbers of images done and in total.
    """
    chosen = benchmark_of(name)
    tests = chosen.chosen(corruptions, severities)
    require_whole("batch_size", batch_size, least=1)
    named = _named(models, normalize)
    shown, found = _shown(data, examples, seed)
    require_size(shown.name, shown.size, chosen)
    with ExitStack() as stack:
        for model in named.values():
            stack.enter_context(evaluating(model))
        folder = Path(out) if out is not None else Path(stack.enter_context(TemporaryDirectory())) / "evaluation"
        contestants = _contestants(named, shown)
        shown = _labelled(shown, found, classes, contestants)
        make = chosen.make.fitted(deviation_of(str(data), shown))
        source = Generated(shown, make, seed, batch_size, place_of_weights(contestants[0].model))
        stage = Stage(contestants, source, shown.size, shown.digest, chosen.made(*shown.size))
        evaluation = Evaluation(folder, chosen, tests, settings_of(seed, chosen, shown))
        return _measured(evaluation, stage, shown, _held(groups or {}, shown), progress, out is not None)


def _contestants(named: Mapping[str, nn.Module], shown: Shown) -> list[Contestant]:
    pixels = next(shown.batches())[1][:2]
    return [contestant(name, name, model, None, pixels.to(place_of_weights(model))) for name, model in named.items()]


def place_of_weights(model: nn.Module) -> torch.device:
    """The device of a module's weights, or the CPU."""
    weight = next(model.parameters(), None)
    return torch.device("cpu") if weight is None else weight.device


def _measured(
    evaluation: Evaluation,
    stage: Stage,
    shown: Shown,
    groups: dict[str, list[str]],
    progress: Report | None,
    keep: bool,
) -> Benchmarked:
    """Measure what is missing, and keep records and page in the folder if it stays."""
    labels = shown.labels.numpy()
    prepared = Prepared(evaluation, [stage], labels, shown.classes, groups, True, shown.total, shown.notes)
    evaluation.claim()
    found = measure_missing(evaluation, stage, progress)
    around = {"device": str(place_of_weights(stage.contestants[0].model))}
    records = [evaluation_record(prepared, stage, each, around) for each in found]
    comparisons = comparisons_of(prepared, found, main_mean(prepared))
    if keep:
        save_evaluation(prepared, records, comparisons)
    return Benchmarked({record["model"]["name"]: record for record in records}, comparisons)


def _named(models: Any, normalize: str | MeanStd | None) -> dict[str, nn.Module]:
    """The modules by name, for images in [0, 1]."""
    named = dict(models) if isinstance(models, Mapping) else {type(models).__name__: models}
    for name, model in named.items():
        if not isinstance(model, nn.Module):
            raise TypeError(f"models must be a torch.nn.Module, or a dict of them by name; {name!r} is {model!r:.40}")
    if not named:
        raise ValueError("models must hold at least one module")
    pair = normalization(normalize) if isinstance(normalize, str) else normalize
    return named if pair is None else {name: Normalized(model, *pair) for name, model in named.items()}


def _shown(data: Data, examples: int | None, seed: int) -> tuple[Shown, AuditExamples | None]:
    """The images of the data, with the labels that came with them, and the examples unless they are a loader."""
    if isinstance(data, str | Path):
        found = open_pictures(str(data), None, None, None)
    elif isinstance(data, tuple) and len(data) == 2:
        x, y = (np.asarray(part) for part in data)
        found = from_array("the given images", x, y)
    else:
        require_several("data", data)
        return from_loader(data, examples), None
    rows = sorted(sample(len(found), examples or len(found), seed))
    return decode_all(found, rows), found


def _labelled(
    shown: Shown, found: AuditExamples | None, names: Sequence[str], contestants: Sequence[Contestant]
) -> Shown:
    """The images with labels as the modules number them; AuditError if the modules differ in their classes."""
    count = contestants[0].classes
    for each in contestants:
        if each.classes != count:
            raise AuditError(f"{each.name} has {each.classes} classes, {contestants[0].name} has {count}")
    if found is not None:
        fitting = match_classes(found, names, count)
        return replace(
            shown, labels=torch.from_numpy(fitting.labels[shown.rows].astype(np.int64)), classes=fitting.classes
        )
    if not 0 <= int(shown.labels.min()) <= int(shown.labels.max()) < count:
        raise AuditError(f"{shown.name} has label {int(shown.labels.max())}, but the model has {count} classes")
    return replace(shown, classes=list(names) or [str(label) for label in range(count)])


def _held(groups: Mapping[str, Sequence[Any]], shown: Shown) -> dict[str, list[str]]:
    """The group of each shown example."""
    for name, values in groups.items():
        if len(values) != shown.total:
            raise ValueError(f"groups[{name!r}] has {len(values)} values for {shown.total} examples")
    return {name: [str(values[row]) for row in shown.rows] for name, values in groups.items()}
