"""--baseline: what became worse is found, with and without the examples of the earlier audit, and nothing else is."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from audit_command import NETS, poise, quarters

from poise.auditing.baseline import _change
from poise.auditing.estimates.numbers import proportion
from poise.reporting.directions import better

WORDS = ("--data", "quarters.npz", "--corruptions", "gaussian_noise", "--probes", "2", "--quiet")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    quarters(tmp_path / "quarters.npz")
    (tmp_path / "nets.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    return tmp_path


def test_a_worse_model_fails_with_a_sentence_for_each_number(home: Path, monkeypatch, capsys) -> None:
    assert poise(monkeypatch, "nets.py:net", *WORDS, "--out", "good") == 0
    (home / "alone").mkdir()
    shutil.copy(home / "good" / "audit.json", home / "alone")
    for place, how in (("good/audit.json", "on the same examples"), ("alone", "from the two intervals")):
        capsys.readouterr()
        assert poise(monkeypatch, "nets.py:worse", *WORDS, "--out", "bad", "--baseline", place) == 1
        said = capsys.readouterr().err.splitlines()
        assert all(line.startswith("poise: worse than ") for line in said)
        (line,) = [line for line in said if "noise accuracy fell from 1.000 to 0." in line]
        assert line.endswith(f"{how})")
        assert poise(monkeypatch, "nets.py:net", *WORDS, "--out", "bad", "--baseline", place) == 0
        assert "no number is significantly worse than in " in capsys.readouterr().err
    assert poise(monkeypatch, "nets.py:net", *WORDS, "--out", "bad", "--strength", "0.3", "--baseline", "good") == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--baseline", "none.json"), "none.json cannot be read"),
        (("--baseline", "nets.py"), "nets.py is damaged or cut short"),
        (("--baseline", "list.json"), "list.json is not a Poise audit"),
        (("nets.py:worse", "--baseline", "other.json"), "pass one model"),
        (("--baseline", "other.json"), "it is an audit on other.npz, not on quarters.npz"),
        (("--baseline", "empty.json"), "it has no number that this audit measured in the same way"),
    ],
)
def test_a_baseline_that_does_not_fit_is_exit_code_2(home: Path, monkeypatch, capsys, words, sentence: str) -> None:
    (home / "list.json").write_text("[]")
    facts = {"version": 1, "model": {}, "data": {"name": "other.npz"}, "numbers": {}, "settings": {}}
    (home / "other.json").write_text(json.dumps(facts))
    numbers = {"accuracy": {"value": "high", "low": None}}
    (home / "empty.json").write_text(json.dumps({**facts, "data": {"name": "quarters.npz"}, "numbers": numbers}))
    assert poise(monkeypatch, "nets.py:net", *words, *WORDS) == 2
    assert sentence in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_what_has_no_better_direction_is_not_compared() -> None:
    assert [better(name) for name in ("noise_accuracy", "calibration_error", "near_accuracy_drop")] == [1, -1, -1]
    assert not any(better(name) for name in ("far_accuracy", "far_accuracy_drop", "near_gain", "rank_correlation"))


@pytest.mark.parametrize("together", [True, False])
def test_false_alarms_are_as_rare_as_promised(together: bool) -> None:
    """One model twice on 300 pairs of samples, then 15 points less: 5 % and nearly all, with and without pairing."""
    draw = np.random.default_rng(0)

    def p_value(accuracy: float) -> float:
        one, other = (draw.random(200) < 0.9).astype(float), (draw.random(200) < accuracy).astype(float)
        before, after = ({"numbers": {"accuracy": proportion(right).as_dict()}} for right in (one, other))
        rows = [{"accuracy": right} for right in (other, one)] if together else [{}, {}]
        change = _change("accuracy", after, before, *rows)
        assert change.paired == together and change.change[0] == pytest.approx(other.mean() - one.mean())
        return change.p

    assert np.mean([p_value(0.9) < 0.05 for _ in range(300)]) <= 0.08
    assert np.mean([p_value(0.75) < 0.05 for _ in range(300)]) >= 0.9
