"""`poise evaluate`, run in process: its numbers against an independent recomputation, resumption, and its sentences."""

import csv
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
from PIL import Image
from safetensors.torch import save_file

from poise.cli import main as cli
from poise.corruptions.corrupt import Corruption
from poise.corruptions.draws import Random

CODE = """
import time, torch
from torch import nn

class Linear(nn.Module):
    def __init__(self, seed=0, channels=3, classes=4, slow=0.0):
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(torch.randn(classes, channels * 32 * 32, generator=draw) / 30)
        self.slow = slow
    def forward(self, x):
        time.sleep(self.slow)
        return {"logits": (x - 0.5).flatten(1) @ self.weight.T}

def one(): return Linear(0)
def two(): return Linear(1)
def grey(): return Linear(2, 1)
def few(): return Linear(3, classes=3)
def slow(): return Linear(0, slow=0.3)
def other():
    def fail(*_): raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")
    found = Linear(0); found.forward = fail; return found
class Half(Linear):
    def forward(self, x):
        logits = super().forward(x)["logits"]
        return logits / logits.new_tensor(0.0)
def broken(): return Half(0)
"""
FOG = ("--corruption", "fog", "--corruption", "pixelate")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    draw = np.random.default_rng(0)
    x, y = draw.integers(0, 256, (30, 32, 32, 3), dtype=np.uint8), np.arange(30) % 4
    np.savez(tmp_path / "test.npz", x=x, y=y, site=np.array(["north", "south", "south"] * 10))
    (tmp_path / "nets.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("POISE_DATA", str(tmp_path / "cache"))
    return tmp_path


def poise(monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    """Run the command; returns its exit code, or the sentence it ends with."""
    monkeypatch.setattr(sys, "argv", ["poise", "evaluate", *words])
    with pytest.raises(SystemExit) as end:
        cli.run()
    return end.value.code


def record(out: Path, name: str) -> dict:
    return json.loads((out / name / "evaluation.json").read_text())


def recomputed(home: Path, corruption: str, severity: int, rows: list[int], seed: int = 0) -> np.ndarray:
    """Logits [N, 4] in float64 of `Linear(0)`, image by image, in numpy."""
    x = np.load(home / "test.npz")["x"]
    weight = (torch.randn(4, 3072, generator=torch.Generator().manual_seed(0)) / 30).double().numpy()
    logits = []
    for row in rows:
        pixels = torch.from_numpy(x[row]).permute(2, 0, 1)[None]
        if severity:
            setting = Corruption(corruption, "cifar")
            draws = setting.draw(Random(seed, f"{corruption}/{severity}", torch.tensor([row])), pixels, severity)
            pixels = setting.apply(pixels, severity, draws)
        logits.append(weight @ (pixels.double().numpy() / 255 - 0.5).reshape(-1))
    return np.array(logits)


def by_hand(logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    confidence, right = p.max(1), p.argmax(1) == labels
    ece = 0.0
    for b in range(15):
        held = (confidence > b / 15) & (confidence <= (b + 1) / 15)
        ece += abs((right[held] - confidence[held]).sum()) / len(labels)
    own = p[np.arange(len(labels)), labels]
    brier = ((p - np.eye(4)[labels]) ** 2).sum(1)
    return {"accuracy": right.mean(), "nll": -np.log(own).mean(), "brier": brier.mean(), "ece": ece}


def test_numbers_equal_an_independent_recomputation(home: Path, monkeypatch, capsys) -> None:
    words = ("nets.py:one", "--data", "test.npz", *FOG, "--severity", "2", "--severity", "5", "--seed", "3")
    assert poise(monkeypatch, *words, "--examples", "20", "--json", "--quiet") == 0
    (found,) = json.loads(capsys.readouterr().out)["models"]
    rows = sorted(np.random.default_rng(3).permutation(30)[:20].tolist())
    labels = np.load(home / "test.npz")["y"][rows]
    clean = recomputed(home, "clean", 0, rows)
    for name, value in by_hand(clean, labels).items():
        assert found["clean"][name]["value"] == pytest.approx(value, rel=1e-5), name
    right = {}
    for corruption in ("fog", "pixelate"):
        for severity in (2, 5):
            logits = recomputed(home, corruption, severity, rows, seed=3)
            cell = found["tests"][corruption][str(severity)]
            for name, value in by_hand(logits, labels).items():
                held = cell[name]["value"] if name == "accuracy" else cell[name]
                assert held == pytest.approx(value, rel=1e-5), (corruption, severity, name)
            assert cell["flip"] == pytest.approx((logits.argmax(1) != clean.argmax(1)).mean())
            right[corruption, severity] = logits.argmax(1) == labels
    mean = np.mean(list(right.values()), axis=0)
    assert found["means"]["measured"]["accuracy"]["value"] == pytest.approx(mean.mean())
    worst = min(mean[labels == label].mean() for label in range(4))
    assert found["means"]["measured"]["worst class"]["value"] == pytest.approx(worst)


def test_two_models_are_compared_on_the_same_examples(home: Path, monkeypatch, capsys) -> None:
    words = ("nets.py:one", "nets.py:two", "--data", "test.npz", *FOG, "--group", "site", "--out", "both")
    assert poise(monkeypatch, *words) == 0
    shown = capsys.readouterr().out
    assert "nets.py:one" in shown and shown.rstrip().endswith("both/index.html")
    (pair,) = json.loads((home / "both/comparisons.json").read_text())["rows"]
    one, two = record(home / "both", "nets.py-one"), record(home / "both", "nets.py-two")
    for kind, numbers in (("clean", lambda r: r["clean"]), ("corrupted", lambda r: r["means"]["measured"])):
        gap = numbers(one)["accuracy"]["value"] - numbers(two)["accuracy"]["value"]
        assert pair[kind]["value"] == pytest.approx(gap) and pair[kind]["low"] <= gap <= pair[kind]["high"]
    assert one["means"]["measured"]["worst site"]["name"] in ("north", "south")
    page = (home / "both/index.html").read_text()
    assert "nets.py:two" in page and "<script" not in page and "Reliability" in page
    with (home / "both/results-cifar10-c.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    best = max(one, two, key=lambda r: r["means"]["measured"]["accuracy"]["value"])
    assert rows[0]["model"] == best["model"]["name"]
    assert float(rows[0]["top1"]) == pytest.approx(100 * best["means"]["measured"]["accuracy"]["value"], abs=1e-3)


def test_it_continues_with_what_is_missing(home: Path, monkeypatch) -> None:
    words = ("nets.py:one", "--data", "test.npz", *FOG, "--quiet")
    assert poise(monkeypatch, *words) == 0
    tests = home / "evaluation/nets.py-one/tests"
    before = {path: path.stat().st_mtime_ns for path in tests.iterdir()}
    first = record(home / "evaluation", "nets.py-one")
    (tests / "fog-1.safetensors").unlink()
    content = bytearray((tests / "fog-2.safetensors").read_bytes())
    content[-1] ^= 1
    (tests / "fog-2.safetensors").write_bytes(content)
    assert poise(monkeypatch, *words) == 0
    again = [path.name for path in tests.iterdir() if path.stat().st_mtime_ns != before[path]]
    assert sorted(again) == ["fog-1.safetensors", "fog-2.safetensors"]
    assert record(home / "evaluation", "nets.py-one")["tests"] == first["tests"]
    end = poise(monkeypatch, "nets.py:one", "--data", "test.npz", "--seed", "1", *FOG)
    assert "evaluation holds another evaluation (seed: 0, not 1)" in str(end)
    end = poise(monkeypatch, "nets.py:two", "--name", "nets.py:one", "--data", "test.npz", *FOG)
    assert "holds outcomes of another model called nets.py:one" in str(end)


@pytest.mark.miniature
def test_a_kill_loses_at_most_the_set_under_way(home: Path, monkeypatch) -> None:
    words = ["evaluate", "nets.py:slow", "--data", "test.npz", "--corruption", "fog", "--batch", "30", "--quiet"]
    command = [sys.executable, "-m", "poise", *words]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])}) as running:
        tests, last = home / "evaluation/nets.py-slow/tests", time.monotonic() + 100
        while len(list(tests.glob("*.safetensors"))) < 3 and time.monotonic() < last:
            time.sleep(0.02)
        running.send_signal(signal.SIGKILL)
    held = {path.name: path.stat().st_mtime_ns for path in tests.glob("*.safetensors")}
    assert 3 <= len(held) < 6
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    assert poise(monkeypatch, *words[1:]) == 0
    assert {name: (tests / name).stat().st_mtime_ns for name in held} == held
    assert len(list(tests.iterdir())) == 6 and record(home / "evaluation", "nets.py-slow")["tests"]["fog"]["5"]


