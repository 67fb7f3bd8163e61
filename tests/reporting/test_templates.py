"""Pages from templates: every kind escapes names from outside, and a template that asks for what is not there fails."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jinja2
import numpy as np
import pytest
from fake_records import mnist

from poise.records.schema import load_results
from poise.reporting.audit_page import audit_page, comparison_page
from poise.reporting.page import page
from poise.reporting.render import render
from poise.reporting.sweep_page import Swept, Trial, sweep_page

HOSTILE = '<script>x</script>&"'
CONTROL = "bell\x07 and turn\u202e"


def number(value: float | None = 0.5) -> dict[str, float | None]:
    return {"value": value, "low": value and value - 0.1, "high": value and value + 0.1}


def audit(folder: Path, name: str) -> Path:
    """An audit with something in every section, and `name` wherever a name can stand."""
    told = {"example": 1, "source": name, "label": 0, "predicted": 1, "confidence": 0.9}
    told |= {"near_gain": 0.5, "far_gain": 2.0, "observed_rank_correlation": None}
    finding = {"name": name, "phrase": name, "sentence": name, "advice": name, "question": True}
    swapped = {"name": name, "kind": "region", "box": [0, 0, 2, 2], "changed": number(), "followed": number()}
    unseen = {"name": name, "share": 0.5, "alone": number(), "chance": 0.3}
    proof = {"part": name, "example": 1, "source": name, "answer_before": 0, "answer_after": 1}
    numbers = {part: number() for part in ("accuracy", "rank_correlation", "near_gain", "far_gain")}
    sides = {f"{side}_{what}": number() for side in ("near", "far") for what in ("accuracy", "shift")}
    level = {"accuracy": number(), "calibration_error": number()}
    feature = {"name": name, "kind": name, "label": 0, "gain": 0.2, "p": 0.01, "use": 0.3, "without": 0.1}
    facts: dict[str, Any] = {
        "version": 1,
        "complete": True,
        "examples": 30,
        "seconds": 2,
        "model": {"name": name, "weights": 10, "classes": 2, "embedding": 3, "device": name},
        "data": {"name": name, "kind": "tokens", "class_names": [name, "b"], "feature_names": [name, "two"]},
        "numbers": {**numbers, name: number(None)},
        "verdict": {"names": [name], "sentence": name, "findings": [finding], "first": [finding]},
        "reliance": [swapped],
        "blind": [unseen],
        "proofs": [proof, {**proof, "words_before": [name, "b"], "words_after": ["b", name]}],
        "thresholds": {"least_far": 0.25, "neutral": 1.0},
        "notes": [name],
        "perturbation": [{"strength": strength, **sides} for strength in (0.1, 0.2)],
        "corruptions": {name: {"1": level, "5": level}},
        "slices": [{"column": name, "value": name, "examples": 9, "numbers": numbers}],
        "leftover": [feature],
        "confusions": [{"label": 0, "taken_for": 1, "count": 3, "of": 9}],
        "telling": [
            {"why": name, **told, "words": [name, "b"], "feature": [True, False]},
            {"why": "picture", **told},
            {"why": "row", **told},
        ],
        "estimator": {"probes": None, "relative_error": 0.0},
        "settings": {name: name},
    }
    shapes = [(2,), (3, 4, 4), (2,)]
    arrays = {f"{part}_{n}": np.arange(np.prod(s)).reshape(s) / 9 for n, s in enumerate(shapes) for part in "xus"}
    arrays |= {f"{when}_{n}": np.full((3, 4, 4), n / 2) for n in range(2) for when in ("before", "after")}
    folder.mkdir(parents=True)
    (folder / "audit.json").write_text(json.dumps(facts))
    np.savez(folder / "telling.npz", **arrays)  # type: ignore[arg-type]
    return folder


def comparison(folder: Path, name: str) -> Path:
    gap = {"mean": 0.1, "low": 0.05, "high": 0.15, "holm": 0.01, "significant": True}
    facts = {"version": 1, "folders": ["1", "2"], "examples": 30, "differences": {name: gap}}
    for each in facts["folders"]:
        audit(folder / each, name)
    (folder / "comparison.json").write_text(json.dumps(facts))
    return folder


def report_of(home: Path, name: str) -> str:
    for path in mnist(home, 2).rglob("*.json"):
        path.write_text(path.read_text().replace('"FCL"', json.dumps(name)))
    return page(load_results(home))


def sweep_of(_: Path, name: str) -> str:
    trials = (Trial({name: "1"}, {0: 0.5}), Trial({name: "2"}, {}, failed=name))
    return sweep_page(Swept(name, name, name, {name: ["1", "2"]}, (name,), trials))


KINDS: dict[str, Callable[[Path, str], str]] = {
    "report": report_of,
    "sweep": sweep_of,
    "audit": lambda home, name: audit_page(audit(home / "a", name), [audit(home / "b", name)]),
    "comparison": lambda home, name: comparison_page(comparison(home / "a", name), [audit(home / "b", name)]),
}


def parse(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(html.removeprefix("<!DOCTYPE html>\n"))


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_text_on_every_page(kind: str, tmp_path: Path) -> None:
    tree = parse(KINDS[kind](tmp_path, HOSTILE))
    assert HOSTILE in "".join(tree.itertext()) and not list(tree.iter("script"))
    plain = parse(KINDS[kind](tmp_path / "plain", "a" * len(HOSTILE)))
    assert [each.tag for each in tree.iter()] == [each.tag for each in plain.iter()]


@pytest.mark.parametrize("kind", KINDS)
def test_control_characters_are_replaced_on_every_page(kind: str, tmp_path: Path) -> None:
    made = KINDS[kind](tmp_path, CONTROL)
    assert (
        "bell\ufffd and turn\ufffd" in "".join(parse(made).itertext()) and "\x07" not in made and "\u202e" not in made
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_page_forbids_scripts_and_loading(kind: str, tmp_path: Path) -> None:
    (policy,) = (each for each in parse(KINDS[kind](tmp_path, "net")).iter("meta") if each.get("http-equiv"))
    assert (policy.get("content") or "").startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")


def test_a_template_without_its_values_fails() -> None:
    with pytest.raises(jinja2.UndefinedError, match="headline"):
        render("sweep", title="T", heading="H")
