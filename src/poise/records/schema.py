"""What a finished run leaves on disk, written whole or not at all, and read with suspicion.

<experiment>/experiment.json                 columns, methods, groups, the paper's numbers
<experiment>/<method>/seed-03/record.json    one run: recipe, scores, log, where and when
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from poise.io.json_files import RecordError, read_json, remedy, write_proved
from poise.io.packs import documents, place_of
from poise.records import shapes
from poise.records.columns import Column, Counts
from poise.records.recipe_text import common_differences, differences

EXPERIMENT = "experiment.json"
RECORD = "record.json"


@dataclass(frozen=True)
class Record:
    """One finished run."""

    experiment: str
    method: str
    seed: int
    recipe: str
    scores: Mapping[str, float]
    classes: Mapping[str, Counts] = field(default_factory=dict)
    validation: float | None = None
    log: tuple[Mapping[str, Any], ...] = ()
    trunk: Mapping[str, Any] | None = None
    seconds: float | None = None
    peak_memory: int | None = None
    commit: str | None = None
    version_of_poise: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    device: str | None = None
    engine: str | None = None
    origins: Mapping[str, str] = field(default_factory=dict)
    damaged: Mapping[str, str] = field(default_factory=dict)
    started: str | None = None
    finished: str | None = None


@dataclass(frozen=True)
class Published:
    """A number of the paper."""

    mean: float
    std: float | None = None


@dataclass(frozen=True)
class StoredExperiment:
    """What its table looks like.

    groups     methods that are compared with each other, each with the first of its group.
    details    further tables, {title: columns}.
    overlaps   per method, the tested corruptions that its training augmentation resembles.
    frontier   two columns that pull apart; methods called "NAME SETTING" are curves over them.
    reference  whose errors the mean corruption error divides by (`poise.corruptions.protocols.REFERENCE_ERRORS`).
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    methods: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...] = ()
    details: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)
    paper: Mapping[str, Mapping[str, Published]] = field(default_factory=dict)
    overlaps: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rare_classes: tuple[int, ...] = ()
    class_names: tuple[str, ...] = ()
    frontier: tuple[str, ...] = ()
    reference: str = ""


@dataclass(frozen=True)
class Results:
    """An experiment and its finished runs: per method, by seed."""

    folder: Path
    experiment: StoredExperiment
    runs: Mapping[str, Mapping[int, Record]]

    @property
    def records(self) -> list[Record]:
        return [record for runs in self.runs.values() for record in runs.values()]


def write_record(path: Path, record: Record) -> None:
    """Write a record atomically."""
    write_proved(path, asdict(record))


def read_record(path: Path) -> Record:
    """Read one record, or say in a RecordError what is wrong with it."""
    content = read_json(path, "record")
    _require(path, "record", shapes.fault_of(content))
    known = {name: content[name] for name in Record.__dataclass_fields__ if content.get(name) is not None}
    log = tuple({name: value for name, value in each.items() if value is not None} for each in known.get("log", ()))
    return Record(**{**known, "log": log})


def record_at(path: Path, experiment: str) -> Record:
    """The record of an experiment that lies in the folder of its seed, or a RecordError: what a table is made of, and
    what a run that is finished has."""
    record = read_record(path)
    if record.experiment != experiment:
        raise RecordError(f"{path} belongs to {record.experiment!r:.80}, not to {experiment!r:.80}, where it lies")
    word, _, number = path.parent.name.partition("-")
    if word == "seed" and number.isdecimal() and int(number) != record.seed:
        raise RecordError(f"{path} is of seed {record.seed}: put it into a folder of that name, or remove it")
    return record


def read_experiment(path: Path) -> StoredExperiment:
    """Read the description of an experiment, or say in a RecordError what is wrong with it."""
    content = read_json(path, "experiment")
    _require(path, "experiment", shapes.wrong(content, shapes.EXPERIMENT))
    _require(path, "experiment", "" if content["columns"] else "table has no columns")
    return _experiment(content)


