"""Records, experiments and sweeps on disk: their fields, how they are validated, and how a folder of them is read.

<experiment>/experiment.json                         columns, methods, groups, the paper's numbers
<experiment>/<method>/seed-03/record.json            one finished run: recipe, scores, log, versions
<experiment>/sweeps/<name>/sweep.json                the values that a sweep tries
<experiment>/sweeps/<name>/trials/<n>/trial.json     the values of one trial

A shape describes JSON: a function that returns what a value should be, or "" if it is right; [shape] for a list;
`Fields` for an object with these fields; `Named` for an object with any names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from poise.errors import RecordError
from poise.io.documents import documents, how_to_restore, place_of, read_json
from poise.records.columns import Column, Counts, corruption_of
from poise.records.recipe_text import common_differences, differences

EXPERIMENT = "experiment.json"
RECORD = "record.json"
SWEEP = "sweep.json"
TRIAL = "trial.json"

_MOST = 1e38  # nearly the largest float32; twice its square is a finite float64
_SHOWN = 40  # characters shown of a wrong value


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
    """What a table needs to know of an experiment; `poise.running.experiment.Experiment` describes the fields."""

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
    notice: str = ""


@dataclass(frozen=True)
class Results:
    """An experiment and its finished runs, {method: {seed: record}}."""

    folder: Path
    experiment: StoredExperiment
    runs: Mapping[str, Mapping[int, Record]]

    @property
    def records(self) -> list[Record]:
        return [record for runs in self.runs.values() for record in runs.values()]


@dataclass(frozen=True)
class Fields:
    """The shape of an object. Optional fields may be missing or null."""

    required: Mapping[str, Any]
    optional: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Named:
    """The shape of an object whose values have one shape."""

    shape: Any


def _number(value: Any) -> str:
    return "" if _is_number(value) and abs(value) <= _MOST else "a number"


def _number_or_null(value: Any) -> str:
    return "" if value is None else _number(value)


def _share(value: Any) -> str:
    return "" if _is_number(value) and 0 <= value <= 1 else "a number between 0 and 1"


def _positive(value: Any) -> str:
    return "" if _is_number(value) and 0 <= value <= _MOST else "a number of 0 or more"


def _above_zero(value: Any) -> str:
    return "" if _is_number(value) and 0 < value <= _MOST else "a number above 0"


def _whole(value: Any) -> str:
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
    return "" if fits else "a whole number of 0 or more"


def _word(value: Any) -> str:
    return "" if isinstance(value, str) and value and not _line(value) else "a word"


def _line(value: Any) -> str:
    return "" if isinstance(value, str) and not set("\n\r\t") & set(value) else "a text on one line"


def _switch(value: Any) -> str:
    return "" if isinstance(value, bool) else "true or false"


def _text(value: Any) -> str:
    return "" if isinstance(value, str) else "a text"


def _label(value: Any) -> str:
    return "" if isinstance(value, str) or not _number(value) else "a text or a number"


def _pair(value: Any) -> str:
    fits = isinstance(value, list) and len(value) == 2 and not any(_whole(each) for each in value)
    return "" if fits and value[0] <= value[1] else "a pair of counts, right answers and examples"


_LOSSES = Named(_number_or_null)
_ENTRY = Fields(
    {},
    {"epoch": _whole, "step": _whole, "loss": _LOSSES, "measures": _LOSSES}
    | {"validation": _share, "learning_rate": _number, "seconds": _positive},
)
_RECORD = Fields(
    {"experiment": _word, "method": _word, "seed": _whole, "recipe": _text, "scores": Named(_number)},
    {"classes": Named([_pair]), "validation": _share, "log": [_ENTRY], "trunk": Named(_whole), "seconds": _positive}
    | {"peak_memory": _whole, "versions": Named(_text), "origins": Named(_text), "damaged": Named(_text)}
    | dict.fromkeys(("commit", "version_of_poise", "device", "engine", "started", "finished"), _text),
)
_COLUMN = Fields({"name": _word, "of": [_word]}, {"classes": [_whole], "errors": [_above_zero], "worst": _switch})
_EXPERIMENT = Fields(
    {"name": _word, "columns": [_COLUMN], "methods": [_word]},
    {"title": _line, "groups": [[_word]], "details": Named([_COLUMN]), "overlaps": Named([_word])}
    | {"paper": Named(Named(Fields({"mean": _number}, {"std": _positive}))), "rare_classes": [_whole]}
    | {"class_names": [_label], "frontier": [_word], "reference": _text, "notice": _line},
)


def fault_of_record(content: Any) -> str:
    """What is wrong with the content of a record, such as `'scores': 'BAL' is nan, not a number`; "" if nothing is."""
    return _fault(content, _RECORD) or _contradiction(content["scores"], content.get("classes") or {})


def fault_of_experiment(content: Any) -> str:
    """What is wrong with the content of experiment.json; "" if nothing is."""
    return _fault(content, _EXPERIMENT) or ("" if content["columns"] else "table has no columns")


def read_record(path: Path) -> Record:
    """Read and validate one record; raises RecordError."""
    content = read_json(path, "record")
    _require(path, "record", fault_of_record(content))
    known = {name: content[name] for name in Record.__dataclass_fields__ if content.get(name) is not None}
    log = tuple({name: value for name, value in each.items() if value is not None} for each in known.get("log", ()))
    return Record(**{**known, "log": log})


def record_at(path: Path, experiment: str) -> Record:
    """Read a record; raises RecordError if its experiment or seed does not match its folder."""
    record = read_record(path)
    if record.experiment != experiment:
        raise RecordError(f"{path} belongs to {record.experiment!r:.80}, but is in a folder of {experiment!r:.80}")
    word, _, number = path.parent.name.partition("-")
    if word == "seed" and number.isdecimal() and int(number) != record.seed:
        raise RecordError(f"{path} is of seed {record.seed}: move it into a folder of that name, or remove it")
    return record


def read_experiment(path: Path) -> StoredExperiment:
    """Read and validate the description of an experiment; raises RecordError."""
    content = read_json(path, "experiment")
    _require(path, "experiment", fault_of_experiment(content))
    return _experiment(content)


def load_results(folder: Path) -> list[Results]:
    """All experiments in or below a folder that have finished runs."""
    homes = _homes(folder)
    if not homes and not folder.is_dir():
        raise RecordError(f"{folder} is {'a file, not a folder' if folder.exists() else 'not there'}")
    if not homes:
        raise RecordError(f"{folder} holds no {EXPERIMENT}: no experiment was run into it")
    stray = [path for path in _below(folder, RECORD) if not any(path.is_relative_to(home) for home in homes)]
    if stray:
        raise RecordError(f"{stray[0]} belongs to an experiment whose {EXPERIMENT} is missing: copy it there as well")
    found = [_results(home) for home in homes]
    if not any(results.records for results in found):
        raise RecordError(f"{folder} holds no {RECORD}: no run has finished yet")
    return _with_distinct_titles([results for results in found if results.records], folder)


def record_paths(home: Path) -> list[Path]:
    """The records in the folder of an experiment, without those of sweeps and of experiments inside it."""
    inner = [other for other in _homes(home) if other != home]
    return [path for path in _below(home, RECORD) if not any(path.is_relative_to(other) for other in inner)]


def require_distinct(records: Iterable[tuple[Path, Record]]) -> None:
    """Raise RecordError if two records belong to the same method and seed."""
    first: dict[tuple[str, int], Path] = {}
    for path, record in records:
        other = first.setdefault((record.method, record.seed), path)
        if other != path:
            both = f"{place_of(other)} and {place_of(path)}"
            raise RecordError(f"{both} are both seed {record.seed} of {record.method}: remove one")


def score_of(record: Mapping[str, Any], names: Sequence[str]) -> float:
    """The mean of some scores of a run in a sweep: "validation", or scores on the task's validation sets."""
    return fmean(record["validation"] if name == "validation" else record["scores"][name] for name in names)


