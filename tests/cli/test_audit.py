"""`poise audit`, run in process: what it prints and writes, exit codes; and Ctrl-C in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from audit_command import poise
from safetensors.torch import save_file

from poise.cli import main as cli

CODE = """
import time, torch
def network(seed=0, slow=0.0):
    torch.manual_seed(seed)
    class Slow(torch.nn.Flatten):
        def forward(self, x):
            if slow:
                with open("batches", "a") as passes:
                    passes.write(".")
                    time.sleep(30 if passes.tell() > 31 else slow)  # Ctrl-C comes before that is over
            return super().forward(x)
    return torch.nn.Sequential(Slow(), torch.nn.Linear(1200, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
def other():
    return network(1)
def slow():
    return network(0, 0.001)
class NoGrad(torch.nn.Sequential):
    @torch.no_grad()
    def forward(self, x):
        return super().forward(x)
def blind():
    return NoGrad(*network())
def asking(where):
    return network()
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    draw = np.random.default_rng(0)
    x, y = draw.integers(0, 256, (60, 20, 20, 3), dtype=np.uint8), np.arange(60) % 3
    np.savez(tmp_path / "test.npz", x=x, y=y, site=np.array(["north", "south"] * 30))
    (tmp_path / "nets.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


FEW = ("--data", "test.npz", "--examples", "40", "--corruptions", "fog,gaussian_noise", "--probes", "4")


def test_one_model(home: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("poise.cli.progress.FIRST", 0)
    assert poise(monkeypatch, "nets.py:network", *FEW, "--fail-if", "noise_accuracy<0") == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("nets.py:network on test.npz, 40 examples\n") and "audit/index.html" in shown.out
    facts = json.loads((home / "audit" / "audit.json").read_text())
    assert facts["examples"] == 40 and facts["settings"]["corruptions"] == ["fog", "gaussian_noise"]
    assert {entry["value"] for entry in facts["slices"] if entry["column"] == "site"} == {"north", "south"}
    assert "of 40 examples" in shown.err
    conditions = ("--fail-if", "noise_accuracy<1.1", "--fail-if", "accuracy>2")
    end = poise(monkeypatch, "nets.py:network", *FEW, *conditions, "--quiet")
    assert end == "poise: failed: nets.py:network: noise_accuracy<1.1" and capsys.readouterr().err == ""


@pytest.mark.miniature
def test_two_models(home: Path, monkeypatch, capsys) -> None:
    words = ("nets.py:network", "nets.py:other", *FEW, "--out", "both", "--json")
    assert poise(monkeypatch, *words) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((home / "both" / "comparison.json").read_text())
    assert printed["models"] == list(words[:2])
    facts = json.loads((home / "both" / "comparison.json").read_text())
    assert "accuracy" in facts["differences"] and (home / "both" / "2" / "audit.json").is_file()
    assert "Which model is better at what" in (home / "both" / "index.html").read_text()
    beside = ("--beside", "both/1", "--reference", "nets.py:other", "--out", "third")
    assert poise(monkeypatch, "nets.py:network", *FEW, *beside) == 0
    assert "TeacherUtility" in (home / "third" / "audit.json").read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nowhere", *FEW), "no model found at 'nowhere'"),
        (("nets.py:network", "--data", "none.npz"), "none.npz cannot be read"),
        (("nets.py:network", "--data", "words.tsv"), "need a tokenizer"),
        (("nets.py:network", *FEW, "--slice", "when"), "no column is called 'when': the columns are site"),
        (("nets.py:network", *FEW, "--out", "taken"), "taken contains other files"),
        (("nets.py:network", *FEW, "--sentence", "a b"), "--sentence needs --data with sentences"),
        (("nets.py:network", *FEW, "--head", "7"), "has no layer '7'"),
        (("nets.py:blind", *FEW), "the model gives no gradients"),
        (("nets.py:asking", *FEW), "nets.py:asking raised TypeError: asking() missing 1 required"),
        (("nets.py:network", "nets.py:other", *FEW, "--out", "single"), "single contains an audit of one model"),
        (("nets.py:network", "--data", "words.tsv", "--sentence", " "), "--sentence is empty"),
        (("nets.py:network", "--data", "objects.npz"), "objects.npz cannot be read: it is damaged, or contains Python"),
        (("nets.py:network", "--data", "none_of_it.npz"), "none_of_it.npz has no examples"),
        (("nets.py:network", "--data", "short.npz"), "short.npz has 3 labels for 4 examples"),
        (("nets.py:network", "--data", "large.npz"), "nets.py:network does not accept images [3, 24, 24]"),
        (("nets.py:network", "--data", "many.npz"), "has label 9, but the model has 3 classes"),
    ],
)
def test_a_failure_is_one_sentence_and_writes_nothing(home, monkeypatch, words: tuple[str, ...], sentence: str) -> None:
    (home / "words.tsv").write_text("text\tlabel\na\t1\n")
    (home / "taken").mkdir()
    (home / "single").mkdir()
    (home / "single" / "audit.json").write_text("{}")
    np.savez(home / "objects.npz", x=np.zeros((4, 20, 20, 3), np.uint8), y=np.arange(4) % 3, who=np.array([None] * 4))
    np.savez(home / "none_of_it.npz", x=np.zeros((0, 20, 20, 3), np.uint8), y=np.arange(0))
    np.savez(home / "short.npz", x=np.zeros((4, 20, 20, 3), np.uint8), y=np.arange(3))
    (home / "taken" / "x").write_text("")
    np.savez(home / "large.npz", x=np.zeros((4, 24, 24, 3), np.uint8), y=np.arange(4) % 3)
    np.savez(home / "many.npz", x=np.zeros((10, 20, 20, 3), np.uint8), y=np.arange(10))
    end = poise(monkeypatch, *words)
    assert str(end).startswith("poise: ") and sentence in str(end) and "\n" not in str(end)
    assert not (home / "audit").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("nets.py:network",),
        ("nets.py:network", *FEW, "--fail-if", "accuracy"),
        ("nets.py:network", *FEW, "--corruptions", "smoke"),
        ("a", "b", "c", *FEW),
        ("nets.py:network", *FEW, "--device", "tpu"),
        ("nets.py:network", *FEW, "--weights", "a", "--weights", "b"),
        ("nets.py:network", *FEW, "--seed", "-1"),
        ("nets.py:network", *FEW, "--normalize", "imagnet"),
        ("nets.py:network", *FEW, "--strength", "0"),
        ("nets.py:network", *FEW, "--strength", "nan"),
        ("nets.py:network", "--data", "words.tsv", "--strength", "1.5"),
    ],
)
def test_a_wrong_call_is_exit_code_2(home, monkeypatch, capsys, words: tuple[str, ...]) -> None:
    assert poise(monkeypatch, *words) == 2
    assert "Usage:" in capsys.readouterr().err and not (home / "audit").exists()


