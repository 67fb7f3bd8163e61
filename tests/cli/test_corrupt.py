"""`poise corrupt`, run in process: what it writes, says and returns."""

import errno
import json
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

from poise import corrupt
from poise.cli import main as cli
from poise.data.sets import cache

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


def test_c_bar_is_short_for_ten(tmp_path: Path, monkeypatch, capsys) -> None:
    out = tmp_path / "CIFAR-10-C-bar"
    assert poise(monkeypatch, "cifar10", "--out", out, "--corruption", "c-bar", "--severity", 5) == 0
    assert capsys.readouterr().out == f"{out}: 10 corruptions x 1 severity\n"
    assert np.array_equal(np.load(out / "ripple.npy"), corrupt(IMAGES, "ripple", 5).permute(0, 2, 3, 1).numpy())
    assert poise(monkeypatch, "cifar10", "--out", out, "--corruption", "c-bar", "--profile", "tiny") == 2
    assert "C-bar has no constants for profile='tiny': choose 'cifar' or 'imagenet'" in capsys.readouterr().err


def test_one_document_for_scripts(tmp_path: Path, monkeypatch, capsys) -> None:
    words = ("--corruption", "fog", "--severity", 2, "--json")
    making = {"corruptions": ["fog"], "severities": [2], "profile": "cifar", "seed": 0, "libraries": "2018"}
    assert poise(monkeypatch, "cifar10", "--out", tmp_path / "c", *words) == 0
    said = json.loads(capsys.readouterr().out)
    assert said == {"folder": f"{tmp_path}/c", **making, "jpeg": None, "skipped": {}}
    assert poise(monkeypatch, "cifar10", "--sheet", tmp_path / "s.png", *words) == 0
    said = json.loads(capsys.readouterr().out)
    assert said == {
        "sheet": f"{tmp_path}/s.png",
        "width": said["width"],
        "height": said["height"],
        **making,
        "jpeg": None,
    }
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "bad.png").write_bytes(b"no")
    end = poise(monkeypatch, tmp_path / "photos", "--out", tmp_path / "p", "--profile", "cifar", *words)
    assert "1 skipped:" in str(end) and list(json.loads(capsys.readouterr().out)["skipped"]) == ["bad.png"]


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
    expected = corrupt(IMAGES[2], "fog", 3, index=2).permute(1, 2, 0).numpy()
    assert np.array_equal(sheet[fog[0] : fog[0] + 96, fog[1] : fog[1] + 96][::3, ::3], expected)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("cifar10",), "pass either --out or --sheet"),
        (("cifar10", "--out", "o", "--corruption", "fogg"), "did you mean 'fog'"),
        (("cifar10", "--out", "o", "--severity", "6"), "severity=6"),
        (("cifar10", "--out", "o", "--profile", "cifar10"), "profile='cifar10' must be one of"),
        (("cifar10", "--out", "o", "--libraries", "up"), "libraries='up'"),
        (("cifar10", "--out", "o", "--device", "gpu"), "gpu"),
        (("cifar10", "--out", "o", "--device", "meta"), "device 'meta' is not supported"),
        (
            ("cifar10", "--out", "o", "--device", "mps"),
            "device 'mps' is not supported: the corruptions run on cpu and cuda",
        ),
        (("cifar10", "--out", "o", "--device", "cuda:99"), "device 'cuda:99' is not available"),
        (("cifar10", "--out", "o", "--labels", "y.npy"), "needs an .npy of images, and --out"),
        (("photos", "--out", "o", "--labels", "y.npy", "--profile", "cifar"), "needs an .npy of images, and --out"),
        (("photos", "--out", "o"), "image files need one of cifar, tiny, imagenet"),
        (("photos", "--out", "photos/o", "--profile", "cifar"), "folder outside of it"),
        (("large.npy", "--out", "o"), "no profile exists for 40 x 40 pixels"),
        (("cifar10", "--sheet", "o.gif"), "o.gif must end with one of .png, .jpg, .jpeg"),
    ],
)
def test_wrong_calls_end_with_2(words: tuple[str, ...], sentence: str, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    Image.fromarray(ARRAY[0]).save(tmp_path / "photos/a.png")
    np.save(tmp_path / "large.npy", np.zeros((2, 40, 40, 3), np.uint8))
    assert poise(monkeypatch, *words) == 2
    assert sentence in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert sorted(path.name for path in tmp_path.rglob("*") if "cache" not in str(path)) == [
        "a.png",
        "large.npy",
        "photos",
    ]


def test_failures_end_with_a_sentence(tmp_path: Path, monkeypatch) -> None:
    np.save(tmp_path / "x.npy", ARRAY.astype(float))
    (tmp_path / "bad.npy").write_text("<html>")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    profile = ("--profile", "cifar", "--corruption", "fog")
    for source, out, sentence in (
        ("nowhere", "o", "nowhere does not exist: use cifar10, cifar100, an .npy file, a folder or an image"),
        ("cifar100", "o", "poise data get cifar100"),
        (tmp_path / "x.npy", "o", "uint8"),
        (tmp_path / "bad.npy", "o", "cannot be read as an array"),
        (tmp_path / "missing.npy", "o", "missing.npy does not exist"),
        ("cifar10", "full", "contains other files"),
        ("cifar10", "full/mine/deeper", "Not a directory"),
    ):
        end = poise(monkeypatch, source, "--out", tmp_path / out, *profile)
        assert sentence in str(end) and "Traceback" not in str(end), (source, end)


@pytest.mark.parametrize("source", ["missing.npy", "nowhere"])
def test_what_is_missing_is_said_without_a_profile(source: str, tmp_path: Path, monkeypatch) -> None:
    assert "does not exist" in str(poise(monkeypatch, tmp_path / source, "--out", tmp_path / "o"))


@pytest.mark.parametrize(
    ("array", "got"),
    [
        (ARRAY / 255, "float64 [6, 32, 32, 3]"),
        (ARRAY[..., 0], "uint8 [6, 32, 32]"),
        (ARRAY.transpose(0, 3, 1, 2), "uint8 [6, 3, 32, 32]"),
        (np.uint8(3), "uint8 []"),
    ],
    ids=["floats", "grey", "channels first", "0-d"],
)
@pytest.mark.parametrize("profile", [(), ("--profile", "cifar")])
def test_a_sheet_of_no_pictures(array: np.ndarray, got: str, profile: tuple[str, ...], tmp_path, monkeypatch) -> None:
    np.save(tmp_path / "x.npy", array)
    end = poise(monkeypatch, tmp_path / "x.npy", "--sheet", tmp_path / "s.png", *profile)
    assert end == f"poise: images must be uint8 [N, H, W, 3], got {got}"
    assert not (tmp_path / "s.png").exists()


def test_a_failed_sheet_leaves_no_file(tmp_path: Path, monkeypatch) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 63, 15, 3), np.uint8))
    for words, sentence in (
        (("--sheet", tmp_path / "s.png"), "images must have at least 16 x 16 pixels"),
        (("--sheet", tmp_path / "s.png", "--image", 1), "--image 1 is out of range"),
    ):
        assert sentence in str(poise(monkeypatch, tmp_path / "x.npy", "--profile", "cifar", *words))

    def fill(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", fill)
    end = poise(monkeypatch, "cifar10", "--sheet", tmp_path / "s.png", "--corruption", "contrast")
    assert end == f"poise: {tmp_path / 's.png'}: No space left on device; free some space, or choose another --sheet"
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["x.npy"]


def test_a_sheet_shows_what_out_writes(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "photos").mkdir()
    for number in range(3):
        Image.fromarray(ARRAY[number]).save(tmp_path / f"photos/{number}.png")
    words = ("--profile", "cifar", "--corruption", "gaussian_noise", "--severity", 4)
    assert poise(monkeypatch, tmp_path / "photos", "--out", tmp_path / "o", *words) == 0
    assert poise(monkeypatch, tmp_path / "photos", "--sheet", tmp_path / "s.png", "--image", 2, *words) == 0
    drawn = np.asarray(Image.open(tmp_path / "s.png"))[18 : 18 + 96, 130 + 98 : 130 + 98 + 96][::3, ::3]
    assert np.array_equal(drawn, np.asarray(Image.open(tmp_path / "o/gaussian_noise/4/2.png")))


def test_labels_that_are_none_are_refused(tmp_path: Path, monkeypatch) -> None:
    np.save(tmp_path / "x.npy", ARRAY)
    for labels, sentence in (
        (np.arange(6) - 1, "labels must be 0 or more, got -1"),
        (np.arange(6) / 2, "labels must be whole numbers, got float64"),
        (np.array(list("abcdef")), "labels must be whole numbers, got <U1"),
    ):
        np.save(tmp_path / "y.npy", labels)
        end = poise(monkeypatch, tmp_path / "x.npy", "--labels", tmp_path / "y.npy", "--out", tmp_path / "o")
        assert end == f"poise: {sentence}"
    assert not (tmp_path / "o").exists()


def test_one_picture(tmp_path: Path, monkeypatch, capsys) -> None:
    Image.fromarray(ARRAY[1]).save(tmp_path / "a.png")
    words = ("--profile", "cifar", "--corruption", "fog", "--severity", 2)
    assert poise(monkeypatch, tmp_path / "a.png", "--out", tmp_path / "o", *words) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'o'}: 1 corruption x 1 severity\n"
    expected = corrupt(IMAGES[1], "fog", 2, index=0).permute(1, 2, 0).numpy()
    assert np.array_equal(np.asarray(Image.open(tmp_path / "o/fog/2/a.png")), expected)


