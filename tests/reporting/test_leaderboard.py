"""`poise leaderboard`: rows of records and of published results, the page, CSV and Parquet."""

import csv
import io
import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from fake_evaluations import THEIRS, evaluated

from poise.cli import main as cli
from poise.errors import RecordError
from poise.io.documents import read_json, write_proved
from poise.records.packing import pack
from poise.reporting.evaluation_page import evaluation_page, finding, leaderboard, summary_of
from poise.reporting.leaderboard import as_parquet, leaderboard_page, rows_as_csv, rows_below


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, clean, corrupted in (("good <b>", 0.9, 0.7), ("bad", 0.8, 0.6)):
        write_proved(tmp_path / name[:3] / "evaluation.json", evaluated(name, clean, corrupted))
    write_proved(tmp_path / "published.json", THEIRS)
    return tmp_path


def test_rows_are_sorted_and_theirs_are_marked(folder: Path) -> None:
    rows = rows_below(folder)
    assert [(row["model"], row["origin"]) for row in rows] == [
        ("AugMix", "published"),
        ("good <b>", "measured"),
        ("bad", "measured"),
    ]
    assert rows[1]["corrupted_low"] == 0.69 and rows[1]["worst_class"] == 0.35 and rows[0].get("corrupted_low") is None
    table = list(csv.DictReader(io.StringIO(rows_as_csv(rows))))
    assert [row["corrupted"] for row in table] == ["0.8882", "0.7", "0.6"] and table[0]["corrupted_low"] == ""


def test_packed_evaluations_give_the_same_rows(folder: Path) -> None:
    write_proved(folder / "set/comparisons.json", {"kind": "comparisons", "rows": []})
    before = rows_below(folder)
    (packed,) = pack(folder)
    assert packed.documents == 3 and sorted(path.name for path in folder.glob("**/*.json")) == ["published.json"]
    assert rows_below(folder) == before and read_json(folder / "set/comparisons.json", "comparisons")["rows"] == []


def test_the_page_says_what_is_whose(folder: Path) -> None:
    page = leaderboard_page(rows_below(folder))
    ElementTree.fromstring(page.partition("\n")[2])
    assert "good &lt;b&gt;" in page and "<script" not in page
    assert "Published results of others (RobustBench, commit 78fcc9e) are theirs" in page
    assert "same examples" not in page
    write_proved(folder / "c/evaluation.json", evaluated("c", 0.7, 0.5, examples=100, labels="b"))
    assert "Not all models were measured on the same examples" in leaderboard_page(rows_below(folder))


def test_parquet_holds_the_same(folder: Path) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import BufferReader, parquet

    rows = rows_below(folder)
    content = as_parquet(rows)
    assert content is not None
    table = parquet.read_table(BufferReader(content)).to_pylist()
    assert [row["corrupted"] for row in table] == [row["corrupted"] for row in rows]


def test_without_pyarrow_the_command_says_so(folder: Path, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr(sys, "argv", ["poise", "leaderboard", str(folder)])
    with pytest.raises(SystemExit) as end:
        cli.run()
    said = capsys.readouterr().out
    assert end.value.code == 0 and "no Parquet file, since pyarrow is missing: pip install" in said
    assert (folder / "leaderboard.html").exists() and (folder / "leaderboard.csv").exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({**THEIRS, "rows": [{"model": "x", "clean": 95.08}]}, "x has an accuracy that is not a number from 0 to 1"),
        ({**THEIRS, "rows": [{"clean": 0.9}]}, "has a row without a model"),
        ({"benchmark": "cifar10-c"}, "its 'mean' is not a str"),
    ],
)
def test_wrong_published_results_are_named(content: dict, sentence: str, tmp_path: Path) -> None:
    write_proved(tmp_path / "published.json", content)
    with pytest.raises(RecordError, match=sentence):
        rows_below(tmp_path)


def test_damaged_and_missing_records_are_named(folder: Path) -> None:
    path = folder / "bad/evaluation.json"
    path.write_text(path.read_text().replace("0.6", "0.9", 1))
    with pytest.raises(RecordError, match="is damaged: its content does not match its checksum"):
        rows_below(folder)
    (folder / "empty").mkdir()
    with pytest.raises(RecordError, match=r"has no evaluation\.json below it"):
        rows_below(folder / "empty")


def test_the_page_of_an_evaluation() -> None:
    records = [evaluated("good <b>", 0.9, 0.7), evaluated("bad", 0.8, 0.6)]
    gap = {"value": 0.1, "low": 0.05, "high": 0.15, "p": 0.001, "holm": 0.002}
    pair = {"one": "good <b>", "other": "bad", "clean": {**gap, "value": -0.1}, "corrupted": {**gap, "holm": 0.3}}
    page = evaluation_page(json.loads(json.dumps(records)), [pair])
    ElementTree.fromstring(page.partition("\n")[2])
    assert "a note on bad" in page and "cat, .340 to .360" in page
    sheet = leaderboard(records)
    assert [row[0] for row in sheet.rows] == ["1. good <b>", "2. bad"]
    said = finding(pair, records[0])
    assert said.startswith("good <b> against bad: less accurate on clean images (-.100")
    assert "no significant difference on corrupted images" in said
    assert ".7000 [.690, .710]" in summary_of(records)
