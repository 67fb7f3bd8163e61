"""Records on disk: written whole, read with suspicion, never mixed."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest
from fake_records import RECIPE, cifar, mnist, mnist_record, path_of, write_record

from poise.errors import RecordError
from poise.io.documents import write_json
from poise.records.schema import Record, load_results, read_experiment, read_record


def change(path: Path, **facts: object) -> Path:
    path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))
    return path


def refused(folder: Path, *words: str) -> str:
    with pytest.raises(RecordError) as error:
        load_results(folder)
    assert all(word in str(error.value) for word in words), str(error.value)
    return str(error.value)


def test_a_record_comes_back_as_written(tmp_path: Path) -> None:
    record = Record("e", "FCL", 3, "Recipe()", {"BAL": 0.5}, {"BAL": [[1, 2]]}, log=({"epoch": 1},), commit="abc")
    write_record(tmp_path / "deep" / "record.json", record)
    assert read_record(tmp_path / "deep" / "record.json") == record
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["record.json"]


@pytest.mark.parametrize(
    "facts", [{"seed": 4}, {"scores": {"BAL": 0.25}, "classes": {"BAL": [[1, 4]]}}, {"checksum": None}, {"version": 1}]
)
def test_a_record_that_is_not_what_was_written_is_damaged(tmp_path: Path, facts: dict[str, object]) -> None:
    path = tmp_path / "record.json"
    write_record(path, Record("e", "FCL", 3, "Recipe()", {"BAL": 0.5}, {"BAL": [[1, 2]]}))
    content = {**json.loads(path.read_text()), **facts}
    path.write_text(json.dumps({name: each for name, each in content.items() if each is not None}))
    with pytest.raises(
        RecordError, match=r"record.json is damaged: its content does not match its checksum; run the comma"
    ):
        read_record(path)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"scores": {"BAL": 0.75}}, "its score 'BAL' is 0.75, but its counts say 1 of 2"),
        ({"scores": {}}, "'classes' count 'BAL', which has no score"),
        ({"scores": {"BAL": 0.5, "fog/3": 2.5}}, "its score 'fog/3' is 2.5, not a number between 0 and 1"),
        (
            {"scores": {"BAL": 0.5, "jpeg_compression": -0.1}},
            "'jpeg_compression' is -0.1, not a number between 0 and 1",
        ),
        ({"classes": {"BAL": [[2, 1], [0, 3]]}}, "0 is [2, 1], not a pair of counts"),
        ({"validation": 1.5}, "its 'validation' is 1.5, not a number between 0 and 1"),
    ],
)
def test_numbers_that_cannot_be_are_refused(tmp_path: Path, facts: dict[str, object], words: str) -> None:
    whole = {"experiment": "e", "method": "XE", "seed": 0, "recipe": "", "scores": {"BAL": 0.5}}
    path = tmp_path / "record.json"
    write_json(path, {"version": 1, **whole, "classes": {"BAL": [[1, 2]]}})
    read_record(path)
    with pytest.raises(RecordError) as error:
        read_record(change(path, **facts))
    assert words in str(error.value)


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_json(path, {"a": 1})
    for wrong in (float("nan"), object()):
        with pytest.raises((ValueError, TypeError)):
            write_json(path, {"a": [2, wrong]})
    assert json.loads(path.read_text()) == {"a": 1} and os.listdir(tmp_path) == ["record.json"]


def test_a_write_replaces_the_file_at_once(tmp_path: Path) -> None:
    write_json(tmp_path / "record.json", {"a": 1})
    os.link(tmp_path / "record.json", tmp_path / "reader")  # somebody is still reading the old one
    write_json(tmp_path / "record.json", {"a": 2})
    assert json.loads((tmp_path / "reader").read_text()) == {"a": 1}
    assert json.loads((tmp_path / "record.json").read_text()) == {"a": 2}


def test_all_experiments_below_a_folder(tmp_path: Path) -> None:
    mnist(tmp_path, seeds=3)
    cifar(tmp_path / "more", seeds=2)
    found = {results.experiment.name: results for results in load_results(tmp_path)}
    assert {name: len(results.records) for name, results in found.items()} == {"synthetic-mnist": 9, "cifar-10-c": 12}
    assert list(found["synthetic-mnist"].runs["FCL"]) == [0, 1, 2]
    assert load_results(tmp_path / "synthetic-mnist")[0].experiment == found["synthetic-mnist"].experiment


def test_an_experiment_that_was_run_twice_is_told_apart_by_its_folder(tmp_path: Path) -> None:
    mnist(tmp_path, seeds=2), mnist(tmp_path / "again", seeds=2), cifar(tmp_path, seeds=2)
    found = [results.experiment.title for results in load_results(tmp_path)]
    table = "Synthetic MNIST (Table 1), in "
    assert (
        found[0] == f"{table}again/synthetic-mnist" and found[2] == f"{table}synthetic-mnist" and ", in" not in found[1]
    )


def test_an_experiment_inside_another_keeps_its_records(tmp_path: Path) -> None:
    folder = mnist(tmp_path, seeds=2)
    cifar(folder / "extra", seeds=1)
    assert sorted(len(results.records) for results in load_results(tmp_path)) == [6, 6]


@pytest.mark.parametrize("kept", [0, 1, 100, 2000])
def test_a_truncated_record_is_named(tmp_path: Path, kept: int) -> None:
    path = path_of(mnist(tmp_path), "FCL", 2)
    path.write_text(path.read_text()[:kept])
    sentence = refused(tmp_path, str(path), "damaged or cut short", "`poise run` or `poise reproduce`")
    assert "\n" not in sentence


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = path_of(mnist(tmp_path), "FCL", 2)
    path.write_bytes(b"\xff\xfe\x00{")
    refused(tmp_path, str(path), "damaged")


def test_another_version_is_named(tmp_path: Path) -> None:
    path = change(path_of(mnist(tmp_path), "XE", 0), version=3)
    refused(tmp_path, str(path), "version 3 of the format; this Poise reads 1 and 2")


@pytest.mark.parametrize("content", ["[]", "3", '{"name": "somebody else\'s"}', "null"])
def test_foreign_json_is_named(tmp_path: Path, content: str) -> None:
    path = path_of(mnist(tmp_path), "XE", 0)
    path.write_text(content)
    refused(tmp_path, str(path), "not a Poise record")


@pytest.mark.parametrize(
    "facts",
    [
        {"seed": "3"},
        {"seed": True},
        {"scores": {"BAL": "high"}},
        {"scores": {"BAL": None}},
        {"recipe": None},
        {"log": [3]},
        {"classes": {"BAL": [[1, 2, 3]]}},
        {"classes": {"BAL": [1]}},
        {"classes": {"BAL": [[1, "a"]]}},
        {"classes": {"BAL": 5}},
        {"classes": 5},
        {"log": 5},
        {"log": [{"epoch": 1, "loss": 5}]},
        {"log": [{"epoch": 1, "measures": ["a"]}]},
    ],
)
def test_wrong_kinds_are_named(tmp_path: Path, facts: dict[str, object]) -> None:
    path = change(path_of(mnist(tmp_path), "XE", 0), **facts)
    refused(tmp_path, str(path), "is not a")


def test_a_score_that_is_not_finite(tmp_path: Path) -> None:
    path = change(path_of(mnist(tmp_path), "XE", 0), scores={"BAL": float("nan")})
    refused(tmp_path, str(path), "'BAL' is nan")


def test_a_damaged_experiment_is_named(tmp_path: Path) -> None:
    path = mnist(tmp_path) / "experiment.json"
    change(path, columns=[{"of": ["BAL"]}])
    refused(tmp_path, str(path), "not a Poise experiment", "name")
    change(path, columns=[])
    refused(tmp_path, str(path), "no columns")
    change(path, columns=[{"name": "BAL", "of": ["BAL"]}], paper={"XE": {"BAL": {"mean": "high"}}})
    refused(tmp_path, str(path), "not a Poise experiment", "high")


def test_a_record_of_another_experiment(tmp_path: Path) -> None:
    path = change(path_of(mnist(tmp_path), "XE", 0), experiment="cifar-10-c")
    refused(tmp_path, str(path), "belongs to 'cifar-10-c', but is in a folder of 'synthetic-mnist'")


def test_a_seed_in_the_folder_of_another(tmp_path: Path) -> None:
    mnist(tmp_path, seeds=2)
    change(path_of(tmp_path / "synthetic-mnist", "FCL", 1), seed=7)
    refused(tmp_path, "seed-01", "is of seed 7")


def test_a_seed_twice(tmp_path: Path) -> None:
    folder = mnist(tmp_path)
    write_json(folder / "fcl-again" / "seed-01" / "record.json", mnist_record("FCL", 1))
    refused(tmp_path, "fcl-again", "both seed 1 of FCL")


def test_two_recipes_of_one_method_are_refused_by_their_fields(tmp_path: Path) -> None:
    folder = mnist(tmp_path)
    change(path_of(folder, "FCL", 4), recipe=RECIPE.format(method="FCL", peak=0.01, seed=4))
    sentence = refused(tmp_path, "seed-00", "seed-04", "runs of FCL with two recipes")
    assert sentence.splitlines()[1:] == ["  objective.weight.peak: 0.001, 0.01"]


def test_nothing_there(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "is not there")
    refused(tmp_path, "no experiment.json")
    (tmp_path / "file").write_text("")
    refused(tmp_path / "file", "a file, not a folder")
    mnist(tmp_path, seeds=0)
    refused(tmp_path, "no run has finished yet")


def test_methods_with_two_plans_are_not_put_in_one_table(tmp_path: Path) -> None:
    home = tmp_path / "runs"
    write_json(
        home / "experiment.json",
        {"version": 1, "name": "x", "columns": [{"name": "a", "of": ["a"]}], "methods": ["XE", "FCL"]},
    )
    for method, rate in (("XE", 0.01), ("FCL", 0.02)):
        recipe = f"Recipe(task=Digits(), network=LeNet(), plan=Plan(rate={rate}), method=Method(name='{method}'))"
        write_record(home / method / "seed-00" / "record.json", Record("x", method, 0, recipe, {"a": 0.5}))
    with pytest.raises(
        RecordError, match=r"do not belong in one table; their recipes differ in\n  plan.rate: 0.02, 0.01"
    ):
        load_results(home)


@pytest.mark.parametrize("network", ["<lambda>(classes=3)", "Net(make=<function make at 0x7f01>)"])
def test_two_plans_beside_a_network_that_prints_as_no_python(tmp_path: Path, network: str) -> None:
    home = tmp_path / "runs"
    facts = {"version": 1, "name": "x", "columns": [{"name": "a", "of": ["a"]}], "methods": ["XE", "FCL"]}
    write_json(home / "experiment.json", facts)
    for method, epochs in (("XE", 3), ("FCL", 5)):
        recipe = f"Recipe(task=Digits(), network={network}, plan=Plan(epochs={epochs}), method=Method(name='{method}'))"
        write_record(home / method / "seed-00" / "record.json", Record("x", method, 0, recipe, {"a": 0.5}))
    refused(home, "do not belong in one table; their recipes differ in\n  plan.epochs: 5, 3")


def test_a_task_that_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "runs"
    facts = {"version": 1, "name": "x", "columns": [{"name": "a", "of": ["a"]}], "methods": ["XE", "FCL"]}
    write_json(home / "experiment.json", facts)
    for method, at in (("XE", 1), ("FCL", 2)):
        recipe = f"Recipe(task=<mine.Task object at {at}>, network=LeNet(), method=Method(name='{method}'))"
        write_record(home / method / "seed-00" / "record.json", Record("x", method, 0, recipe, {"a": 0.5}))
    refused(home, "task: <mine.Task object at 2>, <mine.Task object at 1> (not Python: cannot be compared)")


def test_every_field_of_a_column_is_read_back(tmp_path: Path) -> None:
    mnist(tmp_path)
    path = tmp_path / "synthetic-mnist" / "experiment.json"
    column = {"name": "relative error", "of": ["BAL"], "classes": [1, 2], "errors": [0.5], "worst": True}
    content = {**json.loads(path.read_text()), "columns": [column]}
    path.write_text(json.dumps({name: value for name, value in content.items() if name != "checksum"} | {"version": 1}))
    (read,) = read_experiment(path).columns
    assert asdict(read) == {**column, "of": ("BAL",), "classes": (1, 2), "errors": (0.5,)} and read.lower_is_better
