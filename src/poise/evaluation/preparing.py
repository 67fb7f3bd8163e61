"""Preparation of `poise evaluate`: loads models and data, and checks that they fit before anything is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from poise.corruptions.corrupt import SMALLEST
from poise.data.pixel_noise import pixel_deviation
from poise.data.sets.cache import load, manifest_of
from poise.errors import AuditError
from poise.evaluation.benchmarks import Benchmark, TestSet, benchmark_of
from poise.evaluation.contestants import Contestant, contestant
from poise.evaluation.measuring import Evaluation, FromFiles, Generated, ImageSource, Stage
from poise.evaluation.published import PublishedFiles, published_files
from poise.evaluation.shown import Report, Shown, as_pixels, decode_all
from poise.inputs.examples import AuditExamples, match_classes, read_lines, sample
from poise.inputs.images import SETS, open_pictures
from poise.inputs.model_sources import Loaded, load_network, normalization
from poise.io.files import require_writable

_WITH_TRAINING = ("cifar10", "cifar100")


@dataclass(frozen=True)
class EvaluationRequest:
    """The arguments of `poise evaluate`."""

    models: list[str]
    benchmark: str
    data: str | None
    published: str | None
    out: Path
    examples: int | None
    weights: list[Path] | None
    name: list[str] | None
    network: str | None
    normalize: str | None
    size: int | None
    labels: Path | None
    classes: Path | None
    metadata: Path | None
    group: list[str] | None
    corruption: list[str] | None
    severity: list[int] | None
    batch: int
    bfloat16: bool
    workers: int
    device: str
    seed: int
    trust: bool
    quiet: bool
    json: bool


@dataclass(frozen=True, eq=False)
class Prepared:
    """What is ready to be measured.

    labels  [N], the same for all stages.
    paired  whether the clean and the corrupted images are the same, row by row.
    total   the number of examples in the whole set.
    """

    evaluation: Evaluation
    stages: list[Stage]
    labels: np.ndarray
    classes: Sequence[str]
    groups: dict[str, list[str]]
    paired: bool
    total: int
    notes: tuple[str, ...]


def require_possible(request: EvaluationRequest) -> tuple[Benchmark, list[TestSet]]:
    """The benchmark and its test sets; ValueError or AuditError for arguments that fit no model and no data."""
    benchmark = benchmark_of(request.benchmark)
    tests = benchmark.chosen(request.corruption, request.severity)
    if request.normalize is not None:
        normalization(request.normalize)
    if request.weights and len(request.weights) not in (len(_of_hubs(request.models)), len(request.models)):
        raise AuditError("pass --weights once for every model, or once for each of torchvision's and timm's, in order")
    if request.name and len(request.name) != len(request.models):
        raise AuditError("pass --name once for every model, in order")
    if request.data is None and request.published is None and benchmark.data is None:
        raise AuditError(f"{benchmark.name} has no data of its own: pass the clean images with --data")
    return benchmark, tests


def _of_hubs(models: Sequence[str]) -> list[str]:
    return [each for each in models if each.partition(":")[0] in ("torchvision", "timm")]


def load_models(request: EvaluationRequest) -> list[Loaded]:
    """The models by distinct names."""
    given = list(request.weights or [])
    every = len(given) == len(request.models)
    found = []
    for number, source in enumerate(request.models):
        own = given.pop(0) if given and (every or source in _of_hubs(request.models)) else None
        loaded = load_network(
            source, weights=own, network=request.network, normalize=request.normalize, trust=request.trust
        )
        if loaded.reads == "text":
            raise AuditError(f"{loaded.name} takes text: an evaluation needs a classifier of images")
        found.append(replace(loaded, name=request.name[number] if request.name else loaded.name))
    return _distinct(found)


def _distinct(found: list[Loaded]) -> list[Loaded]:
    names = [each.name for each in found]
    return [
        replace(each, name=f"{each.name} {number + 1}") if names.count(each.name) > 1 else each
        for number, each in enumerate(found)
    ]


def prepare_evaluation(request: EvaluationRequest, device: torch.device, progress: Report | None = None) -> Prepared:
    """Load everything that the request names; AuditError in one sentence for what does not fit."""
    benchmark, tests = require_possible(request)
    require_writable(request.out)
    loaded = load_models(request)
    for each in loaded:
        each.model.to(device)
    files, tests = _files(request, benchmark, tests)
    stages, seen = [], []
    for size, members in _by_size(request, loaded).items():
        found = _open(request, benchmark, files, tests, size)
        stage, shown, clean = _stage(request, benchmark, files, tests, found, members, size, device, progress)
        stages.append(stage)
        seen.append((shown, clean))
    first, clean = seen[0]
    evaluation = Evaluation(request.out, benchmark, tests, settings_of(request.seed, benchmark, first, files))
    return Prepared(
        evaluation=evaluation,
        stages=stages,
        labels=first.labels.numpy(),
        classes=first.classes,
        groups=_groups(first, request.group),
        paired=clean is None or bool(torch.equal(first.labels, clean.labels)),
        total=first.total,
        notes=tuple(dict.fromkeys(note for shown, _ in seen for note in shown.notes)),
    )


def _files(
    request: EvaluationRequest, benchmark: Benchmark, tests: list[TestSet]
) -> tuple[PublishedFiles | None, list[TestSet]]:
    """The published files, if they are asked for or in the cache, and the test sets that they have."""
    own = benchmark.published if request.data in (None, benchmark.data) else None
    name = request.published or (own if own is not None and manifest_of(own) is not None else "none")
    if name == "none":
        return None, tests
    files = published_files(name)
    asked = request.corruption is not None or request.severity is not None
    found = files.available([test for test in tests if test.severity], asked)
    clean = request.data is not None or (benchmark.data is not None and manifest_of(benchmark.data) is not None)
    return files, [TestSet(), *found] if clean else found


def _by_size(request: EvaluationRequest, loaded: Sequence[Loaded]) -> dict[int | None, list[Loaded]]:
    """The models by the size at which images of a folder are shown; None is the size of the images."""
    is_folder = Path(request.data or request.published or "").is_dir()
    found: dict[int | None, list[Loaded]] = {}
    for each in loaded:
        size = request.size or (each.size if is_folder else None)
        found.setdefault(size, []).append(each)
    return found


def _open(
    request: EvaluationRequest,
    benchmark: Benchmark,
    files: PublishedFiles | None,
    tests: Sequence[TestSet],
    size: int | None,
) -> AuditExamples:
    """The clean examples; without any, those of the first published test set."""
    if files is not None and tests[0].severity:
        return files.read(tests[0], size)
    data = request.data or benchmark.data or ""
    if data == "synthetic-mnist" or data in SETS or Path(data).exists():
        return open_pictures(data, request.labels, request.metadata, size)
    raise AuditError(
        f"no data found at {data!r}: use {', '.join(SETS)}, ImageNet's folder, a folder of class folders, or an .npz "
        "or .npy file"
    )


def _stage(
    request: EvaluationRequest,
    benchmark: Benchmark,
    files: PublishedFiles | None,
    tests: Sequence[TestSet],
    found: AuditExamples,
    members: Sequence[Loaded],
    size: int | None,
    device: torch.device,
    progress: Report | None,
) -> tuple[Stage, Shown, Shown | None]:
    """The models of a size with their images: the stage, the images of its corrupted test sets, and the clean ones."""
    probe = as_pixels(_images(found), found.name).repeat(2, 1, 1, 1).to(device)
    require_size(found.name, (int(probe.shape[2]), int(probe.shape[3])), benchmark)
    contestants = [contestant(each.name, each.name, each.model, each.size, probe, each.note) for each in members]
    if request.bfloat16:
        contestants = [each.in_bfloat16() for each in contestants]
    fit = partial(_fitting, names=_class_names(request, members[0]), contestants=contestants)
    rows = _rows(request, len(found))
    clean = decode_all(fit(found), rows, request.workers, progress=progress)
    making: dict[str, Any] = {"batch": request.batch, "device": device}
    maker = benchmark.make.fitted(deviation_of(request.data or benchmark.data, clean))
    source: ImageSource = Generated(clean, maker, request.seed, **making)
    if files is None:
        return Stage(contestants, source, clean.size, clean.digest, benchmark.made(*clean.size)), clean, clean

    def read(test: TestSet) -> Shown:
        part = fit(files.read(test, size))
        return decode_all(part, _rows(request, len(part)), request.workers)

    source = FromFiles(read, source if not tests[0].severity else None, **making)
    made = f"the published files of {files.name}"
    shown = clean if tests[0].severity else read(tests[1])
    return Stage(contestants, source, clean.size, clean.digest, made), shown, None if tests[0].severity else clean


def _images(found: AuditExamples) -> Tensor:
    x = found.first(range(len(found))).x
    if not isinstance(x, Tensor):
        raise AuditError(f"{found.name} contains text: an evaluation needs images")
    return x


def _class_names(request: EvaluationRequest, first: Loaded) -> list[str]:
    return read_lines(request.classes) if request.classes is not None else list(first.classes)


def _fitting(found: AuditExamples, names: Sequence[str], contestants: Sequence[Contestant]) -> AuditExamples:
    """The examples with labels as the models number them; AuditError if the models differ in their classes."""
    first = contestants[0]
    for each in contestants:
        if each.classes != first.classes:
            raise AuditError(
                f"{each.name} has {each.classes} classes, {first.name} has {first.classes}: evaluate them one by one"
            )
    return match_classes(found, names, first.classes)


def _rows(request: EvaluationRequest, count: int) -> list[int]:
    """All rows, or a random sample of them in their order."""
    return sorted(sample(count, request.examples or count, request.seed))


def require_size(name: str, size: tuple[int, int], benchmark: Benchmark) -> None:
    """AuditError for images that are too small for the benchmark."""
    if benchmark.side is not None and min(size) < SMALLEST:
        images = f"{name} has images of {size[0]} x {size[1]} pixels"
        raise AuditError(f"{images}: {benchmark.title} needs {SMALLEST} x {SMALLEST} or more")


def deviation_of(data: str | None, shown: Shown) -> Callable[[], np.ndarray]:
    """The deviation of every value over the training images of a known set, else over the images shown."""

    @cache
    def found() -> np.ndarray:
        if data in _WITH_TRAINING and shown.size == (32, 32):
            return pixel_deviation(np.asarray(load(str(data), "train_x")))
        images = torch.cat([pixels for _, pixels in shown.batches()])
        return pixel_deviation(images.permute(0, 2, 3, 1).numpy())

    return found


def _groups(shown: Shown, columns: Sequence[str] | None) -> dict[str, list[str]]:
    """The columns of --group; AuditError for one that the data do not have."""
    for name in columns or ():
        if name not in shown.groups:
            raise AuditError(f"no column is called {name!r}: the columns are {', '.join(shown.groups) or 'none'}")
    return {name: shown.groups[name] for name in columns or ()}


def settings_of(seed: int, benchmark: Benchmark, shown: Shown, files: PublishedFiles | None = None) -> dict[str, Any]:
    """What a folder must keep from one command to the next."""
    labels = sha256(shown.labels.numpy().tobytes() + np.asarray(shown.rows).tobytes()).hexdigest()
    return {
        "benchmark": benchmark.name,
        "data": shown.name if files is None else files.name,
        "examples": len(shown),
        "labels": labels,
        "seed": seed,
    }