def test_published_arrays_are_used_as_they_are(home: Path, monkeypatch) -> None:
    x, y = (np.load(home / "test.npz")[name] for name in "xy")
    (home / "C").mkdir()
    np.save(home / "C/labels.npy", np.tile(y, 5))
    np.save(home / "C/fog.npy", np.concatenate([np.roll(x, severity, axis=2) for severity in range(5)]))
    words = ("nets.py:one", "--data", "test.npz", "--published", "C", "--quiet")
    assert poise(monkeypatch, *words) == 0
    found = record(home / "evaluation", "nets.py-one")
    assert list(found["tests"]) == ["fog"] and found["settings"]["made"] == "the published files of C"
    assert found["tests"]["fog"]["1"]["accuracy"] == found["clean"]["accuracy"]  # rolled by 0
    assert found["tests"]["fog"]["1"]["flip"] == 0 and found["tests"]["fog"]["4"]["flip"] > 0
    assert poise(monkeypatch, *words[:-1], "--corruption", "snow", "--out", "b").startswith("poise: C/snow.npy cannot")  # type: ignore[attr-defined]


def pictures(folder: Path, sides: tuple[int, ...] = (40, 50)) -> Path:
    draw = np.random.default_rng(1)
    for label in range(4):
        (folder / f"class-{label}").mkdir(parents=True)
        for number, side in enumerate(sides):
            pixels = draw.integers(0, 256, (side, side + number, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"class-{label}/{number}.png")
    return folder


def test_pictures_of_any_size_and_damaged_ones(home: Path, monkeypatch) -> None:
    folder = pictures(home / "photos")
    (folder / "class-1/broken.png").write_bytes(b"\x89PNG no picture")
    words = ("nets.py:one", "nets.py:grey", "--data", "photos", "--size", "32", *FOG, "--severity", "1", "--quiet")
    assert poise(monkeypatch, *words) == 0
    found = record(home / "evaluation", "nets.py-grey")
    assert (
        found["data"]["examples"] == 8
        and "skipped 1 image that could not be read: class-1/broken.png" in found["notes"]
    )
    assert "it takes grey images: it got the luma of the corrupted RGB images" in found["notes"]


def test_published_folders_of_pictures(home: Path, monkeypatch) -> None:
    for corruption in ("fog", "snow"):
        for severity in range(1, 6):
            for label in range(4):
                place = home / f"C/{corruption}/{severity}/n0000000{label}"
                place.mkdir(parents=True)
                Image.new("RGB", (32, 32), (severity * 20, label * 60, 9)).save(place / "a.png")
    assert poise(monkeypatch, "nets.py:one", "--published", "C", "--benchmark", "imagenet-c", "--quiet") == 0
    found = record(home / "evaluation", "nets.py-one")
    assert found["clean"] is None and set(found["tests"]) == {"fog", "snow"} and "mCE" not in found


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nets.py:few",), "has label 3, but the model has 3 classes"),
        (
            ("nets.py:broken",),
            "nets.py:broken on clean, from image 0 on: the logits of image 0 of a batch are not finite",
        ),
        (("nets.py:other",), "too little memory for 2 images at once: choose a smaller --batch"),
        (("nets.py:absent",), "nets.py has no 'absent'"),
        (("nets.py:one", "nets.py:few"), "nets.py:few has 3 classes, nets.py:one has 4: evaluate them one by one"),
        (("nets.py:one", "--group", "place"), "no column is called 'place': the columns are site"),
        (("nets.py:one", "--published", "nowhere"), "nowhere is neither a folder of published corrupted images"),
        (("nets.py:one", "--data", "nowhere"), "no data found at 'nowhere'"),
        (("nets.py:one", "--data", "tiny.npz"), "images of 8 x 8 pixels: CIFAR-10-C needs 16 x 16 or more"),
        (("nets.py:one", "--data", "table.npz"), "an evaluation needs images, grey or RGB"),
        (("hf:somebody/net",), "hf:somebody/net is neither a folder nor in the cache of Hugging Face"),
        (("nets.py:one", "--out", "nets"), "nets contains other files: choose an empty or a new folder with --out"),
    ],
)
def test_what_does_not_fit_gets_a_sentence(words: tuple[str, ...], sentence: str, home: Path, monkeypatch) -> None:
    y = np.arange(4)
    np.savez(home / "tiny.npz", x=np.zeros((4, 8, 8, 3), np.uint8), y=y)
    np.savez(home / "table.npz", x=np.random.default_rng(0).normal(size=(4, 5)), y=y)
    (home / "nets").mkdir()
    (home / "nets/file").touch()
    data = () if "--data" in words else ("--data", "test.npz")
    end = poise(monkeypatch, *words, *data, *FOG, "--quiet")
    assert str(end).startswith("poise: ") and sentence in str(end), end
    assert not (home / "evaluation/comparisons.json").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--benchmark", "cifar-c"), "no benchmark is called 'cifar-c'"),
        (("--corruption", "fogg"), "did you mean 'fog'"),
        (("--severity", "7"), "severity 7 must be one of 1, 2, 3, 4, 5"),
        (("--normalize", "cifar"), "must be none, imagenet or half"),
        (("--name", "a", "--name", "b"), "pass --name once for every model"),
    ],
)
def test_wrong_options_are_usage_errors(words: tuple[str, ...], sentence: str, home: Path, monkeypatch, capsys) -> None:
    assert poise(monkeypatch, "nets.py:one", "--data", "test.npz", *words) == 2
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert sentence in said


