"""results/README.md says of every record what the record says of itself."""

import json
from collections import Counter
from pathlib import Path

from fake_records import mnist, path_of

from docs.results_list import RESULTS, page, row, runs
from poise.io.documents import documents
from poise.records.packing import pack
from poise.records.schema import RECORD

ROWS = json.loads((RESULTS / "sources.json").read_text())["rows"]


def test_the_page_is_that_of_the_script() -> None:
    assert (RESULTS / "README.md").read_text() == page(), "run python docs/results_list.py"


def test_every_run_is_in_one_row() -> None:
    listed = Counter(path for each in ROWS for chosen in each.get("runs", []) for path, _ in runs(RESULTS, chosen))
    assert listed == Counter(documents(RESULTS, f"**/{RECORD}")) and len(listed) >= 2107


def test_there_are_few_files() -> None:
    files = [path for path in RESULTS.rglob("*") if path.is_file() and not path.name.startswith(".")]
    assert len(files) <= 150, "pack the new records: poise pack results"


def test_every_other_file_is_a_row() -> None:
    files = {f"benchmarks/{path.name}" for path in (RESULTS / "benchmarks").iterdir()} | {
        "tests-h200.txt",
        "evaluations/",
    }
    assert files == {each["file"].partition(",")[0] for each in ROWS if "runs" not in each}


def test_a_row_counts_and_dates_its_runs(tmp_path: Path) -> None:
    home = mnist(tmp_path, seeds=2)
    path = path_of(home, "FCL", 1)
    path.write_text(
        json.dumps({**json.loads(path.read_text()), "commit": "1234567+", "started": "2026-11-17T00:00:00"})
    )
    list(pack(home))
    chosen = {"in": [home.name], "others": ["CL*"]}
    source = {"file": "{} of them, {} of FCL", "runs": [chosen, {**chosen, "methods": ["FCL"]}], "command": "`c`"}
    device, days = "NVIDIA H200, torch 2.11.0, Python 3.12.3", "2026-11-15, 2026-11-17"
    cells = ["4 of them, 2 of FCL", "`c`", "abc1234, 1234567+", device, days]
    assert row(tmp_path, source) == cells
    cells[2:4] = ["abc1234, made by hand; the records say 1234567+", "mine"]
    assert row(tmp_path, {**source, "commit": "abc1234, made by hand", "device": "mine"}) == cells
