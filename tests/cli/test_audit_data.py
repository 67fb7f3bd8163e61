"""`poise audit` with data and models that do not go together, with tables, with damaged files, and where it stopped."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from audit_command import facts, poise
from PIL import Image

from poise.cli import main as cli
from poise.cli import progress

CODE = """
import time, torch
def network(classes=3, width=1200, first=None):
    torch.manual_seed(0)
    last = torch.nn.Linear(5, classes)
    return torch.nn.Sequential(first or torch.nn.Flatten(), torch.nn.Linear(width, 5), torch.nn.ReLU(), last)
def other():
    return network(4)
def wider():
    return network(3, 1323)
def table():
    return network(2, 6)
class Moody(torch.nn.Flatten):
    def forward(self, x):
        if len(x) > 4:
            raise KeyError("too many")
        return super().forward(x)
def moody():
    return network(first=Moody())
class Stopping(torch.nn.Flatten):
    def forward(self, x):
        with open("passes", "a") as passes:
            passes.write(".")
            time.sleep(30 if passes.tell() > 31 else 0)  # Ctrl-C comes before that is over
        return super().forward(x)
def stopping():
    return network(first=Stopping())
"""
FEW = ("--examples", "40", "--corruptions", "none", "--probes", "4")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    draw = np.random.default_rng(0)
    np.savez(tmp_path / "test.npz", x=draw.integers(0, 256, (60, 20, 20, 3), dtype=np.uint8), y=np.arange(60) % 3)
    x = draw.normal(0, [1, 10, 100, 1, 1, 1], (80, 6))
    columns = {"features": np.array(list("abcdef")), "site": np.arange(80) % 2}
    np.savez(tmp_path / "table.npz", x=x, y=(x[:, 0] > 0).astype(int), **columns)
    (tmp_path / "nets.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("nets.py:network", "nets.py:wider", "--data", "test.npz"),
            "nets.py:wider does not accept images [3, 20, 20]",
        ),
        (("nets.py:network", "nets.py:other", "--data", "test.npz"), "nets.py:other has 4 classes, nets.py:network"),
        (("nets.py:network", "--reference", "nets.py:wider", "--data", "test.npz"), "nets.py:wider does not accept"),
        (("nets.py:moody", "--data", "test.npz", *FEW), "failed on the data with KeyError (line 16 of nets.py): 'too"),
        (("nets.py:network", "--head", "1", "--data", "test.npz"), "'1' is not the model's last layer"),
        (("nets.py:network", "--data", "table.npz"), "nets.py:network does not accept rows of 6 columns"),
        (("nets.py:table", "--normalize", "half", "--data", "table.npz"), "--normalize applies to images only"),
        (("nets.py:network", "--beside", "nowhere", "--data", "test.npz"), "nowhere"),
        (("nets.py:network", "--sentences", "nowhere", "--data", "test.npz"), "nowhere cannot be read"),
    ],
)
def test_what_does_not_fit_is_said_first(home: Path, monkeypatch, words: tuple[str, ...], sentence: str) -> None:
    end = str(poise(monkeypatch, *words))
    assert end.startswith("poise: ") and sentence in end and "\n" not in end and "split(" not in end
    assert not (home / "audit").exists()


def test_a_table(home: Path, monkeypatch, capsys) -> None:
    """By its rows and the names of its columns, whatever their scale."""
    assert poise(monkeypatch, "nets.py:table", "--data", "table.npz", "--size", "32") == 0
    found = facts(home)
    assert found["data"]["shape"] == [6] and found["examples"] == 80
    assert found["data"]["feature_names"] == list("abcdef")
    assert "c: utility" in (home / "audit" / "index.html").read_text()
    assert found["notes"][0] == "--size has no effect on a table" and "standardizes" in found["notes"][1]
    assert found["telling"][0]["source"].startswith("row ")
    rows = [line.split(",") for line in (home / "audit" / "examples.csv").read_text().splitlines()]
    labels = {row[1]: int(row[2]) for row in rows[1:]}
    with np.load(home / "table.npz") as stored:
        assert labels == {f"row {place}": int(label) for place, label in enumerate(stored["y"])}
    assert poise(monkeypatch, "nets.py:table", "--data", "table.npz", "--fail-if", "noise_accuracy<0.6") == 2
    assert "will not be measured" in capsys.readouterr().err


def test_a_damaged_picture_is_left_out_counted_and_named(home: Path, monkeypatch) -> None:
    draw = np.random.default_rng(0)
    for number in range(30):
        (home / "photos" / f"c{number % 3}").mkdir(parents=True, exist_ok=True)
        pixels = draw.integers(0, 256, (20, 20, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(home / "photos" / f"c{number % 3}" / f"{number:02}.png")
    (home / "photos" / "c0" / "00.png").write_bytes(b"no picture")
    assert poise(monkeypatch, "nets.py:network", "--data", "photos", *FEW, "--tokenizer", "x") == 0
    found = facts(home)
    assert found["examples"] == 29 and found["telling"][0]["source"].endswith(".png")
    assert found["notes"][:2] == [
        "--tokenizer has no effect on images",
        "skipped 1 image that could not be read: c0/00.png",
    ]
    assert found["telling"][0]["source"] in (home / "audit" / "index.html").read_text()


def test_utility_of_an_npz_is_used(home: Path, monkeypatch) -> None:
    """One that is laid on a single column of pixels makes that column the most useful one."""
    with np.load(home / "test.npz") as stored:
        mask = np.zeros((60, 20, 20))
        mask[:, :, 3] = 1 + np.arange(20)
        np.savez(home / "masked.npz", x=stored["x"], y=stored["y"], utility=mask)
    assert poise(monkeypatch, "nets.py:network", "--data", "masked.npz", *FEW) == 0
    with np.load(home / "audit" / "telling.npz") as arrays:
        u = arrays["u_0"]
    assert u[:, :, 3].min() > 0 and not np.delete(u, 3, axis=2).any()


@pytest.mark.miniature
def test_a_comparison_that_was_stopped_can_be_run_again(home: Path, monkeypatch) -> None:
    words = ["nets.py:stopping", "nets.py:network", "--data", "test.npz", "--examples", "60", "--corruptions", "none"]
    command = [sys.executable, "-m", "poise", "audit", *words]
    env = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    try:
        for _ in range(600):
            if (home / "passes").exists() and len((home / "passes").read_text()) > 30:
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130 and "examples of nets.py:stopping" in err, err
    assert "audit/1/index.html" in out and not (home / "audit" / "audit.json").exists()
    assert poise(monkeypatch, "nets.py:network", "nets.py:network", *words[2:4], *FEW) == 0
    assert (home / "audit" / "comparison.json").is_file()


def test_lines_instead_of_a_bar_where_there_is_no_terminal(monkeypatch, capsys) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress.counting("examples") as report:
        report("net", 0, 100)
        for done in range(1, 11):
            now[0] += 5.0
            report("net", done * 10, 100)
    assert capsys.readouterr().err.splitlines() == [
        "net: measuring 100 examples",
        "net: 10 of 100 examples, 2/s, 0:45 left",
        "net: 40 of 100 examples, 2/s, 0:30 left",
        "net: 70 of 100 examples, 2/s, 0:15 left",
        "net: 100 of 100 examples, 2/s, 0:00 left",
    ]
    with progress.counting("examples", quiet=True) as report:
        now[0] += 100
        report("net", 1, 2)
    assert not capsys.readouterr().err


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{number}" for number in range(12))]


def bert(folder: Path, positions: int = 16, words: list[str] = WORDS) -> Path:
    transformers = pytest.importorskip("transformers", reason="pip install '.[transformers]'")
    tokenizers = pytest.importorskip("tokenizers", reason="pip install '.[text]'")
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="[UNK]")
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    named = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **named).save_pretrained(folder)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=positions, **sizes)
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    return folder


@pytest.mark.miniature
def test_sentences_that_are_too_long_and_models_that_read_others(home: Path, monkeypatch) -> None:
    bert(home / "one")
    bert(home / "other", words=[*WORDS[:4], *WORDS[:3:-1]])
    draw = np.random.default_rng(0)
    lines = [" ".join(draw.choice(WORDS[4:], count)) for count in (5, 40, 9, 30, 12, 6)]
    (home / "r.tsv").write_text("text\tlabel\n" + "".join(f"{line}\t{n % 2}\n" for n, line in enumerate(lines)))
    assert poise(monkeypatch, "one", "--data", "r.tsv", "--probes", "8", "--normalize", "half") == 0
    found = facts(home)
    assert found["notes"][0] == "--normalize and --probes have no effect on text"
    assert found["notes"][1] == "truncated 2 of 6 sentences to 16 tokens: the limit of the model"
    assert found["telling"][0]["source"].startswith("row ")
    for words, sentence in {
        ("one", "other", "--data", "r.tsv"): "other and one have different tokenizers",
        ("one", "--data", "test.npz"): "one takes text: --data must be",
        ("one", "--data", "seven.tsv"): "seven.tsv has label 7, but the model has 2 classes",
    }.items():
        (home / "seven.tsv").write_text("text\tlabel\nw1\t7\n")
        end = str(poise(monkeypatch, *words, "--out", "new"))
        assert sentence in end and "\n" not in end and not (home / "new").exists()
