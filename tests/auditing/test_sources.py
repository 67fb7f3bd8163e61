"""Models and data by a word: every way in, and a sentence for every way that leads nowhere."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from deadlines import within
from PIL import Image
from safetensors.torch import save_file
from tiny_cifar import drawn_cifar

import poise
from poise.auditing.texts import open_texts, open_tokenizer
from poise.errors import AuditError
from poise.inputs.classifiers import Unscaled
from poise.inputs.examples import match_classes, read_lines, read_rows, sample
from poise.inputs.images import open_pictures
from poise.inputs.model_sources import Loaded, build, load_weights, open_model
from poise.io.documents import write_proved
from poise.training.checkpoint import save

CODE = """
import torch
def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
text = "no model"
def broken():
    return 1 / 0
"""


def model(word: str, **ways: object) -> Loaded:
    return open_model(
        word, **{"weights": None, "network": None, "head": None, "normalize": None, "trust": False, **ways}
    )


def test_a_function_of_a_file_and_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_to_audit.py").write_text(CODE)
    (tmp_path / "broken_to_audit.py").write_text("import torch\nnetwork = nothing\n")
    (tmp_path / "notes.txt").write_text("no model")
    monkeypatch.chdir(tmp_path)
    x = torch.rand(2, 3, 4, 4)
    one, other = model("mine_to_audit.py:network"), model("mine_to_audit:network")
    torch.testing.assert_close(one.model(x), other.model(x))
    assert one.model.embed(x).shape == (2, 5)
    for word, sentence in {
        "mine_to_audit:nothing": "has no 'nothing'",
        "mine_to_audit:text": "must return a torch.nn.Module",
        "nowhere.py:network": "is not a file",
        "no_such_module:network": "cannot be imported",
        "mine_to_audit.py": "mine_to_audit.py:FUNCTION",
        "mine_to_audit.py:broken": r"broken raised ZeroDivisionError \(line \d+ of mine_to_audit.py\): division",
        "broken_to_audit.py:network": "broken_to_audit.py raised NameError",
        "broken_to_audit:network": "broken_to_audit raised NameError",
        "notes.txt": "neither weights nor a model",
    }.items():
        with pytest.raises(AuditError, match=sentence):
            model(word)


def test_weights_and_normalization(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(CODE)
    word, x = f"{tmp_path / 'code.py'}:network", torch.rand(2, 3, 4, 4)
    changed = {f"module.{name}": 2 * value for name, value in model(word).model.model.state_dict().items()}
    save_file(changed, tmp_path / "w.safetensors")
    torch.save({"state_dict": changed}, tmp_path / "w.pth")
    doubled = model(word, weights=tmp_path / "w.safetensors").model
    torch.testing.assert_close(doubled.head.weight, 2 * model(word).model.head.weight)
    with pytest.raises(AuditError, match="is a pickle, which can run code"):
        model(word, weights=tmp_path / "w.pth")
    trusted = model(word, weights=tmp_path / "w.pth", trust=True).model
    torch.testing.assert_close(trusted(x), doubled(x))
    plain, normalized = model(word).model, model(word, normalize="half").model
    torch.testing.assert_close(normalized(x), plain((x - 0.5) / 0.5))
    torch.testing.assert_close(normalized.head(normalized.embed(x)), normalized(x))
    with pytest.raises(AuditError, match="must be none, imagenet or half"):
        model(word, normalize="some")
    save_file({"a": torch.ones(1)}, tmp_path / "other.safetensors")
    with pytest.raises(AuditError, match="weights of another network"):
        model(word, weights=tmp_path / "other.safetensors")


def test_a_pickle_never_runs_without_trust(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple:
            return (Path.write_text, (tmp_path / "ran", "!"))

    torch.save(Bomb(), tmp_path / "model.pt")
    for word in (str(tmp_path / "model.pt"), f"torchvision:resnet18 {tmp_path}"):
        with pytest.raises(AuditError):
            model(word)
    with pytest.raises(AuditError, match="--trust"):
        load_weights(tmp_path / "model.pt", trust=False)
    assert not (tmp_path / "ran").exists()


def test_a_poise_checkpoint(tmp_path: Path) -> None:
    network = poise.LeNet(num_classes=4)
    tensors = {f"model/{name}": value for name, value in network.state_dict().items()}
    save_file({**tensors, "optimizer/0/step": torch.ones(1)}, tmp_path / "checkpoint-0003.safetensors")
    with pytest.raises(AuditError, match="--network"):
        model(str(tmp_path))
    (tmp_path / "recipe.json").write_text(
        json.dumps({"recipe": "Recipe(task=T(), network=LeNet(num_classes=4), plan=P(1))"})
    )
    x = torch.rand(2, 1, 28, 28)
    for word in (tmp_path, tmp_path / "checkpoint-0003.safetensors"):
        torch.testing.assert_close(model(str(word)).model(x), network.eval()(x))
    with pytest.raises(AuditError, match="another network"):
        model(str(tmp_path), network="LeNet(num_classes=5)")
    for wrong in ("LeNet", "LeNet(num_classes=len('x'))", "Net(1)", "LeNet(size=2)"):
        with pytest.raises(AuditError, match=r"invalid network|cannot be built"):
            build(wrong)


def test_a_checkpoint_that_is_not_what_was_written_is_refused(tmp_path: Path) -> None:
    """Weights that a bit has changed are weights still, and would be audited in silence."""
    save(tmp_path, 3, poise.LeNet(num_classes=4), None, {"log": []})
    file, network = tmp_path / "checkpoint-0003.safetensors", "LeNet(num_classes=4)"
    model(str(tmp_path), network=network)
    (tmp_path / "checkpoint-0004.safetensors").write_bytes(b"without its JSON, this does not count")
    model(str(tmp_path), network=network)
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    for word in (tmp_path, file):
        with pytest.raises(AuditError, match=r"checkpoint-0003.json is damaged .*: use the previous checkpoint"):
            model(str(word), network=network)
    file.write_bytes(whole)
    facts = file.with_suffix(".json")
    facts.write_text(facts.read_text().replace('"epoch": 3', '"epoch": 4'))
    with pytest.raises(AuditError, match=r"its checksum does not match its content"):
        model(str(tmp_path), network=network)


def test_a_recipe_that_is_damaged_names_no_network(tmp_path: Path) -> None:
    save(tmp_path, 3, poise.LeNet(num_classes=4), None, {"log": []})
    recipe = tmp_path / "recipe.json"
    write_proved(recipe, {"recipe": "Recipe(network=LeNet(num_classes=4))"})
    model(str(tmp_path))
    recipe.write_text(recipe.read_text().replace("=4", "=5"))
    with pytest.raises(AuditError, match="--network"):
        model(str(tmp_path))


def test_a_kept_model_names_its_own_network(tmp_path: Path) -> None:
    torch.manual_seed(0)
    kept, x = poise.LeNet(3, size=16).eval(), torch.rand(2, 1, 16, 16)
    poise.save_model(kept, tmp_path / "model.safetensors", "LeNet", num_classes=3, size=16)
    for word in (tmp_path / "model.safetensors", tmp_path):
        torch.testing.assert_close(model(str(word)).model(x), kept(x), rtol=0.02, atol=0.02)
    with pytest.raises(AuditError, match=r"gone.safetensors is not a file"):
        model(str(tmp_path / "gone.safetensors"))
    for header in (None, {"poise": "{"}, {"poise": "[]"}, {"poise": '{"network": "LeNet"}'}):
        save_file(kept.state_dict(), tmp_path / "bare.safetensors", header)
        with pytest.raises(AuditError, match=r"nor a recipe beside it names the network: .*--network 'resnet"):
            model(str(tmp_path / "bare.safetensors"))


def test_what_is_no_model_gets_a_sentence(tmp_path: Path) -> None:
    missing = [name for name in ("torchvision", "timm") if find_spec(name) is None]
    told = ("", f"; {''.join(missing)} is not installed", "; neither torchvision nor timm is installed")
    with pytest.raises(AuditError, match=f"no model found at 'nothing': .* or module:function{told[len(missing)]}$"):
        model("nothing")
    with pytest.raises(AuditError, match=r"neither config.json .* nor model.safetensors or checkpoint"):
        model(str(tmp_path))
    (tmp_path / "config.json").write_text('{"architectures": ["BertForMaskedLM"]}')
    pytest.importorskip("transformers", reason="pip install '.[transformers]'")
    with pytest.raises(AuditError, match="BertForMaskedLM: an audit needs"):
        model(str(tmp_path))


@pytest.mark.miniature
def test_a_hugging_face_folder_of_a_picture_model(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="pip install '.[transformers]'")
    names = {0: "cat", 1: "dog", 2: "owl"}
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.ViTConfig(image_size=16, patch_size=8, id2label=names, **sizes)
    network = transformers.ViTForImageClassification(config).eval()
    network.save_pretrained(tmp_path)
    facts = {"size": {"height": 16, "width": 16}, "image_mean": [0.1, 0.2, 0.3], "image_std": [0.5, 0.6, 0.7]}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(facts))
    found, x = model(str(tmp_path)), torch.rand(2, 3, 16, 16)
    mean, std = (torch.tensor(facts[f"image_{part}"]).view(3, 1, 1) for part in ("mean", "std"))
    torch.testing.assert_close(found.model(x), network((x - mean) / std).logits)
    assert found.size == 16 and list(found.classes) == ["cat", "dog", "owl"]
    (tmp_path / "model.safetensors").rename(tmp_path / "elsewhere")
    torch.save(network.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(AuditError, match="--trust"):
        model(str(tmp_path))


@pytest.mark.parametrize("damage", ["cut", "empty", "folder"])
def test_damaged_weights_of_a_hugging_face_folder_are_one_sentence(damage: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="pip install '.[transformers]'")
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    transformers.ViTForImageClassification(
        transformers.ViTConfig(image_size=16, patch_size=8, **sizes)
    ).save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    content = weights.read_bytes()
    weights.unlink()
    if damage == "folder":
        weights.mkdir()
    else:
        weights.write_bytes(content[: {"cut": 200, "empty": 0}[damage]])
    with pytest.raises(AuditError, match="cannot be loaded: ") as caught:
        model(str(tmp_path))
    assert ".bin" not in str(caught.value)  # there is none to convert


@pytest.mark.parametrize("kind", ["bert", "vit", "unheard-of"])
def test_code_of_a_model_s_folder_is_not_run(kind: str, tmp_path: Path) -> None:
    """Nor does a `y` on stdin allow it."""
    pytest.importorskip("transformers", reason="pip install '.[transformers]'")
    auto = {f"AutoModelFor{task}Classification": "own.Own" for task in ("Sequence", "Image")}
    config = {"model_type": kind, "auto_map": {"AutoConfig": "own.Own", **auto}}
    mark = tmp_path / "was-run"
    (tmp_path / "own.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    task = "Image" if kind == "vit" else "Sequence"
    (tmp_path / "config.json").write_text(json.dumps({**config, "architectures": [f"OwnFor{task}Classification"]}))
    words = ["audit", str(tmp_path), "--data", "mnist" if kind == "vit" else "x.tsv", "--out", str(tmp_path / "out")]
    call = [sys.executable, "-m", "poise", *words, "--quiet"]
    environment = {**os.environ, "PYTHONPATH": str(Path(poise.__file__).parents[1])}
    ended = subprocess.run(
        call, input="y\n" * 9, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert ended.returncode == 1 and ended.stderr.startswith(f"poise: {tmp_path} cannot be loaded: "), ended.stderr
    assert not mark.exists() and "[y/N]" not in ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("which", "content", "sentence"),
    [
        ("y", b"no array", "y.npy cannot be read: it is damaged"),
        ("y", "flipped", "y.npy cannot be read: it is damaged"),
        ("x", "flipped", "x.npy cannot be read: it is damaged"),
        ("y", None, "y.npy cannot be read: No such file"),
        ("x", None, "x.npy cannot be read: No such file"),
        ("y", "archive", "y.npy cannot be read"),
        ("y", "short", "y.npy has 3 labels for 4 examples"),
        ("y", "floats", "y.npy must have one whole number per example as label, got float64"),
    ],
)
def test_the_array_that_is_wrong_is_named(which: str, content: object, sentence: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((4, 8, 8, 3), np.uint8))
    np.save(tmp_path / "y.npy", np.arange(4))
    wrong = tmp_path / f"{which}.npy"
    good = wrong.read_bytes()
    if content == "archive":
        with wrong.open("wb") as stream:
            np.savez(stream, y=np.arange(4))
    elif content in ("short", "floats"):
        np.save(wrong, np.arange(3) if content == "short" else np.zeros(4))
    elif content is None:
        wrong.unlink()
    else:
        wrong.write_bytes(good[:8] + b"\x01" + good[9:] if content == "flipped" else content)
    with pytest.raises(AuditError, match=sentence):
        open_pictures(str(tmp_path / "x.npy"), tmp_path / "y.npy", None, None)


@pytest.mark.parametrize("home", ["torchvision", "timm"])
def test_a_name_with_local_weights(home: str, tmp_path: Path) -> None:
    try:
        library = __import__("timm" if home == "timm" else "torchvision.models", fromlist=["x"])
    except Exception:
        pytest.skip(f"{home} cannot be imported here")
    make = library.create_model if home == "timm" else library.get_model
    save_file(make("resnet18", num_classes=7).state_dict(), tmp_path / "w.safetensors")
    for word in (f"{home}:resnet18", "resnet18"):
        found = model(word, weights=tmp_path / "w.safetensors")
        assert found.size == 224 and found.model(torch.rand(1, 3, 64, 64)).shape == (1, 7)
    with pytest.raises(AuditError, match="needs its weights"):
        model(f"{home}:resnet18")


def photos(folder: Path) -> Path:
    draw = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for number in range(3):
            Image.fromarray(draw.integers(0, 256, (40, 60, 3), dtype=np.uint8)).save(folder / name / f"{number}.png")
    return folder


def test_a_folder_of_class_folders(tmp_path: Path) -> None:
    found = open_pictures(str(photos(tmp_path / "photos")), None, None, 32)
    (batch,) = found.batches([5, 0])
    assert batch.x.shape == (2, 3, 32, 32) and batch.y.tolist() == [1, 0] and float(batch.x.max()) <= 1
    assert match_classes(found, ["bird", "dog", "cat"], 3).labels.tolist() == [2, 2, 2, 1, 1, 1]
    assert match_classes(found, [], 2).labels.tolist() == [0, 0, 0, 1, 1, 1]
    with pytest.raises(AuditError, match="2 class folders"):
        match_classes(found, [], 10)
    with pytest.raises(AuditError, match="1 class folder, the model 10 classes"):
        match_classes(replace(found, classes=["cat"], labels=found.labels * 0), [], 10)
    with pytest.raises(AuditError, match="3 class names"):
        match_classes(found, ["a", "b", "c"], 2)
    assert batch.sources == ["dog/2.png", "cat/0.png"]


def test_cifar_classes_have_their_names_unless_others_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn_cifar(tmp_path, monkeypatch)
    found = open_pictures("cifar10", None, None, None)
    assert match_classes(found, [], 10).classes[3] == "cat"
    letters = list("abcdefghij")
    assert match_classes(found, letters, 10).classes == letters
    assert match_classes(found, [], 12).classes[3] == "3"  # another model's classes
    assert (match_classes(found, [], 10).labels == found.labels).all()


def test_a_damaged_picture_is_left_out_and_named(tmp_path: Path) -> None:
    folder = photos(tmp_path / "photos")
    (folder / "cat" / "0.png").write_bytes(b"no picture")
    found = open_pictures(str(folder), None, None, 32)
    (batch,) = found.batches(range(6))
    assert batch.sources == ["cat/1.png", "cat/2.png", "dog/0.png", "dog/1.png", "dog/2.png"] and len(batch.x) == 5
    assert found.left_out() == ["skipped 1 image that could not be read: cat/0.png"]
    assert found.first(range(6)).sources == ["cat/1.png"]
    for name in ("cat/1.png", "cat/2.png", "dog/0.png", "dog/1.png", "dog/2.png"):
        (folder / name).write_bytes(b"")
    with pytest.raises(AuditError, match=r"no readable examples: .*0.png cannot be read as an image"):
        open_pictures(str(folder), None, None, 32).first(range(6))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_pipes_in_place_of_what_an_audit_reads_are_named(tmp_path: Path) -> None:
    folder = photos(tmp_path / "photos")
    (folder / "cat" / "0.png").unlink()
    for pipe in (folder / "cat" / "0.png", *(tmp_path / name for name in ("a.safetensors", "a.pt", "a.tsv", "names"))):
        os.mkfifo(pipe)
    with within(20):
        found = open_pictures(str(folder), None, None, 32)
        assert len(next(found.batches(range(6))).x) == 5
        assert found.left_out() == ["skipped 1 image that could not be read: cat/0.png"]
        for read in (
            lambda: load_weights(tmp_path / "a.safetensors", trust=False),
            lambda: load_weights(tmp_path / "a.pt", trust=True),
            lambda: read_rows(tmp_path / "a.tsv"),
            lambda: read_lines(tmp_path / "names"),
            lambda: open_tokenizer(tmp_path / "names", 128),
            lambda: model(str(tmp_path / "a.safetensors")),
        ):
            with pytest.raises(AuditError, match=r"is not a file|it is a pipe, not a file|neither a file nor a folder"):
                read()


def test_arrays_with_columns(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).integers(0, 256, (6, 20, 20, 3), dtype=np.uint8), np.arange(6) % 2
    np.savez(tmp_path / "a.npz", x=x, y=y, site=np.array(["a", "b"] * 3))
    np.save(tmp_path / "x.npy", x.transpose(0, 3, 1, 2).astype(np.float32) / 255)
    np.save(tmp_path / "y.npy", y)
    one = open_pictures(str(tmp_path / "a.npz"), None, None, None)
    other = open_pictures(str(tmp_path / "x.npy"), tmp_path / "y.npy", None, None)
    assert one.columns == {"site": ["a", "b"] * 3} and not one.notes and not other.notes
    (a,), (b,) = one.batches(range(6)), other.batches(range(6))
    torch.testing.assert_close(a.x, b.x)
    assert a.sources == b.sources == [f"row {row}" for row in range(6)]
    (tmp_path / "m.tsv").write_text("when\n" + "day\nnight\n" * 3)
    assert open_pictures(str(tmp_path / "a.npz"), None, tmp_path / "m.tsv", None).columns["when"][1] == "night"
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "b.npz", pixels=x)
    (tmp_path / "short.tsv").write_text("when\nday\n")
    for words, sentence in {
        (tmp_path / "x.npy", None, None): "--labels",
        (tmp_path / "o.npy", tmp_path / "y.npy", None): "cannot be read",
        (tmp_path / "b.npz", None, None): "name the examples x",
        (tmp_path / "a.npz", None, tmp_path / "short.tsv"): "1 rows for 6",
        (tmp_path / "y.npy", tmp_path / "y.npy", None): "must be images",
        (tmp_path / "none.npz", None, None): "cannot be read",
        (Path("nowhere"), None, None): "no data found",
    }.items():
        with pytest.raises(AuditError, match=sentence):
            open_pictures(str(words[0]), *words[1:], None)


def test_pixels_that_are_not_in_0_to_1(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).integers(0, 256, (6, 20, 20, 3)), np.arange(6) % 2
    for name, array in {"floats": x.astype(np.float32), "signed": x - 128.0, "large": x * 9}.items():
        np.savez(tmp_path / f"{name}.npz", x=array, y=y)
        with pytest.raises(AuditError, match=r"values from .* uint8, or as floats in \[0, 1\]"):
            open_pictures(str(tmp_path / f"{name}.npz"), None, None, None)
    np.savez(tmp_path / "nan.npz", x=np.where(x > 3, np.nan, 0), y=y)
    with pytest.raises(AuditError, match="not finite"):
        open_pictures(str(tmp_path / "nan.npz"), None, None, None)
    np.savez(tmp_path / "whole.npz", x=x, y=y)
    np.savez(tmp_path / "bytes.npz", x=x.astype(np.uint8), y=y)
    whole, bytes_ = (open_pictures(str(tmp_path / f"{name}.npz"), None, None, None) for name in ("whole", "bytes"))
    torch.testing.assert_close(whole.read([0, 3]), bytes_.read([0, 3]))
    assert "interpreted as pixels" in whole.notes[0] and not bytes_.notes
    np.savez(tmp_path / "normal.npz", x=(x - 128) / 60, y=y)
    assert "noise assume [0, 1]" in open_pictures(str(tmp_path / "normal.npz"), None, None, None).notes[0]


@pytest.mark.parametrize("layout", ["last", "first", "grey", "shared"])
def test_utility_in_an_npz(layout: str, tmp_path: Path) -> None:
    u = np.random.default_rng(0).random((4, 5, 6, 3)).astype(np.float32)
    expected = torch.from_numpy(u).permute(0, 3, 1, 2)
    if layout == "first":
        u = u.transpose(0, 3, 1, 2)
    if layout in ("grey", "shared"):
        u, expected = u[..., 0], expected[:, :1].expand(-1, 3 if layout == "shared" else 1, -1, -1)
    x = np.zeros((4, 5, 6, 3) if layout == "shared" else u.shape, np.uint8)
    np.savez(tmp_path / "a.npz", x=x, y=np.arange(4) % 2, utility=u, other=np.zeros((2, 2)))
    found = open_pictures(str(tmp_path / "a.npz"), None, None, None)
    (batch,) = found.batches([2, 0])
    torch.testing.assert_close(batch.given, expected[[2, 0]])
    assert batch.given.shape == batch.x.shape
    assert found.notes == ("ignored arrays of a.npz that are not columns: other [2, 2]",)
    np.savez(tmp_path / "b.npz", x=x, y=np.arange(4) % 2, utility=u[:, :2])
    with pytest.raises(AuditError, match="one value per feature"):
        open_pictures(str(tmp_path / "b.npz"), None, None, None)


def test_a_table_is_standardized_and_the_model_sees_it_as_it_is(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal([3, 0, 50], [1, 0, 20], (40, 3))
    names = np.array(["age", "site", "weight"])
    np.savez(tmp_path / "t.npz", x=x, y=np.arange(40) % 2, features=names, utility=abs(x), when=np.arange(40))
    found = open_pictures(str(tmp_path / "t.npz"), None, None, None)
    (batch,) = found.batches(range(40), 40)
    torch.testing.assert_close(batch.x.mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(batch.x.std(0, correction=0), torch.tensor([1.0, 0.0, 1.0]))
    assert found.features == ["age", "site", "weight"] and list(found.columns) == ["when"]
    torch.testing.assert_close(batch.given, torch.from_numpy(abs(x)).float())
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    seen = Unscaled(poise.split(network), *found.scale)
    torch.testing.assert_close(seen(batch.x), network(torch.from_numpy(x).float()))
    torch.testing.assert_close(seen.head(seen.embed(batch.x)), seen(batch.x))
    np.save(tmp_path / "x.npy", np.where(x > 3, np.nan, x))
    np.save(tmp_path / "y.npy", np.arange(40) % 2)
    with pytest.raises(AuditError, match="not finite"):
        open_pictures(str(tmp_path / "x.npy"), tmp_path / "y.npy", None, None)


def test_sentences_with_a_tokenizer(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="pip install '.[text]'")
    (tmp_path / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film"])
    )
    (tmp_path / "r.tsv").write_text('text\tlabel\tsite\ngood film\tup\ta\nbad\tdown\tb\n"bad film\tdown\ta\n')
    (tmp_path / "r.jsonl").write_text('{"sentence": "good film", "label": 1}\n\n{"sentence": "bad", "label": 0}\n')
    texts = open_texts(str(tmp_path / "r.tsv"), None, None, [])
    assert texts.labels == [1, 0, 0] and texts.classes == ["down", "up"] and texts.columns == {"site": ["a", "b", "a"]}
    tokenizer = open_tokenizer(tmp_path / "vocab.txt", 16)
    (batch,) = texts.batches([0, 1], tokenizer)
    assert batch.x.ids.tolist() == [[2, 5, 7, 3], [2, 6, 3, 0]]
    assert batch.x.features.tolist() == [[False, True, True, False], [False, True, False, False]]
    assert tokenizer.word(7) == "film"
    assert open_texts(str(tmp_path / "r.jsonl"), None, None, ["no", "yes"]).labels == [1, 0]
    (tmp_path / "bad.jsonl").write_text('{"a": 1}\n{"a": \n')
    (tmp_path / "bad.tsv").write_text("a\tb\n1\n")
    for work, sentence in (
        (lambda: open_texts(str(tmp_path / "r.tsv"), "body", None, []), "--text-column"),
        (lambda: open_texts(str(tmp_path / "r.tsv"), None, None, ["up", "left"]), "'down' is not a class"),
        (lambda: read_rows(tmp_path / "bad.jsonl"), "line 2 is not JSON"),
        (lambda: read_rows(tmp_path / "bad.tsv"), "line 2 has 1 fields"),
        (lambda: read_rows(tmp_path / "r.txt"), "must be a .tsv"),
        (lambda: open_tokenizer(tmp_path / "none.json", 16), "neither a file nor a folder"),
        (lambda: open_tokenizer(tmp_path / "r.jsonl", 16), "is not a tokenizer"),
    ):
        with pytest.raises(AuditError, match=sentence):
            work()


def test_a_sample_is_random_fixed_and_without_repeats() -> None:
    rows = sample(1000, 100, 0)
    assert rows == sample(1000, 100, 0) != sample(1000, 100, 1)
    assert len({*rows}) == 100 and 300 < np.mean(rows) < 700
    assert sorted(sample(7, 100, 0)) == list(range(7))


def test_a_head_that_is_not_found_is_asked_for() -> None:
    with pytest.raises(ValueError, match=r"the model changes its output\. Give the model methods embed and head"):
        poise.audit(
            torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), [(torch.rand(2, 4), torch.zeros(2).long())]
        )


def test_pictures_of_one_size_are_left_as_they_are(tmp_path: Path) -> None:
    pixels = np.random.RandomState(0).randint(0, 256, (4, 20, 24, 3)).astype(np.uint8)
    for number, picture in enumerate(pixels):
        (tmp_path / f"class{number % 2}").mkdir(exist_ok=True)
        Image.fromarray(picture).save(tmp_path / f"class{number % 2}" / f"{number}.png")
    whole = open_pictures(str(tmp_path), None, None, None).read([0, 1, 2, 3])
    assert torch.equal(
        (whole * 255).round().to(torch.uint8), torch.from_numpy(pixels[[0, 2, 1, 3]]).permute(0, 3, 1, 2)
    )
    assert open_pictures(str(tmp_path), None, None, 16).read([0]).shape == (1, 3, 16, 16)
    Image.fromarray(pixels[0, :10]).save(tmp_path / "class0" / "small.png")
    assert open_pictures(str(tmp_path), None, None, None).read([0]).shape == (1, 3, 224, 224)


def test_arrays_that_were_cut_or_changed_are_named(tmp_path: Path) -> None:
    """Any byte of the file may be wrong: the file is named, or the byte meant nothing."""
    path, broken = tmp_path / "whole.npz", tmp_path / "broken.npz"
    np.savez_compressed(path, x=np.arange(4 * 9, dtype=np.uint8).reshape(4, 3, 3), y=np.arange(4) % 2)
    whole = path.read_bytes()
    changed = [whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :] for place in range(0, len(whole), 3)]
    told = 0
    for content in [whole[:-1], whole[: len(whole) // 2], whole[:3], b"", whole[40:], *changed]:
        broken.write_bytes(content)
        try:
            open_pictures(str(broken), None, None, None)
        except AuditError as error:
            told += str(error).startswith(str(broken)) and "\n" not in str(error)
    assert told > len(changed) / 2


def test_values_that_are_not_finite_are_the_datas_fault(tmp_path: Path) -> None:
    """Of 6,000 pictures every third is looked at first; the others when they are read."""
    x = np.zeros((6000, 3, 3), np.float32)
    x[2] = np.nan
    np.savez(tmp_path / "late.npz", x=x, y=np.arange(6000) % 2)
    found = open_pictures(str(tmp_path / "late.npz"), None, None, None)
    with pytest.raises(ValueError, match=r"^the data contain values that are not finite, such as row 2"):
        found.first([2])
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(9, 2))
    with pytest.raises(ValueError, match="the data contain values that are not finite, such as example 0 of a batch"):
        poise.audit(model, [(torch.full((20, 1, 3, 3), torch.nan), torch.arange(20) % 2)])


def test_a_label_that_would_make_a_billion_classes_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((4, 8, 8), np.uint8), y=np.array([0, 1, 2, 10**9]))
    with pytest.raises(AuditError, match="has label 1000000000"):
        open_pictures(str(tmp_path / "a.npz"), None, None, None)
