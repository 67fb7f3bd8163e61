"""results/README.md says of every record what the record says of itself."""

import json
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "results"


def test_the_commits_are_those_of_the_records() -> None:
    rows = [
        line.split(" | ") for line in (RESULTS / "README.md").read_text().splitlines() if line.startswith("| bench")
    ]
    named = {row[0].removeprefix("| "): row[2] for row in rows}
    records = {name: json.loads((RESULTS / name).read_text()) for name in named if name.endswith(".json")}
    said = {name: held["commit"] for name, held in records.items() if isinstance(held, dict) and "commit" in held}
    assert len(said) >= 7 and said == {name: named[name] for name in said}
