"""The records of results/ are those of the recipes that are here now: a command goes on from them."""

import json
from functools import cache
from pathlib import Path

import pytest

from poise.io.documents import documents, text_of
from poise.recipes import index
from poise.recipes.index import FILES
from poise.running.experiment import Experiment

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.parent for path in (ROOT / "results").glob("*/experiment.json"))


@cache
def experiments() -> dict[str, Experiment]:
    found = [
        index.experiment_from_file(ROOT / "examples" / f"{name}.py") for name in ("taught_digits", "sentiment_cpu")
    ]
    for name in FILES:
        for length in ("full", "compressed"):
            try:
                found += index.find_experiments(name, length)
            except ValueError:
                assert length == "compressed"
    return {each.name: each for each in found}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_records_are_of_today_s_recipes(folder: Path) -> None:
    experiment = experiments()[folder.name]
    assert json.loads((folder / "experiment.json").read_text())["name"] == experiment.name
    recipes = {method.name: repr(experiment.recipe(method)) for method in experiment.methods}
    paths = documents(folder, "*/seed-*/record.json")
    assert paths
    for path in paths:
        record = json.loads(text_of(path))
        assert record["experiment"] == experiment.name and record["recipe"] == recipes[record["method"]], path


@pytest.mark.parametrize("name", FILES)
def test_a_quick_table_says_what_it_is_and_has_no_numbers_of_the_paper(name: str) -> None:
    for quick, full in zip(index.find_experiments(name, "quick"), index.find_experiments(name), strict=True):
        assert quick.notice.startswith("A miniature:") and quick.paper == {} and full.notice == ""
        assert f"The full run, {full.name}, has {full.plan.epochs} epochs and {full.seeds} seeds" in quick.notice
        assert (ROOT / quick.notice.rpartition(" ")[2]).is_file()
