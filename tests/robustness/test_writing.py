"""Corrupted sets on disk: the official layouts, whole files only, resumable, nothing mixed."""

import errno
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from reference_draws import synthetic_images

from poise import corrupt
from poise.robustness import arrays as arrays_module
from poise.robustness.arrays import write_arrays
from poise.robustness.output import Making, OutputError, new_file
from poise.robustness.pictures import as_profile, write_pictures

IMAGES = synthetic_images(32, 5)
ARRAY = IMAGES.permute(0, 2, 3, 1).numpy()
LABELS = np.array([3, 1, 4, 1, 5])
FOG = Making(("fog", "shot_noise"), seed=2)


def test_arrays_have_the_official_layout(tmp_path: Path) -> None:
    write_arrays(ARRAY, LABELS, tmp_path / "c", FOG)
    fog, labels = np.load(tmp_path / "c" / "fog.npy"), np.load(tmp_path / "c" / "labels.npy")
    assert fog.shape == (25, 32, 32, 3) and fog.dtype == np.uint8
    assert labels.tolist() == LABELS.tolist() * 5 and labels.dtype == np.uint8
    for severity in range(1, 6):
        expected = corrupt(IMAGES, "fog", severity, seed=2).permute(0, 2, 3, 1).numpy()
        assert np.array_equal(fog[(severity - 1) * 5 : severity * 5], expected)
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == [
        "corruption.json",
        "fog.npy",
        "labels.npy",
        "shot_noise.npy",
    ]


def test_blocks_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_arrays(ARRAY, None, tmp_path / "a", FOG)
    monkeypatch.setattr(arrays_module, "_AT_ONCE", 2)
    write_arrays(ARRAY, None, tmp_path / "b", FOG)
    assert (tmp_path / "a" / "fog.npy").read_bytes() == (tmp_path / "b" / "fog.npy").read_bytes()
    assert not (tmp_path / "a" / "labels.npy").exists()


def test_a_stopped_run_goes_on_where_it_was(tmp_path: Path) -> None:
    out = tmp_path / "c"

    def stop(what: str, done: int, total: int) -> None:
        if what == "shot_noise":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_arrays(ARRAY, LABELS, out, FOG, progress=stop)
    assert sorted(path.name for path in out.iterdir()) == ["corruption.json", "fog.npy"]
    before = (out / "fog.npy").stat().st_mtime_ns
    write_arrays(ARRAY, LABELS, out, FOG)
    assert (out / "fog.npy").stat().st_mtime_ns == before
    write_arrays(ARRAY, LABELS, tmp_path / "straight", FOG)
    for name in ("fog.npy", "shot_noise.npy", "labels.npy"):
        assert (out / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()


def test_more_corruptions_may_come_later(tmp_path: Path) -> None:
    write_arrays(ARRAY, None, tmp_path, Making(("fog",)))
    write_arrays(ARRAY, None, tmp_path, Making(("contrast",)))
    assert (tmp_path / "contrast.npy").exists() and (tmp_path / "fog.npy").exists()


def test_nothing_is_mixed(tmp_path: Path) -> None:
    write_arrays(ARRAY, None, tmp_path / "c", FOG)
    with pytest.raises(OutputError, match="holds a set with another seed"):
        write_arrays(ARRAY, None, tmp_path / "c", Making(("fog",), seed=3))
    with pytest.raises(OutputError, match="holds a set with another source"):
        write_arrays(255 - ARRAY, None, tmp_path / "c", FOG)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(OutputError, match="holds something else"):
        write_arrays(ARRAY, None, tmp_path / "mine", FOG)
    with pytest.raises(OutputError, match="holds something else"):
        write_arrays(ARRAY, None, tmp_path / "mine" / "letter.txt", FOG)
    (tmp_path / "c" / "corruption.json").write_text("{")
    with pytest.raises(OutputError, match="cannot be read"):
        write_arrays(ARRAY, None, tmp_path / "c", FOG)


def test_a_file_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fill() -> None:
        with new_file(tmp_path / "x") as stream:
            stream.write(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        fill()
    assert list(tmp_path.iterdir()) == []


def test_wrong_arrays_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="uint8 \\[N, H, W, 3\\], got float64"):
        write_arrays(ARRAY / 255, None, tmp_path / "a", FOG)
    with pytest.raises(ValueError, match="5 images need as many labels"):
        write_arrays(ARRAY, LABELS[:2], tmp_path / "b", FOG)
    assert list(tmp_path.iterdir()) == []


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
        expected = corrupt(pixels, "shot_noise", 3, seed=1, index=1, jpeg=quality)  # the second path of all
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
        write_pictures(tmp_path, tmp_path / "out", Making(("fog",)))


def test_scaling_is_torchvisions() -> None:
    """Resize(256) and CenterCrop(224), by hand on a picture whose columns count."""
    pixels = np.zeros((300, 600, 3), dtype=np.uint8)
    pixels[:, :, 0] = np.arange(600) * 255 // 599
    middle = np.asarray(as_profile(Image.fromarray(pixels), "imagenet"))[112, :, 0].astype(int)
    scaled = np.asarray(Image.fromarray(pixels).resize((512, 256), Image.Resampling.BILINEAR))[128, 144:368, 0]
    assert np.array_equal(middle, scaled)
