"""`poise corrupt`, run in process: what it writes, says and returns."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from reference_draws import synthetic_images

from poise import cli, corrupt
from poise.data import cache

IMAGES = synthetic_images(32, 6)
ARRAY = IMAGES.permute(0, 2, 3, 1).numpy()


@pytest.fixture(autouse=True)
def _small_cifar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POISE_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    cache.store("cifar10", [("test_x", ARRAY), ("test_y", np.arange(6, dtype=np.uint8))], "here", {})


def poise(monkeypatch: pytest.MonkeyPatch, *words: object) -> object:
    monkeypatch.setattr(sys, "argv", ["poise", "corrupt", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        cli.run()
    return end.value.code


def test_a_set_in_the_official_layout(tmp_path: Path, monkeypatch, capsys) -> None:
    out = tmp_path / "CIFAR-10-C"
    assert poise(monkeypatch, "cifar10", "--out", out, "--corruption", "fog", "--corruption", "snow") == 0
    assert capsys.readouterr().out == f"{out}: 2 corruptions x 5 severities\n"
    made = np.load(out / "snow.npy")
    assert np.array_equal(made[6:12], corrupt(IMAGES, "snow", 2).permute(0, 2, 3, 1).numpy())
    assert np.load(out / "labels.npy").tolist() == list(range(6)) * 5


def test_an_array_with_labels(tmp_path: Path, monkeypatch) -> None:
    np.save(tmp_path / "x.npy", ARRAY)
    np.save(tmp_path / "y.npy", np.arange(6))
    words = ("--out", tmp_path / "c", "--labels", tmp_path / "y.npy", "--corruption", "contrast", "--severity", 4)
    assert poise(monkeypatch, tmp_path / "x.npy", *words) == 0
    assert np.array_equal(
        np.load(tmp_path / "c/contrast.npy"), corrupt(IMAGES, "contrast", 4).permute(0, 2, 3, 1).numpy()
    )
    assert np.load(tmp_path / "c/labels.npy").tolist() == list(range(6))


def test_a_folder_with_a_damaged_picture(tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "photos").mkdir()
    Image.fromarray(ARRAY[0]).save(tmp_path / "photos" / "good.png")
    (tmp_path / "photos" / "bad.png").write_bytes(b"no")
    words = ("--out", tmp_path / "c", "--profile", "cifar", "--corruption", "fog", "--severity", 1)
    end = poise(monkeypatch, tmp_path / "photos", *words)
    assert "1 skipped:" in str(end) and "bad.png: UnidentifiedImageError" in str(end)  # a sentence means exit code 1
    assert [str(path.relative_to(tmp_path / "c")) for path in (tmp_path / "c").rglob("*.png")] == ["fog/1/good.png"]


def test_jpeg_is_the_default_of_imagenet(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "photos").mkdir()
    Image.fromarray(ARRAY[0]).resize((256, 256)).save(tmp_path / "photos" / "a.png")
    for word, ending in ((None, "jpg"), ("--no-jpeg", "png")):
        words = ("--profile", "imagenet", "--corruption", "contrast", "--severity", 1, *([word] if word else []))
        assert poise(monkeypatch, tmp_path / "photos", "--out", tmp_path / ending, *words) == 0
        assert (tmp_path / ending / f"contrast/1/a.{ending}").exists()


def test_a_contact_sheet(tmp_path: Path, monkeypatch) -> None:
    assert poise(monkeypatch, "cifar10", "--sheet", tmp_path / "sheet.png", "--image", 2) == 0
    sheet = np.asarray(Image.open(tmp_path / "sheet.png"))
    pixels = sheet[18 : 18 + 96, 130 : 130 + 96][::3, ::3]
    assert np.array_equal(pixels, ARRAY[2])
    fog = 18 + 9 * 98, 130 + 98 * 3
    expected = corrupt(IMAGES[2], "fog", 3).permute(1, 2, 0).numpy()
    assert np.array_equal(sheet[fog[0] : fog[0] + 96, fog[1] : fog[1] + 96][::3, ::3], expected)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("cifar10",), "give one of --out and --sheet"),
        (("cifar10", "--out", "o", "--corruption", "fogg"), "did you mean 'fog'"),
        (("cifar10", "--out", "o", "--severity", "6"), "severity=6"),
        (("cifar10", "--out", "o", "--profile", "cifar10"), "profile='cifar10' must be one of"),
        (("cifar10", "--out", "o", "--rounding", "up"), "rounding='up'"),
        (("cifar10", "--out", "o", "--device", "gpu"), "gpu"),
        ((".", "--out", "o"), "name one of cifar, tiny, imagenet"),
    ],
)
def test_wrong_calls_end_with_2(words: tuple[str, ...], sentence: str, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert poise(monkeypatch, *words) == 2
    assert sentence in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert not (tmp_path / "o").exists()


def test_failures_end_with_a_sentence(tmp_path: Path, monkeypatch) -> None:
    np.save(tmp_path / "x.npy", ARRAY.astype(float))
    (tmp_path / "bad.npy").write_text("<html>")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    profile = ("--profile", "cifar", "--corruption", "fog")
    for source, out, sentence in (
        ("nowhere", "o", "neither cifar10, cifar100, an .npy file nor a folder"),
        ("cifar100", "o", "poise data get cifar100"),
        (tmp_path / "x.npy", "o", "uint8"),
        (tmp_path / "bad.npy", "o", "is not an array that can be read"),
        (tmp_path / "missing.npy", "o", "No such file"),
        ("cifar10", "full", "holds something else"),
        ("cifar10", "full/mine/deeper", "Not a directory"),
    ):
        end = poise(monkeypatch, source, "--out", tmp_path / out, *profile)
        assert sentence in str(end) and "Traceback" not in str(end), (source, end)


def test_ctrl_c_leaves_whole_files_and_goes_on(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.tile(ARRAY, (1500, 1, 1, 1)))
    command = [sys.executable, "-m", "poise", "corrupt", str(tmp_path / "x.npy"), "--out", str(tmp_path / "c")]
    command += ["--corruption", "contrast", "--corruption", "glass_blur"]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    for _ in range(600):
        if (tmp_path / "c" / "contrast.npy").exists():
            break
        time.sleep(0.1)
    run.send_signal(signal.SIGINT)
    _, error = run.communicate(timeout=60)
    assert run.returncode == 130 and error.startswith("poise: interrupted; what is whole is kept")
    names = sorted(path.name for path in (tmp_path / "c").iterdir())
    assert names == ["contrast.npy", "corruption.json"]