def label_of(path: str) -> str:
    """The column name of a field that a sweep varies."""
    return path.removeprefix("objective.")


def in_words(values: Mapping[str, str]) -> str:
    """The values of a trial on one line."""
    return ", ".join(f"{label_of(path)}={value}" for path, value in values.items())


def _homes(folder: Path) -> list[Path]:
    return sorted(path.parent for path in _below(folder, EXPERIMENT))


def _below(folder: Path, name: str) -> list[Path]:
    """The documents of this name, without those of sweeps, whose trials are not rows of a table."""
    return [path for path in documents(folder, f"**/{name}") if "sweeps" not in path.relative_to(folder).parts]


def _results(home: Path) -> Results:
    experiment = read_experiment(home / EXPERIMENT)
    records = [(path, record_at(path, experiment.name)) for path in record_paths(home)]
    require_distinct(records)
    first: dict[str, tuple[Path, Record]] = {}
    runs: dict[str, dict[int, Record]] = {method: {} for method in experiment.methods}
    for path, record in records:
        _require_same_recipe(*first.setdefault(record.method, (path, record)), path, record)
        _require_same_setting(*next(iter(first.values())), path, record)
        runs.setdefault(record.method, {})[record.seed] = record
    return Results(home, experiment, {method: dict(sorted(seeds.items())) for method, seeds in runs.items() if seeds})


