"""Corrupted pictures on disk: the official layout, every picture under a name of its own, nothing mixed."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from reference_draws import synthetic_images

from poise import corrupt
from poise.corruptions.corrupt import Making
from poise.corruptions.write import OutputError, as_profile, output_names, write_pictures

CONTRAST = Making(("contrast",), (1,))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes of pictures of several sizes and kinds, one of them damaged, and a letter."""
    folder = tmp_path / "photos"
    for name, size in {
        "cat/a.png": (40, 48),
        "cat/b.jpg": (300, 260),
        "dog/c.jpeg": (260, 300),
        "dog/d.png": (64, 64),
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pixels = synthetic_images(300, 1)[0, :, : size[0], : size[1]].permute(1, 2, 0).numpy()
        Image.fromarray(pixels).save(folder / name)
    (folder / "dog" / "e.jpg").write_bytes(b"\xff\xd8 not a picture")
    (folder / "dog" / "letter.txt").write_text("dear")
    return folder


def size_of(path: Path) -> tuple[int, int]:
    with Image.open(path) as picture:
        return picture.size


def test_pictures_keep_their_tree(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    unreadable = write_pictures(photos, out, Making(("fog",), (2, 4), "imagenet", jpeg=85))
    assert list(unreadable) == ["dog/e.jpg"]
    found = sorted(str(path.relative_to(out)) for path in out.rglob("*.*"))
    names = ["cat/a.jpg", "cat/b.jpg", "dog/c.jpeg", "dog/d.jpg"]
    assert found == ["corruption.json", *(f"fog/{severity}/{name}" for severity in (2, 4) for name in names)]
    assert size_of(out / "fog/2/cat/a.jpg") == (224, 224)


def test_a_picture_is_what_the_batch_call_and_the_second_pass_make(photos: Path, tmp_path: Path) -> None:
    write_pictures(photos, tmp_path / "png", Making(("shot_noise",), (3,), "imagenet", seed=1))
    write_pictures(photos, tmp_path / "jpg", Making(("shot_noise",), (3,), "imagenet", seed=1, jpeg=85))
    picture = as_profile(Image.open(photos / "cat/b.jpg").convert("RGB"), "imagenet")
    pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
    for folder, quality in (("png", None), ("jpg", 85)):
        path = next((tmp_path / folder / "shot_noise" / "3" / "cat").glob("b.*"))
        expected = corrupt(
            pixels, "shot_noise", 3, seed=1, index=1, jpeg=quality, libraries="today"
        )  # the second path of all
        assert np.array_equal(np.asarray(Image.open(path)), expected.permute(1, 2, 0).numpy())


def test_pictures_as_they_are(photos: Path, tmp_path: Path) -> None:
    write_pictures(photos, tmp_path / "out", Making(("contrast",), (1,), "imagenet"), resize=False)
    assert size_of(tmp_path / "out/contrast/1/cat/a.png") == (48, 40)
    write_pictures(photos, tmp_path / "tiny", Making(("contrast",), (1,), "tiny"))
    assert size_of(tmp_path / "tiny/contrast/1/cat/b.png") == (64, 64)


def test_pictures_that_are_there_are_left(photos: Path, tmp_path: Path) -> None:
    making = Making(("fog",), (1,), "imagenet", jpeg=85)
    write_pictures(photos, tmp_path / "out", making)
    kept, lost = tmp_path / "out/fog/1/cat/a.jpg", tmp_path / "out/fog/1/cat/b.jpg"
    before, bytes_before = kept.stat().st_mtime_ns, lost.read_bytes()
    lost.unlink()
    write_pictures(photos, tmp_path / "out", making)
    assert kept.stat().st_mtime_ns == before and lost.read_bytes() == bytes_before


def test_a_folder_without_pictures_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="no picture"):
        write_pictures(tmp_path, tmp_path.parent / "out", Making(("fog",)))


def test_scaling_is_torchvisions() -> None:
    """Resize(256) and CenterCrop(224), by hand on a picture whose columns count."""
    pixels = np.zeros((300, 600, 3), dtype=np.uint8)
    pixels[:, :, 0] = np.arange(600) * 255 // 599
    middle = np.asarray(as_profile(Image.fromarray(pixels), "imagenet"))[112, :, 0].astype(int)
    scaled = np.asarray(Image.fromarray(pixels).resize((512, 256), Image.Resampling.BILINEAR))[128, 144:368, 0]
    assert np.array_equal(middle, scaled)


def save(path: Path, height: int = 32, width: int = 32, value: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = synthetic_images(128, 1)[0, :, :height, :width].permute(1, 2, 0).numpy()
    Image.fromarray(pixels ^ np.uint8(value)).save(path)


def made(out: Path) -> list[str]:
    root = out / "contrast/1"
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def test_pictures_of_one_name_are_all_kept(tmp_path: Path) -> None:
    for number, name in enumerate(("a.png", "a.bmp", "a.tif", "b/a.bmp", "b/c.gif")):
        save(tmp_path / "in" / name, value=number)
    write_pictures(tmp_path / "in", tmp_path / "out", CONTRAST)
    assert made(tmp_path / "out") == ["a.bmp.png", "a.png", "a.tif.png", "b/a.png", "b/c.png"]
    for number, name in ((0, "a.png"), (1, "a.bmp"), (2, "a.tif")):
        pixels = torch.from_numpy(np.array(Image.open(tmp_path / "in" / name))).permute(2, 0, 1)
        expected = corrupt(pixels, "contrast", 1, index=number).permute(1, 2, 0).numpy()
        written = tmp_path / "out/contrast/1" / (name if number == 0 else f"{name}.png")
        assert np.array_equal(np.asarray(Image.open(written)), expected)


def test_no_two_pictures_share_a_name() -> None:
    paths = tuple(map(Path, ("a.bmp", "a.bmp.jpg", "a.jpg", "a.jpeg", "a.png", "a.png.png", "b.png")))
    names = output_names(paths, jpeg=True)
    assert len(set(names)) == len(paths)
    assert [str(name) for name in names[:4]] == ["a.bmp.jpg.jpg", "a.bmp.jpg", "a.jpg", "a.jpeg"]
    assert str(names[-1]) == "b.jpg"


@pytest.mark.parametrize("change", ["edit", "rename", "add", "swap"])
def test_other_pictures_are_refused(tmp_path: Path, change: str) -> None:
    for number, name in enumerate(("a.bmp", "b.bmp")):
        save(tmp_path / "in" / name, value=number)
    write_pictures(tmp_path / "in", tmp_path / "out", CONTRAST)
    write_pictures(tmp_path / "in", tmp_path / "out", CONTRAST)
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.*")}
    first, second = tmp_path / "in/a.bmp", tmp_path / "in/b.bmp"
    if change == "edit":
        first.write_bytes(first.read_bytes()[:-1] + b"!")
    if change == "rename":
        first.rename(tmp_path / "in/c.bmp")
    if change == "add":
        save(tmp_path / "in/c.bmp")
    if change == "swap":
        one, other = first.read_bytes(), second.read_bytes()
        first.write_bytes(other)
        second.write_bytes(one)
    with pytest.raises(OutputError, match=r"a different set \(pictures:"):
        write_pictures(tmp_path / "in", tmp_path / "out", CONTRAST)
    assert before == {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.*")}


def test_a_folder_that_moved_is_the_same(tmp_path: Path) -> None:
    save(tmp_path / "in/a.png")
    write_pictures(tmp_path / "in", tmp_path / "out", CONTRAST)
    (tmp_path / "in").rename(tmp_path / "elsewhere")
    write_pictures(tmp_path / "elsewhere", tmp_path / "out", CONTRAST)


def test_pictures_that_do_not_fit_are_skipped_and_named(tmp_path: Path) -> None:
    save(tmp_path / "in/a.png")
    save(tmp_path / "in/small.png", 15, 32)
    save(tmp_path / "in/z.png")
    skipped = write_pictures(tmp_path / "in", tmp_path / "out", Making(("contrast", "frost"), (1,)))
    assert skipped == {"small.png": "images must have at least 16 x 16 pixels, got 15 x 32"}
    assert made(tmp_path / "out") == ["a.png", "z.png"]
    assert sorted(path.name for path in (tmp_path / "out/frost/1").iterdir()) == ["a.png", "z.png"]


def test_a_folder_with_an_ending_is_no_picture(tmp_path: Path) -> None:
    save(tmp_path / "in/x.png/a.png")
    assert write_pictures(tmp_path / "in", tmp_path / "out", CONTRAST) == {}
    assert made(tmp_path / "out") == ["x.png/a.png"]


def test_one_picture_alone(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    save(tmp_path / "b.png")
    assert write_pictures(tmp_path / "b.png", tmp_path / "out", CONTRAST) == {}
    assert made(tmp_path / "out") == ["b.png"]


def test_an_output_among_the_pictures_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "in/a.png")
    for out in (tmp_path / "in/out", tmp_path / "in", tmp_path / "other/../in/out"):
        with pytest.raises(ValueError, match="folder outside of it"):
            write_pictures(tmp_path / "in", out, CONTRAST)
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["a.png"]


@pytest.mark.parametrize("ending", ["png", "tif"])
def test_greys_of_16_bits_are_scaled(tmp_path: Path, ending: str) -> None:
    ramp = np.arange(32 * 32, dtype=np.uint16).reshape(32, 32) * 64
    (tmp_path / "in").mkdir()
    Image.fromarray(ramp).save(tmp_path / f"in/a.{ending}")
    write_pictures(tmp_path / "in", tmp_path / "out", CONTRAST)
    grey = torch.from_numpy(np.rint(ramp / 257).astype(np.uint8)).expand(3, 32, 32)
    expected = corrupt(grey, "contrast", 1).permute(1, 2, 0).numpy()
    assert np.array_equal(np.asarray(Image.open(tmp_path / "out/contrast/1/a.png")), expected)
