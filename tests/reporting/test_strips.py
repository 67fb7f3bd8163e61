"""Strips of tokens: relative, averaged over seeds, the largest gains and losses, from files alone."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from poise.errors import RecordError
from poise.records.schema import load_results
from poise.reporting.figures.strips import chosen_strips
from poise.reporting.page import page

TOKENS = [["a", "good", "film"], ["so", "<bad>", "it"], ["is", "fun", "too"]]
HUMAN = [[0.5, 0.9, None], [0.5, 0.1, 0.5], [0.5, 0.7, 0.6]]
R = {"XE": [0.1, 0.5, 0.9], "FCL": [0.3, 0.9, 0.2]}


def write(home: Path, method: str, seed: int, sensitivity: list[float], **changes: object) -> Path:
    folder = home / method.lower() / f"seed-{seed:02d}"
    folder.mkdir(parents=True)
    record = {
        "version": 1,
        "experiment": "words",
        "method": method,
        "seed": seed,
        "recipe": "R()",
        "scores": {"test": 0.8},
    }
    (folder / "record.json").write_text(json.dumps(record))
    rows = [
        {"title": "Asked for" if n == 0 else "", "tokens": tokens, "human": human, "sensitivity": sensitivity, "r": r}
        for n, (tokens, human, r) in enumerate(zip(TOKENS, HUMAN, R[method], strict=True))
    ]
    (folder / "strips.json").write_text(json.dumps({"version": 1, "sentences": rows, **changes}))
    return folder / "strips.json"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    facts = {"version": 1, "name": "words", "columns": [{"name": "test", "of": ["test"]}], "methods": ["XE", "FCL"]}
    (tmp_path / "experiment.json").write_text(json.dumps({**facts, "groups": [["XE", "FCL"]]}))
    write(tmp_path, "XE", 0, [1.0, 2.0, 4.0])
    write(tmp_path, "FCL", 0, [0.0, 2.0, 1.0])
    write(tmp_path, "FCL", 1, [3.0, 3.0, 0.0])
    return tmp_path


def test_rows_are_relative_and_averaged_over_seeds(home: Path) -> None:
    (results,) = load_results(home)
    first = chosen_strips(results, ["XE", "FCL"])[0]
    assert first.title == "Asked for" and first.tokens == ("a", "good", "film")
    assert first.rows["human"] == (0, 1, 0)
    assert first.rows["XE"] == (0.25, 0.5, 1) and first.rows["FCL"] == (0.5, 1, 0.25)
    assert first.caption == "Asked for: r XE .10, FCL .30"


def test_the_largest_gains_and_losses_follow(home: Path) -> None:
    (results,) = load_results(home)
    titles = [(strip.title, strip.tokens[1]) for strip in chosen_strips(results, ["XE", "FCL"], each=1)]
    assert titles == [("Asked for", "good"), ("FCL gains most", "<bad>"), ("FCL loses most", "fun")]


def test_the_page_shows_them_escaped(home: Path) -> None:
    made = page(load_results(home))
    ElementTree.fromstring(made.removeprefix("<!DOCTYPE html>\n"))
    assert (
        "&lt;bad&gt;" in made and made.count('<figure class="strips">') == 3
    )  # one asked for, which is not shown again, one gains, one loses


def test_without_strips_nothing_is_shown(home: Path) -> None:
    for path in home.rglob("strips.json"):
        path.unlink()
    assert chosen_strips(load_results(home)[0], ["XE", "FCL"]) == []
    assert 'class="strips"' not in page(load_results(home))


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda text: text[:40], "strips.json is damaged or cut short"),
        (
            lambda text: text.replace('"sensitivity"', '"s"'),
            "strips.json is not a Poise strip: KeyError, 'sensitivity'",
        ),
        (lambda text: text.replace('"good", ', ""), "lists of different lengths"),
        (lambda text: text.replace('"good"', '"fine"'), "show different sentences"),
        (lambda text: text.replace('"r": ', '"r": NaN, "_": ', 1), "a number that is not finite"),
    ],
)
def test_what_is_wrong_is_named(damage, sentence: str, home: Path) -> None:
    path = home / "fcl/seed-01/strips.json"
    path.write_text(damage(path.read_text()))
    with pytest.raises(RecordError, match=sentence):
        page(load_results(home))
