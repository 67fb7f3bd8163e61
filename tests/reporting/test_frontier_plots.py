"""Frontiers on the page: each beside the first, with the gap between their areas."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from poise.records.schema import load_results
from poise.reporting.page import page

CURVES = {"plain": (0.5, 0.6), "chosen": (0.6, 0.7), "alone": (0.4,)}


def write(home: Path, method: str, seed: int, scores: dict[str, float]) -> None:
    folder = home / method.replace(" ", "-") / f"seed-{seed:02d}"
    folder.mkdir(parents=True)
    record = {"version": 1, "experiment": "curves", "method": method, "seed": seed, "recipe": "R()", "scores": scores}
    (folder / "record.json").write_text(json.dumps(record))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    names = [f"{name} {setting}" for name, levels in CURVES.items() for setting in range(1, len(levels) + 1)]
    facts = {
        "version": 1,
        "name": "curves",
        "columns": [{"name": name, "of": [name]} for name in ("noise", "rare")],
        "methods": [*names, "without a setting"],
        "frontier": ["noise", "rare"],
    }
    (tmp_path / "experiment.json").write_text(json.dumps(facts))
    for name, levels in CURVES.items():
        for setting, level in enumerate(levels, 1):
            for seed in range(3):
                scores = {"noise": level + 0.01 * seed, "rare": 1 - level + 0.001 * seed * setting}
                write(tmp_path, f"{name} {setting}", seed, scores)
    write(tmp_path, "without a setting", 0, {"noise": 0.9, "rare": 0.9})
    return tmp_path


def frontiers_of(home: Path) -> list[ElementTree.Element]:
    tree = ElementTree.fromstring(page(load_results(home)).removeprefix("<!DOCTYPE html>\n"))
    return [svg for svg in tree.iter("svg") if (svg.get("aria-label") or "").startswith("Frontier of")]


def test_each_is_drawn_beside_the_first_with_its_gap(home: Path) -> None:
    (figure,) = frontiers_of(home)  # not the first alone, not the one with a single point
    said = " ".join(figure.itertext())
    # by hand, seed by seed: the rectangle of the second point, and the stripe that the first one adds above it
    plain = [(0.6 + 0.01 * s) * (0.4 + 0.002 * s) + (0.5 + 0.01 * s) * (0.1 + 0.001 * s - 0.002 * s) for s in range(3)]
    chosen = [(0.7 + 0.01 * s) * (0.3 + 0.002 * s) + (0.6 + 0.01 * s) * (0.1 + 0.001 * s - 0.002 * s) for s in range(3)]
    gap = sum(b - a for a, b in zip(plain, chosen, strict=True)) / 3
    assert f"area {sum(chosen) / 3:.3f}".replace("0.", ".") in said
    assert f"{gap:+.4f}".replace("0.", ".", 1) in said and "p=" in said.replace("p<", "p=")
    titles = [title.text for title in figure.iter("title")]
    assert titles == ["chosen 1: noise .610, rare .401", "chosen 2: noise .710, rare .302"]


def test_a_page_without_two_such_columns_has_none(home: Path) -> None:
    facts = json.loads((home / "experiment.json").read_text())
    for named in ([], ["noise"], ["noise", "of nothing"]):
        (home / "experiment.json").write_text(json.dumps({**facts, "frontier": named}))
        assert frontiers_of(home) == []