def test_a_condition_on_what_was_not_measured_is_exit_code_2(home, monkeypatch, capsys) -> None:
    """It is said before the model is even looked for."""
    for condition in ("blur_accuracy<1", "acuracy<1"):
        assert poise(monkeypatch, "nowhere.py:network", *FEW, "--fail-if", condition) == 2
        assert "will not be measured" in capsys.readouterr().err
    words = ("nowhere.py:network", "--data", "words.tsv", "--fail-if", "noise_accuracy<1")
    assert poise(monkeypatch, *words) == 2 and not (home / "audit").exists()


@pytest.mark.miniature
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_ctrl_c_and_its_kin_write_what_was_measured(name: str, home: Path) -> None:
    words = ["nets.py:slow", "--data", "test.npz", "--examples", "60", "--corruptions", "none"]
    command = [sys.executable, "-m", "poise", "audit", *words]
    env = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    try:
        for _ in range(600):
            if (home / "batches").exists() and len((home / "batches").read_text()) > 30:
                break
            time.sleep(0.05)
        process.send_signal(signal.Signals[name])
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, err
    facts = json.loads((home / "audit" / "audit.json").read_text())
    assert not facts["complete"] and 2 <= facts["examples"] < 60
    assert "interrupted after" in err and "(interrupted)" in out


def test_a_place_that_cannot_be_written_is_said_first(home: Path, monkeypatch) -> None:
    """Before the model is made: its code would leave a mark."""
    (home / "marks.py").write_text("open('ran', 'w').close()\nfrom nets import network\n")
    end = poise(monkeypatch, "marks.py:network", *FEW, "--out", "test.npz/below")
    assert end == "poise: test.npz/below: Not a directory; choose another --out"
    assert not (home / "ran").exists()


def test_a_disk_that_fills_up_has_no_part_of_an_audit(home: Path, monkeypatch) -> None:
    """64 kB hold the numbers, and not the page."""
    out = home / "disk"
    out.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(out)]
    if subprocess.run(mount, check=False, stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("only root may mount a small disk")
    try:
        end = str(poise(monkeypatch, "nets.py:network", *FEW, "--out", "disk"))
        assert end.endswith("No space left on device; free some space, or choose another --out") and ".part" not in end
        assert not list(out.iterdir())
    finally:
        subprocess.run(["umount", str(out)], check=True)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("nets.py:network", "--fail-if", "nonsense"), 2, "invalid condition 'nonsense': write it as"),
        (("net.safetensors", "--network", "LeNet"), 1, "invalid network 'LeNet': write it as LeNet(num_classes=10)"),
    ],
)
def test_a_wrong_word_is_a_sentence_without_asserts(home: Path, words, code: int, sentence: str) -> None:
    """Under python -O there are none."""
    save_file({"weight": torch.zeros(1)}, home / "net.safetensors")
    env = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])}
    command = [sys.executable, "-O", "-m", "poise", "audit", *words, "--data", "test.npz"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == code and sentence in done.stderr and "Traceback" not in done.stderr
