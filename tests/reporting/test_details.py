"""The tables below the main one: a corruption by itself, and where the test sets come from."""

import json
from pathlib import Path

import fake_records

from poise.io.documents import write_json
from poise.records.schema import load_results
from poise.reporting.table_formats import markdown
from poise.reporting.tables import tables_of


def changed(folder: Path, **facts: object) -> None:
    path = folder / "experiment.json"
    write_json(path, {**json.loads(path.read_text()), **facts})


def test_details_are_tables_of_their_own(tmp_path: Path) -> None:
    folder = fake_records.cifar(tmp_path, seeds=2)
    before = tables_of(load_results(folder)[0])
    columns = [{"name": name, "of": [f"{name}/{s}" for s in range(1, 6)]} for name in ("fog", "snow")]
    changed(folder, details={"two of them": columns}, paper={"Other": {"fog": {"mean": 0.5, "std": None}}})
    (results,) = load_results(folder)
    tables = tables_of(results)
    assert [table.name for table in tables] == ["main", "details-1", "seen-1"]
    assert tables[1].title.endswith(": two of them") and [c.name for c in tables[1].columns] == ["fog", "snow"]
    assert [c.ours for c in tables[0].rows[1].cells] == [c.ours for c in before[0].rows[1].cells]
    run = results.runs["FCL"][0].scores
    other = results.runs["FCL"][1].scores
    by_hand = sum(scores[f"fog/{s}"] for scores in (run, other) for s in range(1, 6)) / 10
    cell = next(row for row in tables[1].rows if row.method == "FCL").cells[0]
    assert abs(cell.ours.mean - by_hand) < 1e-12
    assert "two of them" in markdown(tables)


def test_rows_without_any_number_stay_out_of_the_details(tmp_path: Path) -> None:
    folder = fake_records.cifar(tmp_path, seeds=2)
    fog = [{"name": "fog", "of": ["fog/1"]}]
    changed(folder, details={"fog": fog}, methods=["XE", "FCL", "AugMix", "Printed"], groups=[["XE", "FCL"]])
    changed(folder, paper={"Printed": {"fog": {"mean": 0.5, "std": None}}})
    main, details, *_ = tables_of(load_results(folder)[0])
    assert "AugMix" not in [row.method for row in main.rows] and "No finished runs: AugMix" in " ".join(main.notes)
    assert "AugMix" not in (names := [row.method for row in details.rows]) and "Printed" in names


def test_the_caption_says_where_test_sets_come_from(tmp_path: Path) -> None:
    folder = fake_records.cifar(tmp_path, seeds=1)
    for number, path in enumerate(sorted(folder.rglob("record.json"))):
        origin = "the published files" if number == 0 else "generated with seed 0"
        write_json(path, {**json.loads(path.read_text()), "origins": {"corruptions": origin}})
    table = tables_of(load_results(folder)[0])[0]
    assert "corruptions generated with seed 0, the published files" in table.caption
    assert any("test sets (generated with seed 0, the published files)" in note for note in table.notes)
