"""Odd values anywhere in record.json and experiment.json: a right table and page, or a sentence, never a traceback."""

import copy
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from fake_records import RECIPE

from poise.cli.report import report
from poise.cli.table import Format, table

DELETED = object()
ODD = (
    *(DELETED, None, True, False, 0, -1, 7, 2.5, 0.5, 1e308, -1e308, 10**400, float("nan"), float("inf")),
    *("", "x", "FCL nan", "FCL 0.1", "[/x]", "\ud800", "\x1b[31m\x00", "a" * 5000, "=1+1", "FCL", "seed"),
    *([], [[]], [None], [[1, 2]], ["XE", "XE"], [{}], {}, {"a": {}}, {"": None}, {"XE": {"b": 1}}, {"b": [1, "b"]}),
)
CODINGS = ("utf-16", "utf-8-sig", "utf-32-le")
CASES = 150  # of the thousands of each file

COLUMNS = [{"name": "clean", "of": ["clean"]}, {"name": "rare", "of": ["clean"], "classes": [1]}]
EXPERIMENT = {
    "version": 1,
    "name": "odd",
    "title": "Odd",
    "columns": [*COLUMNS, {"name": "fog", "of": ["fog/1", "fog/2"]}],
    "details": {"more": [{"name": "mixed", "of": ["mixed"]}]},
    "methods": ["XE", "FCL", "FCL 0.1", "FCL 0.2"],
    "groups": [["XE", "FCL"]],
    "paper": {"FCL": {"clean": {"mean": 0.9, "std": None}, "rare": {"mean": 0.8, "std": 0.1}}},
    "overlaps": {"FCL": ["fog"]},
    "rare_classes": [1],
    "class_names": ["often", "rare"],
    "frontier": ["clean", "fog"],
    "reference": "imagenet-c",
}


def record(method: str, seed: int) -> dict[str, Any]:
    right = 40 + len(method) + seed
    loss = {"xe": 0.5 / (seed + 1), "contrast": 2.0, "weight": 0.001}
    entry = {"epoch": 1, "step": 9, "loss": loss, "learning_rate": 0.01, "validation": 0.9, "seconds": 1.0}
    return {
        "version": 1,
        "experiment": "odd",
        "method": method,
        "seed": seed,
        "recipe": RECIPE.format(method=method, peak=0.001, seed=seed),
        "scores": {"clean": (right + 8) / 60, "fog/1": 0.6, "fog/2": 0.5, "mixed": 0.4 + 0.01 * seed, "r, own": 0.2},
        "classes": {"clean": [[right, 50], [8, 10]]},
        "validation": 0.9,
        "log": [{**entry, "measures": {"bias": 0.1}}, {**entry, "epoch": 2, "measures": {"bias": 0.2}}],
        "trunk": {"epochs": 1},
        "seconds": 2.5,
        "peak_memory": 1000,
        "commit": "abc",
        "version_of_poise": "0.1",
        "versions": {"torch": "2.11.0"},
        "device": "cpu",
        "engine": "eager",
        "origins": {"test": "drawn"},
        "damaged": {"a.jpg": "cut short"},
        "started": "2026-11-15T06:00:00+00:00",
        "finished": "2026-11-15T06:01:00+00:00",
    }


def places(content: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything in a document, and of a field that it lacks."""
    yield at
    parts = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in parts:
        yield from places(value, (*at, key))
    if isinstance(content, dict):
        yield (*at, "other")


def changed(content: Any, at: tuple[Any, ...], value: Any) -> str:
    if not at:
        return "" if value is DELETED else json.dumps(value)
    content = copy.deepcopy(content)
    holder = content
    for key in at[:-1]:
        holder = holder[key]
    if value is not DELETED:
        holder[at[-1]] = value
    elif isinstance(holder, list) or at[-1] in holder:
        del holder[at[-1]]
    return json.dumps(content)


def cases(content: Any) -> list[tuple[tuple[Any, ...], Any]]:
    return [(at, value) for at in places(content) for value in ODD]


def written(folder: Path) -> Path:
    for name in EXPERIMENT["methods"]:
        for seed in range(2):
            path = folder / name.lower().replace(" ", "-") / f"seed-{seed:02}" / "record.json"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps(record(name, seed)))
    (folder / "experiment.json").write_text(json.dumps(EXPERIMENT))
    return folder


def outcome(folder: Path) -> tuple[str, str]:
    """The table or the sentence, and the page; any other end is an error of this test."""
    out = folder.parent / "out"
    try:
        for format in Format:  # noqa: A001
            table(folder, format=format, out=out)
        rows = out.read_text()
        report(folder, out=out)
        return rows, out.read_text()
    except SystemExit as end:
        said = str(end.code)
        assert said.startswith(f"poise: {folder}") and len(said) < 1000, said
        assert "\n" not in said or "differ in\n" in said
        return said, ""


def judged(folder: Path, file: Path, words: bytes) -> list[dict[str, Any]] | None:
    """The cells of all tables, if it is not a sentence, after a look at them."""
    whole = file.read_bytes()
    file.write_bytes(words)
    try:
        said, page = outcome(folder)
    finally:
        file.write_bytes(whole)
    if not page:
        return None
    ElementTree.fromstring(page.removeprefix("<!doctype html>"))
    assert not re.search(r"(?<![\w ])(nan|inf)\b", page)
    cells = [cell for each in json.loads(said) for cell in each["cells"]]
    assert all(abs(cell["mean"] or 0) <= 1 for cell in cells if cell["method"] == "FCL" and cell["column"] == "clean")
    return cells


FILES = {"experiment.json": EXPERIMENT, "fcl/seed-01/record.json": record("FCL", 1)}


_DECIDE = ("experiment", "method", "seed", "recipe", "scores", "classes")


def require_well(folder: Path, name: str, at: tuple[Any, ...], value: Any, right: list[dict[str, Any]] | None) -> None:
    try:
        cells = judged(folder, folder / name, changed(FILES[name], at, value).encode())
        aside = name != "experiment.json" and at and at[0] not in _DECIDE
        assert cells is None or cells == right or not aside, "another table"
    except Exception as error:
        raise AssertionError(f"{name} with {value!r:.80} at {at}") from error


@pytest.mark.parametrize("name", FILES)
def test_odd_values_are_a_table_or_a_sentence(name: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "odd")
    right = judged(folder, folder / name, (folder / name).read_bytes())
    assert right
    for at, value in random.Random(0).sample(cases(FILES[name]), CASES):
        require_well(folder, name, at, value, right)


@pytest.mark.parametrize("coding", CODINGS)
def test_other_encodings_are_a_sentence(coding: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "odd")
    for name, content in FILES.items():
        assert judged(folder, folder / name, json.dumps(content).encode(coding)) is None


@pytest.mark.parametrize("words", [b"", b"null", b"[" * 100_000, b'{"version": 1', b"\x1f\x8b", b'{"version": 1} 2'])
def test_what_is_no_document_is_a_sentence(words: bytes, tmp_path: Path) -> None:
    folder = written(tmp_path / "odd")
    for name in FILES:
        assert judged(folder, folder / name, words) is None
