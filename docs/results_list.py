"""Writes results/README.md: what is in results/, by which commands, from which commits, on which devices, and when.

python docs/results_list.py            # from results/sources.json and the records

sources.json says what no record does, a row of the table for each object of its "rows":

file      the first cell; each {} becomes the number of runs of the next selection
runs      selections: "in" are folders; "methods" or "others" are patterns of names that are, or are not, among them
command   the second cell
commit, device, when    where the records do not say it, or not all; what they say beyond it is added

and a row of a second table for each of its "removed": records that only the repository's history has.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from poise.io.documents import documents, text_of, write_whole
from poise.records.schema import RECORD

RESULTS = Path(__file__).parents[1] / "results"
COLUMNS = ("file", "command", "commit", "device", "when")
GONE = ("file", "added", "removed", "why")
Facts = Mapping[str, Any]


def page(results: Path = RESULTS) -> str:
    """The whole README."""
    sources = json.loads((results / "sources.json").read_text())
    here = table(COLUMNS, [row(results, each) for each in sources["rows"]])
    gone = table(GONE, [[each[name] for name in GONE] for each in sources["removed"]])
    parts = ["# Results", "", *sources["introduction"], "", *here, "", "## No longer here", ""]
    return "\n".join([*parts, "Records that only the repository's history has.", "", *gone]) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {' | '.join(cells)} |" for cells in rows)]


def row(results: Path, source: Facts) -> list[str]:
    """The cells of a row."""
    chosen = [list(runs(results, each)) for each in source.get("runs", [])]
    records = [record for _, record in (run for each in chosen for run in each)] or benchmark(results / source["file"])
    said = {"commit": commits(records), "device": devices(records), "when": dates(records)}
    cells = {name: source.get(name) or ", ".join(found) for name, found in said.items()}
    if unsaid := [commit for commit in said["commit"] if commit not in cells["commit"]]:
        cells["commit"] += f"; the records say {', '.join(unsaid)}"
    return [source["file"].format(*map(len, chosen)), source["command"], *cells.values()]


def runs(results: Path, selection: Facts) -> Iterator[tuple[Path, Facts]]:
    """The runs of a selection; those of sweeps where it names their folder."""
    for name in selection["in"]:
        for path in documents(results / name, f"**/{RECORD}"):
            record = json.loads(text_of(path))
            if "sweeps" not in path.relative_to(results / name).parts and is_chosen(record["method"], selection):
                yield path, record


def is_chosen(method: str, selection: Facts) -> bool:
    def among(patterns: Iterable[str]) -> bool:
        return any(fnmatchcase(method, pattern) for pattern in patterns)

    return among(selection.get("methods", ["*"])) and not among(selection.get("others", []))


def benchmark(path: Path) -> list[Facts]:
    """What a benchmark has written, if it says where it ran."""
    content = json.loads(path.read_text()) if path.suffix == ".json" else None
    return [content] if isinstance(content, dict) else []


def commits(records: list[Facts]) -> list[str]:
    """The commits, the most frequent one first."""
    return [name for name, _ in Counter(each["commit"] for each in records if each.get("commit")).most_common()]


def devices(records: list[Facts]) -> list[str]:
    found = (each for each in records if {"device", "versions"} <= each.keys())
    return list(dict.fromkeys(f"{each['device']}, {versions(each['versions'])}" for each in found))


def versions(of: Mapping[str, str]) -> str:
    return f"torch {of['torch']}, Python {of['python']}"


def dates(records: list[Facts]) -> list[str]:
    return sorted({each["started"][:10] for each in records if each.get("started")})


def main() -> None:
    ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter).parse_args()
    write_whole(RESULTS / "README.md", page())
    print(RESULTS / "README.md")


if __name__ == "__main__":
    main()
