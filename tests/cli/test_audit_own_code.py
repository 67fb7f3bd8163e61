"""`poise audit` on the models that people have: of one channel, of one logit, compiled, ending in softmax."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from audit_command import facts, poise
from PIL import Image

import poise as poise_package
from poise.cli import progress

CODE = """
import signal, torch
from torch import nn
def grey():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3))
def colour():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3))
class Ending(nn.Module):
    def __init__(self, end, classes=3):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.fc, self.end = nn.Sequential(nn.Flatten(), nn.Linear(1200, 4)), nn.Linear(4, classes), end
    def forward(self, x):
        return self.end(self.fc(self.body(x)))
class Once(nn.Module):
    def __init__(self, end):
        super().__init__()
        self.call = end
    def forward(self, logits):
        return self.call(logits)
def plain():
    return Ending(nn.Identity())
def in_a_dict():
    return Ending(Once(lambda logits: {"logits": logits}))
def compiled():
    return torch.compile(plain())
def log_softmax():
    return Ending(nn.LogSoftmax(1))
def one_logit():
    return Ending(nn.Identity(), classes=1)
def squeezed():
    return Ending(Once(lambda logits: logits.squeeze(1)), classes=1)
class Halves(Ending):
    def __init__(self):
        super().__init__(nn.Identity(), classes=1)
    def embed(self, x):
        return self.body(x)
    def head(self, z):
        return self.fc(z)
def own_halves():
    return Halves()
def stuck():
    try:
        signal.raise_signal(signal.SIGINT)
    except BaseException:
        pass  # as a library does that is interrupted while it is imported
def number():
    return 3
"""
INTERRUPTING = """
import signal, sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == {module!r}:
            sys.meta_path.remove(self)
            try:
                signal.raise_signal(signal.SIGINT)
            except BaseException:
                pass
