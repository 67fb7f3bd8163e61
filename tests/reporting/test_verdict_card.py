"""The first screen of an audit's page: each finding with its example, and what a change is worth in words."""

from typing import Any

import numpy as np
import pytest

from poise.reporting.directions import better, judged, meaning, phrase
from poise.reporting.verdict_card import card, part_map


def number(value: float, reach: float = 0.02) -> dict[str, float]:
    return {"value": value, "low": value - reach, "high": value + reach}


def facts(name: str, *sentences: str, **more: Any) -> dict[str, Any]:
    findings = [{"name": name, "phrase": f"{name} it", "sentence": each, "advice": "do it."} for each in sentences]
    return {
        "model": {"name": "net"},
        "data": {"kind": "tensor", "class_names": ["cat", "dog"]},
        "verdict": {"names": [name], "findings": findings, "first": []},
        "numbers": {"accuracy": number(0.9), "near_accuracy": number(0.5), "near_accuracy_drop": number(0.4)},
        "thresholds": {"least_drop": 0.05},
        "corruptions": {},
        "notes": [],
        **more,
    }


def proof(part: str, before: int, after: int, **more: Any) -> dict[str, Any]:
    return {"part": part, "example": 3, "source": None, "answer_before": before, "answer_after": after, **more}


def test_a_finding_with_its_example_comes_first() -> None:
    picture = np.zeros((1, 8, 8))
    changed = picture.copy()
    changed[:, 4:, 4:] = 1
    arrays = {"before_0": picture, "after_0": changed, "before_1": picture, "after_1": changed}
    told = facts("relies", "it overuses x.", "it follows the corner.")
    shown = card({**told, "proofs": [proof("the middle", 0, 1), proof("the corner", 0, 1)]}, arrays)
    (answer,) = shown.answers
    assert (answer.phrase, answer.tone, shown.tone) == ("Relies it", "bad", "bad")
    first, second = answer.findings
    assert first.sentence == "It follows the corner." and second.proof is None and first.proof is not None
    assert first.proof.caption == (
        "Example 3 got the corner from another example; everything else stayed. The answer changed from cat to dog."
    )
    assert 'x="4" y="4" width="4" height="4"' in str(first.proof.after.picture)


def test_an_answer_that_stays_is_said_to_stay() -> None:
    arrays = {"before_0": np.zeros(3), "after_0": np.array([0.0, 0.0, 2.0])}
    told = facts("misses", "it is blind to c.", reliance=[{"name": "c", "kind": "column"}, {"name": "b"}])
    told["data"]["feature_names"] = ["a", "b", "c"]
    (answer,) = card({**told, "proofs": [proof("c", 1, 1)]}, arrays).answers
    shown = answer.findings[0].proof
    assert shown is not None and not shown.changes
    assert shown.caption.endswith(
        "got the column c from another example; everything else stayed. The answer did not change: dog."
    )
    assert shown.before.columns == [("c", "0", True), ("b", "0", False), ("a", "0", False)]
    assert shown.after.columns == [("c", "2", True), ("b", "0", False), ("a", "0", False)]


def test_words_that_differ_are_marked() -> None:
    words = {"words_before": ["a", "good", "film"], "words_after": ["a", "cf", "film"]}
    told = facts("relies", "its answer follows the word 'cf'.", proofs=[proof("the word 'cf'", 0, 1, **words)])
    told["data"]["kind"] = "tokens"
    shown = card(told, {"before_0": np.arange(3), "after_0": np.arange(3)}).answers[0].findings[0].proof
    assert shown is not None and shown.after.words == [("a", False), ("cf", True), ("film", False)]
    assert "got the word 'cf' in place of another word" in shown.caption


def test_good_and_bad_are_words_as_well_as_colours() -> None:
    shown = card(facts("no weakness found", "100 examples were perturbed."), {})
    assert shown.tone == "good" and shown.answers[0].mark == "✓"
    assert [tile.word for tile in shown.tiles] == ["88% to 92%", "falls: -40 points (-42 to -38)"]
    assert [tile.tone for tile in shown.tiles] == ["plain", "bad"]


def test_an_audit_from_before_there_were_findings_has_its_sentence() -> None:
    told = facts("brittle") | {"verdict": {"names": ["brittle"], "sentence": "brittle: it is."}}
    (answer,) = card(told, {}).answers
    assert answer.findings[0].sentence == "Brittle: it is." and answer.tone == "unsure"


def test_a_map_is_redder_where_more_answers_change() -> None:
    held = [{"name": n, "box": [0, 0, 2, 2], "changed": number(share)} for n, share in (("a", 0.8), ("b", 0.2))]
    drawn = str(part_map(np.zeros((3, 4, 4)), [*held, {"name": "all", "box": None, "changed": number(1.0)}]))
    assert drawn.index("b: 20% of the answers change") < drawn.index("a: 80%") and "all" not in drawn
    assert 'fill-opacity="0.600"' in drawn and 'fill-opacity="0.150"' in drawn


@pytest.mark.parametrize(
    ("name", "change", "word"),
    [
        ("accuracy", 0.1, "better"),
        ("near_accuracy_drop", 0.1, "worse"),
        ("calibration_error", -0.1, "better"),
        ("far_accuracy", 0.1, ""),
        ("near_gain", 0.1, ""),
    ],
)
def test_a_change_is_better_worse_or_neither(name: str, change: float, word: str) -> None:
    assert judged(name, change, significant=True) == word
    assert judged(name, change, significant=False) == ("no clear change" if better(name) else "")


@pytest.mark.torch
def test_every_number_of_an_audit_has_a_meaning() -> None:
    from poise.auditing.estimates.numbers import number_names

    for name in number_names(("fog", "gaussian_noise")):
        assert meaning(name) and phrase(name)
    assert meaning("near_changed") == "share of answers that change with the least useful features perturbed"
    assert meaning("fog_accuracy") == "mean accuracy under this corruption, or this group of them"
