"""The prediction of hours: its model, in numbers that can be done by hand."""

import sys
from pathlib import Path

import pytest

from benchmarks.imagenet_hours import (
    BEGIN,
    END,
    Cluster,
    decoded_per_core,
    hours,
    main,
    predicted_table,
    section,
    speed,
    step_seconds,
)

MEASURED = Path(__file__).parents[1] / "results" / "benchmarks" / "imagenet-2-cores.json"


def rates(**other: float) -> dict[str, dict[str, float]]:
    found = {
        "decode, 1 core": 300.0,
        "XE, batch 256, synthetic, plain": 1000.0,
        "XE, batch 256, synthetic, engine": 2048.0,
        "XE, batch 256, JPEGs, engine": 9000.0,
        "FCL, batch 256, synthetic, engine": 512.0,
        "FCL, batch 256, JPEGs, engine": 500.0,
        "XE, batch 128, synthetic, engine, no graph": 1280.0,
        "FCL, batch 128, synthetic, engine, no graph": 640.0,
        "XE, batch 16, synthetic, engine, no graph": 160.0,
        "FCL, batch 16, synthetic, engine, no graph": 80.0,
        **other,
    }
    return {name: {"images_per_second": value} for name, value in found.items()}


def test_a_step_is_computing_then_sending() -> None:
    assert step_seconds(rates(), "XE", Cluster(1, 1.0, 0.0, 16, 3.0)) == (pytest.approx(0.5), "the GPU")
    ring = 2 * 7 / 8 * 25_549_352 * 4 / 1e9 + 14 * 1e-5
    eight = Cluster(8, 1e9, 1e-5, 16, 3.0)
    assert step_seconds(rates(), "XE", eight)[0] == pytest.approx(128 / 1280 + ring)
    assert step_seconds(rates(), "FCL", eight)[0] == pytest.approx(128 / 640 + ring + 3 * 7 / 8 * 1024 * 2048 * 4 / 1e9)
    assert step_seconds(rates(), "XE", Cluster(8, 1e12, 0.0, 2, 3.0)) == (pytest.approx(128 / 600), "decoding")


def test_the_nearest_batch_with_or_without_a_graph() -> None:
    assert speed(rates(), "XE", 1024, graph=True) == 2048
    assert speed(rates(), "XE", 16, graph=False) == 160
    compiled = {"XE, batch 256, synthetic, engine, compiled": 3000.0}
    assert speed(rates(**compiled), "XE", 1024, graph=True) == 3000


def test_fcl_costs_as_much_as_xe_for_two_thirds_of_the_run() -> None:
    one = Cluster(1, 1.0, 0.0, 16, 3.0)
    assert hours(rates(), "XE", one) == pytest.approx(90 * 1251 * 0.5 / 3600)
    assert hours(rates(), "FCL", one) == pytest.approx(1251 * (60 * 0.5 + 30 * 2.0) / 3600)


def test_the_grid_is_six_methods_five_times() -> None:
    """One GPU, steps of .5 and 2 s: 2 XE, CL+Gaussian and 2 FCL late, XE+Gaussian at once; for three dollars."""
    xe, late, whole = (1251 * (start * 0.5 + (90 - start) * 2) / 3600 for start in (90, 60, 0))
    grid = 5 * (2 * xe + 3 * late + whole)
    assert f"| {xe:.1f} | {late:.1f} | {grid:,.0f} h | ${3 * grid:,.0f} |" in predicted_table(rates(), 16, 3.0)[2]


def test_a_measurement_that_was_cut_short_is_one_sentence() -> None:
    few = {name: rate for name, rate in rates().items() if "no graph" not in name}
    with pytest.raises(SystemExit, match="no rate of XE by the engine without a graph"):
        section(
            {"rates": few, "jpegs": {"count": 1, "mean_kb": 1.0}, "device": "", "cores": 1, "commit": "", **VERSIONS},
            16,
            3.0,
        )


VERSIONS = {"versions": {"torch": "2"}}


def test_the_page_says_what_is_measured_and_what_predicted() -> None:
    found = {"rates": rates(), "jpegs": {"count": 3000, "mean_kb": 95.0}, "device": "a GPU", "cores": 16, "commit": "x"}
    text = section({**found, "versions": {"torch": "2"}}, 16, 3.0)
    assert "| measured |" in text and "| predicted |" in text and "| 64 GPUs | 16 of 1024 |" in text
    assert BEGIN not in text and END not in text
    assert "Still to be measured: XE, batch 256, JPEGs, plain; FCL, batch 256, JPEGs, plain; " in text
    assert "the speed of the graph, at a batch of 256" in text
    compiled = {"rates": rates(**{"XE, batch 256, synthetic, engine, compiled": 4096.0})}
    assert "the speed of the graph, compiled for XE, at" in section({**found, **compiled, **VERSIONS}, 16, 3.0)


def test_a_core_decodes_as_it_does_while_all_are_at_work() -> None:
    assert decoded_per_core(rates()) == 300
    many = rates(**{"decode, 16 workers": 3200.0, "decode from shards, 16 workers": 4800.0})
    assert decoded_per_core(many) == 200
    assert step_seconds(many, "XE", Cluster(8, 1e12, 0.0, 2, 3.0)) == (pytest.approx(128 / 400), "decoding")


def ended(monkeypatch: pytest.MonkeyPatch, *words: object) -> object:
    monkeypatch.setattr(sys, "argv", ["imagenet_hours.py", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code


def test_a_file_that_is_wrong_is_one_sentence(tmp_path: Path, monkeypatch, capsys) -> None:
    assert ended(monkeypatch, tmp_path / "nowhere.json") == 2
    assert f"error: argument measured: {tmp_path}/nowhere.json is not found" in capsys.readouterr().err
    for content, why in (("{", "Expecting property name"), ("[]", "it has no commit"), ('{"rates": {}}', "it has no")):
        (tmp_path / "x.json").write_text(content)
        end = str(ended(monkeypatch, tmp_path / "x.json"))
        assert end.startswith(f"{tmp_path}/x.json was not written by benchmarks/imagenet.py: ") and why in end


def test_the_page_is_written_between_its_marks_or_left(tmp_path: Path, monkeypatch, capsys) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    monkeypatch.setattr(sys, "argv", ["imagenet_hours.py", str(MEASURED), "--write", str(page)])
    main()
    text = page.read_text()
    assert text == f"before\n{BEGIN}\n\n{capsys.readouterr().out.strip()}\n\n{END}\nafter\n"
    for broken in ("before\nafter\n", f"{END}\n{BEGIN}\n"):
        page.write_text(broken)
        assert "has no marks" in str(ended(monkeypatch, MEASURED, "--write", page))
        assert page.read_text() == broken