def load(folder: Path) -> list[Results]:
    """All experiments in or below a folder that have finished runs."""
    homes = sorted(path.parent for path in _below(folder, EXPERIMENT))
    if not homes and not folder.is_dir():
        raise RecordError(f"{folder} is {'a file, not a folder' if folder.exists() else 'not there'}")
    if not homes:
        raise RecordError(f"{folder} holds no {EXPERIMENT}: no experiment was run into it")
    stray = [path for path in _below(folder, RECORD) if not any(path.is_relative_to(home) for home in homes)]
    if stray:
        raise RecordError(f"{stray[0]} belongs to an experiment whose {EXPERIMENT} is missing: copy it there as well")
    found = [_results(home, homes) for home in homes]
    if not any(results.records for results in found):
        raise RecordError(f"{folder} holds no {RECORD}: no run has finished yet")
    return _told_apart([results for results in found if results.records], folder)


def _told_apart(found: list[Results], folder: Path) -> list[Results]:
    """Where an experiment was run twice, each title says in which folder."""
    titles = [results.experiment.title for results in found]
    return [
        replace(each, experiment=replace(each.experiment, title=f"{title}, in {each.folder.relative_to(folder)}"))
        if titles.count(title) > 1
        else each
        for each, title in zip(found, titles, strict=True)
    ]


def _below(folder: Path, name: str) -> list[Path]:
    """The files of this name, except those of sweeps, whose trials are no rows of a table."""
    return [path for path in documents(folder, f"**/{name}") if "sweeps" not in path.relative_to(folder).parts]


def _results(home: Path, homes: list[Path]) -> Results:
    experiment = read_experiment(home / EXPERIMENT)
    inner = [other for other in homes if other != home and other.is_relative_to(home)]
    paths = [path for path in _below(home, RECORD) if not any(path.is_relative_to(other) for other in inner)]
    first: dict[str, tuple[Path, Record]] = {}
    sources: dict[tuple[str, int], Path] = {}
    runs: dict[str, dict[int, Record]] = {method: {} for method in experiment.methods}
    for path in paths:
        record = record_at(path, experiment.name)
        twin = sources.setdefault((record.method, record.seed), path)
        if twin != path:
            raise RecordError(
                f"{place_of(twin)} and {place_of(path)} are both seed {record.seed} of {record.method}: remove one"
            )
        _same_recipe(*first.setdefault(record.method, (path, record)), path, record)
        _same_surroundings(*next(iter(first.values())), path, record)
        runs.setdefault(record.method, {})[record.seed] = record
    return Results(home, experiment, {method: dict(sorted(seeds.items())) for method, seeds in runs.items() if seeds})


def _same_recipe(first: Path, one: Record, path: Path, other: Record) -> None:
    changed = differences(one.recipe, other.recipe)
    if changed:
        lines = "".join(f"\n  {line}" for line in changed)
        raise RecordError(f"{first} and {path} are runs of {one.method} with two recipes, which differ in{lines}")


def _same_surroundings(first: Path, one: Record, path: Path, other: Record) -> None:
    """Methods of one table are trained on one task, with one network and one plan."""
    changed = common_differences(one.recipe, other.recipe)
    if changed:
        lines = "".join(f"\n  {line}" for line in changed)
        raise RecordError(f"{first} and {path} do not belong in one table; their recipes differ in{lines}")


def _require(path: Path, kind: str, fault: str) -> None:
    if fault:
        raise RecordError(f"{place_of(path)} is not a Poise {kind}: its {fault}{remedy(kind)}")


def _experiment(content: dict[str, Any]) -> StoredExperiment:
    methods = tuple(content["methods"])
    paper = {
        method: {column: _published(cell) for column, cell in row.items()}
        for method, row in (content.get("paper") or {}).items()
    }
    return StoredExperiment(
        name=content["name"],
        title=content.get("title") or content["name"],
        columns=_columns(content["columns"]),
        methods=methods,
        groups=tuple(tuple(group) for group in content.get("groups") or [methods]),
        details={title: _columns(columns) for title, columns in (content.get("details") or {}).items()},
        paper=paper,
        overlaps={method: tuple(names) for method, names in (content.get("overlaps") or {}).items()},
        rare_classes=tuple(content.get("rare_classes") or ()),
        class_names=tuple(str(name) for name in content.get("class_names") or ()),
        frontier=tuple(content.get("frontier") or ()),
        reference=content.get("reference") or content["name"],
    )


def _columns(found: list[Mapping[str, Any]]) -> tuple[Column, ...]:
    return tuple(
        Column(each["name"], tuple(each["of"]), tuple(each.get("classes") or ()), tuple(each.get("errors") or ()))
        for each in found
    )


def _published(cell: Mapping[str, Any]) -> Published:
    return Published(float(cell["mean"]), None if cell.get("std") is None else float(cell["std"]))
