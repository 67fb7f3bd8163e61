"""The tables of results/ are, to the last digit, those that its records gave when each was a file of its own.

tables.json was written from that tree, by this file as a script. A folder that gets new runs is written anew.

documents  by folder: every document below it, with every digit
tables     by experiment: every cell; intervals and p values to six digits, as scipy's last ones are not always the same
sweeps     by sweep: the values and scores of all trials, best first
"""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from poise.io.documents import documents, text_of
from poise.records.schema import EXPERIMENT, SWEEP, load_results
from poise.reporting.sweep_page import load_sweep
from poise.reporting.table_formats import FORMATS
from poise.reporting.tables import tables_of

RESULTS = Path(__file__).parents[2] / "results"
BEFORE = Path(__file__).with_name("tables.json")


def homes(name: str) -> list[Path]:
    """The folders of experiments, or of sweeps."""
    return sorted(path.parent for path in RESULTS.rglob(name) if "trials" not in path.parts)


def digest(content: Any) -> str:
    return sha256(json.dumps(content).encode()).hexdigest()


def held(folder: Path) -> str:
    paths = documents(folder, "**/*.json")
    return digest([(path.relative_to(folder).as_posix(), json.loads(text_of(path))) for path in paths])


def table(folder: Path) -> str:
    (results,) = load_results(folder)
    return digest([[cell(each) for each in held["cells"]] for held in json.loads(FORMATS["json"](tables_of(results)))])


def cell(found: dict[str, Any]) -> dict[str, Any]:
    rounded = {name: f"{found[name]:.6g}" for name in ("low", "high", "p", "holm") if found[name] is not None}
    return {**found, **rounded}


def sweep(folder: Path) -> str:
    return digest(
        [(dict(trial.values), sorted(trial.scores.items()), trial.failed) for trial in load_sweep(folder).trials]
    )


def by_folder(folders: list[Path], told: Callable[[Path], str]) -> dict[str, str]:
    return {folder.relative_to(RESULTS).as_posix(): told(folder) for folder in folders}


KINDS: dict[str, Callable[[], dict[str, str]]] = {
    "documents": lambda: by_folder(
        [each for each in sorted(RESULTS.iterdir()) if each.is_dir() and each.name != "benchmarks"], held
    ),
    "tables": lambda: by_folder(homes(EXPERIMENT), table),
    "sweeps": lambda: by_folder(homes(SWEEP), sweep),
}


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.miniature) for kind in KINDS])
def test_all_is_as_it_was_in_loose_files(kind: str) -> None:
    before, now = json.loads(BEFORE.read_text())[kind], KINDS[kind]()
    assert len(before) > 10 and before == {name: now.get(name) for name in before}


if __name__ == "__main__":
    BEFORE.write_text(json.dumps({kind: made() for kind, made in KINDS.items()}, indent=1) + "\n")
