"""`poise export`, run in process: the folder loads again, hubs read its card, and nothing is overwritten unasked."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_records import mnist, path_of
from huggingface_hub import ModelCard

import poise
from poise.cli import main as cli
from poise.inputs.model_sources import load_network


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> object:
    monkeypatch.setattr(sys, "argv", ["poise", "export", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        cli.run()
    return end.value.code


@pytest.fixture
def seed(tmp_path: Path) -> Path:
    """The folder of a finished run with its weights."""
    torch.manual_seed(0)
    folder = path_of(mnist(tmp_path / "runs", seeds=2), "FCL", 1).parent
    poise.save_model(poise.LeNet(15), folder / "model.safetensors", "LeNet", num_classes=15)
    return folder


def test_an_exported_folder_loads_again_bit_by_bit(seed: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    assert run(monkeypatch, seed, "--out", tmp_path / "out") == 0
    names = ["README.md", "config.json", "model.safetensors"]
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / "out" / name) for name in names]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    x = torch.rand(3, 1, 28, 28)
    expected = poise.load_model(seed / "model.safetensors")(x)
    assert torch.equal(poise.load_model(tmp_path / "out")(x), expected)
    options = dict.fromkeys(("weights", "network", "normalize"))
    named = load_network(str(tmp_path / "out"), **options, trust=False)  # as `poise evaluate` reads it
    assert torch.equal(named.model(x), expected)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (config["network"], config["settings"]) == ("LeNet", {"num_classes": 15})
    assert config["input"] == {"kind": "images", "shape": [1, 28, 28], "range": [0, 1], "normalization": None}
    assert config["poise_version"] == poise.__version__ and len(config["classes"]) == 15


def test_hubs_read_the_card(seed: Path, tmp_path: Path, monkeypatch) -> None:
    assert run(monkeypatch, seed, "--out", tmp_path / "out", "--license", "apache-2.0") == 0
    text = (tmp_path / "out" / "README.md").read_text()
    card, record = ModelCard(text).data, json.loads((seed / "record.json").read_text())
    assert (card.license, card.library_name, card.pipeline_tag) == ("apache-2.0", "poise", "image-classification")
    measured = {result.metric_name: result.metric_value for result in card.eval_results}
    rare = sum(right / total for right, total in record["classes"]["BAL"][10:]) / 5
    wanted = {**record["scores"], "BAL, classes 10-14": rare}
    assert measured == {name: round(value, 6) for name, value in wanted.items()}
    assert f"(seed 1, commit {record['commit']})" in text and f"| BAL | {record['scores']['BAL']:.4f} |" in text
    block = text.split("```python\n")[1].split("```")[0].replace("path/to/this/folder", str(tmp_path / "out"))
    told: dict[str, torch.Tensor] = {}
    exec(block, told)
    assert told["logits"].shape == (1, 15)


def test_weights_without_a_record_say_so(tmp_path: Path, monkeypatch) -> None:
    poise.save_model(poise.resnet56(3), tmp_path / "net.safetensors", "resnet56", num_classes=3)
    assert run(monkeypatch, tmp_path / "net.safetensors", "--out", tmp_path / "out") == 0
    text = (tmp_path / "out" / "README.md").read_text()
    assert "how they were trained is unknown" in text and "No results are recorded" in text
    assert ModelCard(text).data.eval_results is None
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["input"]["normalization"]["std"] == [0.247, 0.2435, 0.2616]


def test_only_an_export_is_replaced_and_only_with_force(seed: Path, tmp_path: Path, monkeypatch) -> None:
    out = tmp_path / "out"
    assert run(monkeypatch, seed, "--out", out) == 0
    (out / "model.onnx").write_text("of another network")
    assert "add --force" in str(run(monkeypatch, seed, "--out", out))
    assert (out / "model.onnx").exists()
    assert run(monkeypatch, seed, "--out", out, "--force") == 0
    assert not (out / "model.onnx").exists()
    assert "is not an export" in str(run(monkeypatch, seed, "--out", seed, "--force"))
    assert sorted(path.name for path in seed.iterdir()) == ["model.safetensors", "record.json"]


def test_bad_input_is_a_sentence(seed: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    assert run(monkeypatch, tmp_path / "nowhere") == 2
    assert run(monkeypatch, seed, "--license", " ") == 2
    capsys.readouterr()
    (seed / "model.safetensors").write_text("hello")
    assert "does not contain a network saved by Poise" in str(run(monkeypatch, seed, "--out", tmp_path / "out"))
    (seed / "model.safetensors").unlink()
    assert "train with --keep-models" in str(run(monkeypatch, seed, "--out", tmp_path / "out"))
    settings = {"num_classes": 2, "vocabulary": 9, "width": 8}
    poise.save_model(poise.Transformer(**settings), tmp_path / "text.safetensors", "Transformer", **settings)
    assert "reads texts" in str(run(monkeypatch, tmp_path / "text.safetensors", "--onnx", "--out", tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_missing_onnx_is_a_sentence(seed: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    said = run(monkeypatch, seed, "--onnx", "--out", tmp_path / "out")
    assert said == 'poise: --onnx needs onnxscript, which is missing: pip install ".[onnx]" in a clone of Poise'
    assert not (tmp_path / "out").exists()


@pytest.mark.miniature
def test_onnx_gives_the_logits_of_torch(seed: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "poise", "export", str(seed), "--out", str(tmp_path / "out"), "--onnx"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == "The model card says licence: unknown. Add --license, such as --license apache-2.0.\n"
    import onnxruntime

    session = onnxruntime.InferenceSession(str(tmp_path / "out" / "model.onnx"), providers=["CPUExecutionProvider"])
    for count in (1, 5):
        x = torch.rand(count, 1, 28, 28)
        (found,) = session.run(None, {"images": x.numpy()})
        expected = poise.load_model(tmp_path / "out")(x).detach().numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