def _require_same_recipe(first: Path, one: Record, path: Path, other: Record) -> None:
    if changed := differences(one.recipe, other.recipe):
        lines = "".join(f"\n  {line}" for line in changed)
        raise RecordError(f"{first} and {path} are runs of {one.method} with two recipes, which differ in{lines}")


def _require_same_setting(first: Path, one: Record, path: Path, other: Record) -> None:
    """All methods of a table need the same task, network and plan."""
    if changed := common_differences(one.recipe, other.recipe):
        lines = "".join(f"\n  {line}" for line in changed)
        raise RecordError(f"{first} and {path} do not belong in one table; their recipes differ in{lines}")


def _with_distinct_titles(found: list[Results], folder: Path) -> list[Results]:
    """Add the folder to the title of an experiment that was run twice."""
    titles = [results.experiment.title for results in found]
    return [
        replace(each, experiment=replace(each.experiment, title=f"{title}, in {each.folder.relative_to(folder)}"))
        if titles.count(title) > 1
        else each
        for each, title in zip(found, titles, strict=True)
    ]


def _require(path: Path, kind: str, fault: str) -> None:
    if fault:
        raise RecordError(f"{place_of(path)} is not a Poise {kind}: its {fault}{how_to_restore(kind)}")


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
        notice=content.get("notice") or "",
    )


def _columns(found: list[Mapping[str, Any]]) -> tuple[Column, ...]:
    return tuple(
        Column(
            each["name"],
            tuple(each["of"]),
            tuple(each.get("classes") or ()),
            tuple(each.get("errors") or ()),
            bool(each.get("worst")),
        )
        for each in found
    )


def _published(cell: Mapping[str, Any]) -> Published:
    return Published(float(cell["mean"]), None if cell.get("std") is None else float(cell["std"]))


def _fault(value: Any, shape: Any, place: Sequence[object] = ()) -> str:
    """The first place where a value does not have its shape, in words; "" if there is none."""
    if isinstance(shape, Fields):
        return _fault_of_fields(value, shape, place)
    if isinstance(shape, Named):
        parts = [(name, each, shape.shape) for name, each in value.items()] if isinstance(value, dict) else None
        return _first_fault(parts, place) if parts is not None else f"{_named(place)} is not an object"
    if isinstance(shape, list):
        parts = [(n, each, shape[0]) for n, each in enumerate(value)] if isinstance(value, list) else None
        return _first_fault(parts, place) if parts is not None else f"{_named(place)} is not a list"
    expected = shape(value)
    return f"{_named(place)} is {_short(value)}, not {expected}" if expected else ""


def _fault_of_fields(value: Any, shape: Fields, place: Sequence[object]) -> str:
    if not isinstance(value, dict):
        return f"{_named(place)} is not an object"
    for name in shape.required:
        if name not in value:
            return f"{_named((*place, name))} is missing"
    there = {name: each for name, each in shape.optional.items() if value.get(name) is not None}
    return _first_fault([(name, value[name], each) for name, each in {**shape.required, **there}.items()], place)


def _first_fault(parts: Sequence[tuple[object, Any, Any]], place: Sequence[object]) -> str:
    return next((found for name, each, shape in parts if (found := _fault(each, shape, (*place, name)))), "")


def _contradiction(scores: Mapping[str, float], classes: Mapping[str, Counts]) -> str:
    """A score that contradicts its counts, or an accuracy under a corruption that is out of range; "" if none does."""
    for name, counts in classes.items():
        right, total = (sum(count[place] for count in counts) for place in (0, 1))
        if name in scores and not math.isclose(scores[name], right / max(total, 1), abs_tol=1e-9):
            return f"score {name!r} is {scores[name]!r}, but its counts say {right} of {total}"
        if name not in scores:
            return f"'classes' count {name!r}, which has no score"
    for name, score in scores.items():
        if corruption_of(name) and _share(score):
            return f"score {name!r} is {score!r}, not a number between 0 and 1"
    return ""


def _named(place: Sequence[object]) -> str:
    return ": ".join(_short(name) for name in place) or "content"


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…"


def _is_number(value: Any) -> bool:
    """Whether a value is a finite number, not an integer too large for a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
