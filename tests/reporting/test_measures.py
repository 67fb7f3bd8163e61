"""The experiment's own figures: what no table shows is drawn, from the records alone."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from fake_records import cifar, mnist, path_of

from poise.records.schema import load_results
from poise.reporting.figures.curves import families, measure_galleries
from poise.reporting.figures.svg import Figures
from poise.reporting.page import page

REAL = Path(__file__).parents[2] / "results" / "synthetic-mnist"


def with_measures(folder: Path, more: dict[str, dict[int, dict[str, float]]], watched: str = "") -> Path:
    """Records with {method: {seed: scores}} added."""
    for method, seeds in more.items():
        for seed, scores in seeds.items():
            path = path_of(folder, method, seed)
            record = json.loads(path.read_text())
            record["scores"] |= scores
            for entry in record["log"] if watched else []:
                entry["measures"] = {watched: 0.1 * entry["epoch"]}
            path.write_text(json.dumps(record))
    return folder


def drawn_in(galleries: list[Figures]) -> str:
    return "".join(figure for gallery in galleries for figure in gallery.figures)


def dots(markup: str, kind: str) -> list[float]:
    """The middles of the dots whose title begins so, in their order."""
    tree = ElementTree.fromstring(f"<div>{markup}</div>")
    found = [each for each in tree.iter() if each.tag.endswith("rect") and len(each)]
    return [float(each.get("x", "")) + 2.5 for each in found if (each[0].text or "").startswith(f"{kind}:")]


def test_every_seed_is_a_dot_at_its_value(tmp_path: Path) -> None:
    values = {"XE": (0.2, 0.6), "FCL": (0.4, 0.2)}
    more = {m: {s: {"reach, near": v, "reach, far": 0.3} for s, v in enumerate(row)} for m, row in values.items()}
    (results,) = load_results(with_measures(mnist(tmp_path, 2, ("XE", "FCL")), more))
    assert families(results) == {
        "reach": {"near": {m: list(v) for m, v in values.items()}, "far": {m: [0.3, 0.3] for m in values}}
    }
    drawn = drawn_in(measure_galleries(results, ["XE", "FCL"]))
    left, right = dots(drawn, "XE, near")
    assert left < right and dots(drawn, "FCL, near") == [pytest.approx((left + right) / 2, abs=0.1), left]
    assert dots(drawn, "FCL, far") == [pytest.approx(left + (right - left) / 4, abs=0.1)] * 2
    assert "filled: near; hollow: far" in drawn and ".400, .300" in drawn


def test_a_count_that_all_runs_share_is_not_drawn(tmp_path: Path) -> None:
    more = {"XE": {s: {"sentences, dev": 614.0, "layers": 1.0, "steps": 5.0 + s} for s in range(2)}}
    (results,) = load_results(with_measures(mnist(tmp_path, 2, ("XE",)), more))
    assert families(results) == {"layers": {"": {"XE": [1.0, 1.0]}}, "steps": {"": {"XE": [5.0, 6.0]}}}


def test_levels_of_noise_are_lines_over_the_number_in_the_name(tmp_path: Path) -> None:
    levels = {f"UN/{level}": 0.9 - level / 100 for level in (5, 10, 20)}
    (results,) = load_results(with_measures(mnist(tmp_path, 1, ("XE",)), {"XE": {0: levels}}))
    drawn = drawn_in(measure_galleries(results, ["XE"]))
    path = next(part for part in drawn.split('d="M') if 'class="mean s0"' in part.partition(">")[0]).partition('"')[0]
    points = [tuple(map(float, point.split())) for point in path.split("L")]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x0 < x1 < x2 and y0 < y1 < y2  # down the page
    assert (x2 - x1) / (x1 - x0) == pytest.approx(2, abs=0.02) == (y2 - y1) / (y1 - y0)
    assert families(results) == {}


def test_what_was_watched_is_drawn_over_epochs(tmp_path: Path) -> None:
    (results,) = load_results(with_measures(mnist(tmp_path, 1, ("XE",)), {"XE": {0: {}}}, watched="reach"))
    watched = measure_galleries(results, ["XE"])[-1]
    assert watched.title == "Measured after every epoch" and "reach over epochs of XE" in drawn_in([watched])
    assert "<summary>Measured after every epoch</summary>" in page([results])


def test_where_tables_show_everything_there_is_nothing_to_draw(tmp_path: Path) -> None:
    for folder in (mnist(tmp_path, 2), cifar(tmp_path, seeds=1)):
        (results,) = load_results(folder)
        assert measure_galleries(results, list(results.runs)) == []


def test_the_page_of_the_committed_records_has_them() -> None:
    shown = page(load_results(REAL))
    ElementTree.fromstring(shown.removeprefix("<!DOCTYPE html>\n"))
    for title in ("Figures of the experiment", "Accuracy over levels of NUN", "corner utility of XE, FCL"):
        assert title in shown