sys.meta_path.insert(0, Interrupting())
"""
FEW = ("--examples", "30", "--corruptions", "none", "--probes", "4")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    draw = np.random.default_rng(0)
    np.savez(tmp_path / "test.npz", x=draw.integers(0, 256, (30, 20, 20, 3), dtype=np.uint8), y=np.arange(30) % 3)
    (tmp_path / "own.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def test_a_folder_of_greys_for_a_model_of_one_channel(home: Path, monkeypatch) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (12, 20, 20), dtype=np.uint8)
    for number, picture in enumerate(pixels):
        (home / "photos" / f"c{number % 3}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(home / "photos" / f"c{number % 3}" / f"{number:02}.png")
    assert poise(monkeypatch, "own.py:grey", "--data", "photos", *FEW) == 0
    found = facts(home)
    assert found["data"]["shape"] == [1, 20, 20]
    with np.load(home / "audit" / "telling.npz") as arrays:
        shown = pixels[int(Path(found["telling"][0]["source"]).stem)]
        assert np.array_equal((arrays["x_0"][0] * 255).round(), shown)
    assert poise(monkeypatch, "own.py:colour", "--data", "photos", *FEW) == 0
    assert facts(home)["data"]["shape"] == [3, 20, 20]
    assert "does not accept images [3, 20, 20]" in str(
        poise(monkeypatch, "own.py:colour", "own.py:grey", "--data", "photos", "--out", "new")
    )


@pytest.mark.parametrize("name", ["in_a_dict", "compiled"])
def test_what_is_the_same_model_has_the_same_audit(home: Path, monkeypatch, name: str) -> None:
    numbers = []
    for function in ("plain", name):
        assert poise(monkeypatch, f"own.py:{function}", "--data", "test.npz", *FEW) == 0
        numbers.append(facts(home)["numbers"])
    assert numbers[0] == numbers[1]


@pytest.mark.parametrize("name", ["one_logit", "squeezed", "own_halves"])
def test_one_logit_for_two_classes(home: Path, monkeypatch, name: str) -> None:
    """As the same model with the logits 0 and z."""
    with np.load(home / "test.npz") as stored:
        x, y = stored["x"], stored["y"] % 2
    np.savez(home / "two.npz", x=x, y=y)
    assert poise(monkeypatch, f"own.py:{name}", "--data", "two.npz", *FEW) == 0
    scope: dict = {}
    exec(CODE, scope)
    z = scope["one_logit"]()(torch.from_numpy(x).permute(0, 3, 1, 2) / 255).detach()[:, 0]
    found = facts(home)
    assert found["model"]["classes"] == 2 and found["model"]["embedding"] == 4
    assert found["numbers"]["accuracy"]["value"] == pytest.approx(
        float(((z > 0) == torch.from_numpy(y)).float().mean())
    )
    shown = found["telling"][0]
    p = float(z[int(shown["source"].split()[1])].sigmoid())
    assert shown["confidence"] == pytest.approx(max(p, 1 - p), abs=1e-5)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("log_softmax", "own.py:log_softmax: 'fc' is not the model's last layer: the model applies log_softmax to"),
        ("number", "own.py:number must return a torch.nn.Module, got 3"),
    ],
)
def test_what_is_no_classifier_is_said(home: Path, monkeypatch, name: str, sentence: str) -> None:
    end = str(poise(monkeypatch, f"own.py:{name}", "--data", "test.npz", *FEW))
    assert end.startswith(f"poise: {sentence}") and "\n" not in end


def test_a_file_finds_its_own_neighbours(home: Path, monkeypatch) -> None:
    """Two folders with files of the same names, as before and after a change."""
    for place, seed in (("before", 0), ("after", 1)):
        (home / place).mkdir()
        (home / place / "layers_of_mine.py").write_text(f"SEED = {seed}\n")
        body = CODE.replace("torch.manual_seed(0)", "torch.manual_seed(SEED)")
        (home / place / "net_of_mine.py").write_text(f"from layers_of_mine import SEED\n{body}")
    words = [f"{place}/net_of_mine.py:plain" for place in ("before", "after")]
    assert poise(monkeypatch, *words, "--data", "test.npz", *FEW) == 0
    before, after = (json.loads((home / "audit" / n / "audit.json").read_text())["numbers"] for n in "12")
    assert before != after


def run_apart(home: Path, *words: str, **surroundings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "poise", "audit", *words, *FEW, "--quiet"]
    places = [surroundings.get("PYTHONPATH", ""), str(Path(poise_package.__file__).parents[1])]
    where = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}
    return subprocess.run(command, cwd=home, env=where, capture_output=True, text=True, timeout=100, check=False)


def require_one_sentence(ended: subprocess.CompletedProcess[str], home: Path) -> None:
    assert ended.returncode == 130 and ended.stdout == ""
    assert ended.stderr == "poise: interrupted before anything was measured; nothing was written\n"
    assert not (home / "audit").exists()


def test_ctrl_c_while_the_model_is_made(home: Path) -> None:
    require_one_sentence(run_apart(home, "own.py:stuck", "--data", "test.npz"), home)


@pytest.mark.parametrize("module", ["torch", "numpy.exceptions"])
def test_ctrl_c_while_something_is_imported(home: Path, module: str) -> None:
    """Whoever imports it keeps the exception to himself."""
    (home / "early").mkdir()
    (home / "early" / "sitecustomize.py").write_text(INTERRUPTING.format(module=module))
    require_one_sentence(run_apart(home, "own.py:plain", "--data", "test.npz", PYTHONPATH=str(home / "early")), home)


def test_a_terminal_shows_the_time_left_from_the_first_examples_on(monkeypatch, capsys) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    for done, total, shown in ((16, 400, "8/s, 0:48 left"), (4000, 8000, "2,000/s, 0:02 left")):
        clock = iter([0.0, 2.0])
        with monkeypatch.context() as patched:
            patched.setattr(progress.time, "monotonic", lambda clock=clock: next(clock, 2.0))
            with progress.counting("examples") as report:
                report("net", done, total)
        assert f"examples, {shown}" in capsys.readouterr().err


def test_a_misspelt_file_is_told_by_its_own_line(home: Path, monkeypatch) -> None:
    """Not by a line of the import system."""
    (home / "misspelt.py").write_text("import torch\ndef network(:\n    return 3\n")
    (home / "importing.py").write_text("import misspelt\nnetwork = 3\n")
    for name, where in (("misspelt.py", ""), ("importing.py", " (line 1 of importing.py)"), ("misspelt", "")):
        end = str(poise(monkeypatch, f"{name}:network", "--data", "test.npz", *FEW))
        assert end == f"poise: {name} raised SyntaxError{where}: invalid syntax (misspelt.py, line 2)"


def test_slow_work_is_announced(home: Path, monkeypatch, capsys) -> None:
    """The first line comes before the model is loaded, the next before the first examples are measured."""
    monkeypatch.setattr(progress, "FIRST", 0.05)
    (home / "slow.py").write_text(
        "import time\nfrom own import plain\ndef network():\n    time.sleep(0.5)\n    return plain()"
    )
    assert poise(monkeypatch, "slow.py:network", "--data", "test.npz", *FEW) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["loading slow.py:network and test.npz", "slow.py:network: measuring 30 examples"]
    assert poise(monkeypatch, "slow.py:network", "--data", "test.npz", *FEW, "--quiet") == 0
    assert capsys.readouterr().err == ""


TALKING = """
import sys, torch
print("imported")
class Talking(torch.nn.Sequential):
    def forward(self, x):
        print("asked")
        return super().forward(x)
class Leaving(Talking):
    def forward(self, x):
        sys.exit(3)
def network(kind=Talking):
    print("made")
    return kind(torch.nn.Flatten(), torch.nn.Linear(1200, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3))
def leaving():
    return network(Leaving)
def gone():
    sys.exit(3)
def done():
    sys.exit()
"""


def test_what_own_code_prints_is_not_in_the_document(home: Path, monkeypatch, capsys) -> None:
    (home / "talking.py").write_text(TALKING)
    assert poise(monkeypatch, "talking.py:network", "--data", "test.npz", *FEW, "--json") == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["kind"] == "audit"
    assert all(word in said.err for word in ("imported", "made", "asked"))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("gone", "poise: talking.py:gone raised SystemExit (line 17 of talking.py): 3"),
        ("done", "poise: talking.py:done raised SystemExit (line 19 of talking.py)"),
        ("leaving", "poise: the model failed on the data with SystemExit (line 10 of talking.py): 3"),
    ],
)
def test_own_code_that_leaves_is_told(home: Path, monkeypatch, name: str, sentence: str) -> None:
    (home / "talking.py").write_text(TALKING)
    assert poise(monkeypatch, f"talking.py:{name}", "--data", "test.npz", *FEW) == sentence