def test_severities_in_any_order(tmp_path: Path, monkeypatch, capsys) -> None:
    words = [word for severity in (4, 2, 4) for word in ("--severity", severity)]
    words += ["--corruption", "fog", "--corruption", "fog"]
    assert poise(monkeypatch, "cifar10", "--out", tmp_path / "o", *words) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'o'}: 1 corruption x 2 severities\n"
    made = np.load(tmp_path / "o/fog.npy")
    assert np.array_equal(made[:6], corrupt(IMAGES, "fog", 2).permute(0, 2, 3, 1).numpy()) and len(made) == 12


def test_a_set_that_is_not_here_says_how_to_get_it(tmp_path: Path, monkeypatch) -> None:
    end = poise(monkeypatch, "cifar100", "--out", tmp_path / "o", "--corruption", "fog")
    assert end == f"poise: test_x of cifar100 is not in {tmp_path}/cache: get it with  poise data get cifar100"
    assert not (tmp_path / "o").exists()


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch) -> None:
    def fill(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array_header_1_0", fill)
    end = poise(monkeypatch, "cifar10", "--out", tmp_path / "o", "--corruption", "fog")
    assert end == f"poise: {tmp_path / 'o/fog.npy'}: No space left on device; free some space, or choose another --out"


@pytest.mark.parametrize("place", [8, 21, 63])
def test_an_array_with_a_flipped_head_is_named(place: int, tmp_path: Path, monkeypatch) -> None:
    np.save(tmp_path / "x.npy", np.zeros((6, 8, 8, 3), np.uint8))
    content = (tmp_path / "x.npy").read_bytes()
    wrong = {8: b"\x01", 21: b",", 63: b"-"}[
        place
    ]  # bytes that numpy answers with errors of Python's parser, or others
    (tmp_path / "x.npy").write_bytes(content[:place] + wrong + content[place + 1 :])
    end = str(poise(monkeypatch, tmp_path / "x.npy", "--out", tmp_path / "c", "--corruption", "fog"))
    assert end == f"poise: {tmp_path / 'x.npy'} cannot be read as an array: save numbers with numpy.save"


def test_a_damaged_picture_on_a_sheet_is_named(tmp_path: Path, monkeypatch) -> None:
    Image.fromarray(ARRAY[0]).save(tmp_path / "a.png")
    (tmp_path / "a.png").write_bytes((tmp_path / "a.png").read_bytes()[:200])
    end = str(poise(monkeypatch, tmp_path / "a.png", "--sheet", tmp_path / "s.png", "--profile", "cifar"))
    assert end.startswith(f"poise: {tmp_path / 'a.png'}: ")


@pytest.mark.miniature
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_whole_files_and_goes_on(number: signal.Signals, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.tile(ARRAY, (300, 1, 1, 1)))
    command = [sys.executable, "-m", "poise", "corrupt", str(tmp_path / "x.npy"), "--out", str(tmp_path / "c")]
    command += ["--corruption", "contrast", "--corruption", "glass_blur"]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    for _ in range(3000):
        if (tmp_path / "c" / "contrast.npy").exists():
            break
        time.sleep(0.02)
    run.send_signal(number)
    _, error = run.communicate(timeout=60)
    assert run.returncode == 130 and error.startswith("poise: interrupted. Finished work is saved")
    names = sorted(path.name for path in (tmp_path / "c").iterdir())
    assert names == ["contrast.npy", "corruption.json"]