@pytest.mark.miniature
def test_a_classifier_of_hugging_face(home: Path, monkeypatch) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 8], "depths": [1, 1], "layer_type": "basic", "num_labels": 4}
    torch.manual_seed(0)
    model = transformers.ResNetForImageClassification(transformers.ResNetConfig(**sizes)).eval()
    model.save_pretrained(home / "net")
    (home / "net/preprocessor_config.json").write_text(
        json.dumps({"size": 48, "image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4]})
    )
    pictures(home / "photos", (48, 48))
    for place in (home / "photos").glob("*/1.png"):
        place.unlink()
    words = ("hf:net", "--data", "photos", "--benchmark", "tiny-imagenet-c", "--corruption", "contrast", "--quiet")
    assert poise(monkeypatch, *words) == 0
    found = record(home / "evaluation", "net")
    assert found["model"]["size"] == 48 and "was published at 64 px" in found["settings"]["made"]
    files = sorted((home / "photos").glob("*/0.png"))
    x = torch.stack([torch.from_numpy(np.array(Image.open(f))).permute(2, 0, 1) for f in files]).float() / 255
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in ([0.4, 0.5, 0.6], [0.2, 0.3, 0.4]))
    with torch.no_grad():
        logits = model((x - mean) / std).logits
    assert found["clean"]["nll"]["value"] == pytest.approx(
        torch.nn.functional.cross_entropy(logits, torch.arange(4)).item(), rel=1e-4
    )


@pytest.mark.parametrize("library", ["torchvision", "timm"])
def test_a_missing_library_is_named(library: str, home: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    save_file({"weight": torch.zeros(1)}, home / "w.safetensors")
    words = (f"{library}:resnet18", "--weights", "w.safetensors", "--data", "test.npz")
    assert str(poise(monkeypatch, *words)).startswith(f"poise: {library} cannot be imported")
