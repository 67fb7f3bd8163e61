"""Runs that one table cannot hold are not run into one folder."""

from pathlib import Path

import pytest
from fake_records import write_record

from poise.errors import TrainingError
from poise.io.documents import write_json
from poise.records.schema import Record
from poise.running.record import refuse_mixing


@pytest.mark.parametrize("name", ["XE", "FCL"])
def test_two_plans_beside_a_network_that_prints_as_no_python(tmp_path: Path, name: str) -> None:
    def recipe(method: str, epochs: int) -> str:
        return f"Recipe(network=<lambda>(classes=3), plan=Plan(epochs={epochs}), method=Method(name='{method}'))"

    write_json(tmp_path / "xe/seed-00/recipe.json", {"recipe": recipe("XE", 3)})
    refuse_mixing(tmp_path, {name.lower(): recipe(name, 3)})
    with pytest.raises(TrainingError, match=r"another recipe \(there, here\): plan.epochs: 3, 5; use another --out"):
        refuse_mixing(tmp_path, {name.lower(): recipe(name, 5)})


def test_a_seed_that_a_folder_holds_twice_is_refused_as_in_a_table(tmp_path: Path) -> None:
    recipe = "Recipe(plan=Plan(epochs=3))"
    for folder in ("fcl/seed-3", "fcl/seed-03"):
        write_record(tmp_path / folder / "record.json", Record("blobs", "FCL", 3, recipe, {"clean": 0.5}))
    with pytest.raises(TrainingError, match=r"seed-03/record.json and .*seed-3/record.json are both seed 3 of FCL"):
        refuse_mixing(tmp_path, {"fcl": recipe})
