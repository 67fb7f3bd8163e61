"""`poise advise` as a user runs it: planted data, its files, and a comparison that was killed."""

import json
import os
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from advised import poise, recipe

# The rare class differs from the others, and XE does not find it in this few steps.
WON = """
x = torch.randn(len(y), 4, generator=generator) / 3
x[:, 0] += 3.0 * y
validation = x, y
test = x.clone(), y
epochs, batch_size, learning_rate = 4, 16, 0.02
"""
ONE_SETTING = "poise.advising.budget._SHORT", 2.0  # of each method
EVEN = "validation = test = x, y\nepochs, batch_size, learning_rate = 4, 32, 0.05\n"


def test_adjustment_wins_where_it_must(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(*ONE_SETTING)
    path, out = recipe(tmp_path, "table", (220, 25), WON), tmp_path / "out"
    assert poise(monkeypatch, str(path), "--out", str(out), "--test", "--json", "--quiet") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["data"]["rare"] == [1] and found["finished"] and found["decided"]
    rows = {row["name"]: row for row in found["methods"]}
    chosen = rows[found["chosen"]]
    assert "adjusted" in found["chosen"] or "balanced" in found["chosen"]
    assert chosen["better"] and not chosen["loses"] and chosen["gaps"]["rare"]["low"] > 0
    assert found["sentence"].startswith(f"Use {found['chosen']}. Against cross-entropy: clean ")
    test = found["test"]
    assert test[found["chosen"]]["rare"] > test["XE"]["rare"] + 0.3
    page = (out / "advice.html").read_text()
    assert found["sentence"] in page and "<script" not in page and (out / "frontier.svg").stat().st_size > 1000
    monkeypatch.syspath_prepend(tmp_path)
    trained = runpy.run_path(str(out / "recommended.py"))
    assert trained["loss"].total.isfinite()
    started = time.monotonic()
    assert poise(monkeypatch, str(path), "--out", str(out), "--quiet") == 0
    assert time.monotonic() - started < 20 and found["sentence"] in capsys.readouterr().out
    path.write_text(path.read_text().replace("0.02", "0.03"))
    end = poise(monkeypatch, str(path), "--out", str(out), "--quiet")
    assert end == f"poise: {out} belongs to another version of table.py or of its data: use another --out, or remove it"


def test_cross_entropy_stays_where_nothing_helps(tmp_path: Path, monkeypatch, capsys) -> None:
    """Labels that nothing predicts."""
    more = f"y = torch.randint(2, (80,), generator=generator)\ntrain = x, y\n{EVEN}"
    path = recipe(tmp_path, "table", (40, 40), more)
    assert poise(monkeypatch, str(path), "--out", str(tmp_path / "out"), "--quiet") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Stay with cross-entropy: no method is better beyond its interval.")
    assert "XE *" in shown and "objective = poise.XE()" in shown


@pytest.mark.parametrize("kind", ["pictures", "text"])
def test_other_kinds_of_data(tmp_path: Path, kind: str, monkeypatch, capsys) -> None:
    monkeypatch.setattr(*ONE_SETTING)
    path = recipe(tmp_path, kind, (40, 7), "epochs, batch_size = 1, 20\n")
    assert poise(monkeypatch, str(path), "--out", str(tmp_path / "out"), "--quiet", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["decided"] and {row["seeds"] for row in found["methods"]} == {2, 3, 5}
    monkeypatch.syspath_prepend(tmp_path)
    assert runpy.run_path(str(tmp_path / "out" / "recommended.py"))["loss"].total.isfinite()


def test_too_little_time_is_said(tmp_path: Path, monkeypatch, capsys) -> None:
    path = recipe(tmp_path, "table", (40, 8), "batch_size = 4\n")
    end = poise(monkeypatch, str(path), "--out", str(tmp_path / "out"), "--minutes", "0.01")
    assert "minutes are too few for one epoch of each method here: give --minutes" in str(end)
    assert not (tmp_path / "out" / "plan.json").exists()


def test_a_bad_recipe_is_a_usage_error(tmp_path: Path, monkeypatch, capsys) -> None:
    assert poise(monkeypatch, str(tmp_path / "none.py")) == 2
    path = recipe(tmp_path, "table", (40, 8))
    assert poise(monkeypatch, str(path), "--test") == 2
    assert "does not define test" in " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.miniature
def test_a_killed_comparison_continues(tmp_path: Path) -> None:
    path, out = recipe(tmp_path, "table", (30, 30)), tmp_path / "out"
    command = [sys.executable, "-m", "poise", "advise", str(path), "--out", str(out), "--quiet"]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ)
    while not (kept := list(out.glob("*/*/*/record.json"))) and first.poll() is None:
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.wait()
    before = {record: record.stat().st_mtime_ns for record in kept}
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True, env=os.environ)
    found = json.loads(done.stdout)
    assert found["finished"] and before
    assert all(record.stat().st_mtime_ns == when for record, when in before.items())
