"""Corrupted arrays on disk: the official layout, whole files only, resumable, nothing mixed."""

from pathlib import Path

import numpy as np
import pytest
from reference_draws import synthetic_images

from poise import corrupt
from poise.corruptions import write as arrays_module
from poise.corruptions.corrupt import Making
from poise.corruptions.write import OutputError, write_arrays

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
    with pytest.raises(OutputError, match=r"a different set \(seed: 2, not 3\)"):
        write_arrays(ARRAY, None, tmp_path / "c", Making(("fog",), seed=3))
    with pytest.raises(OutputError, match=r"a different set \(images:"):
        write_arrays(255 - ARRAY, None, tmp_path / "c", FOG)
    with pytest.raises(OutputError, match=r"a different set \(labels:"):
        write_arrays(ARRAY, LABELS, tmp_path / "c", FOG)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(OutputError, match="contains other files"):
        write_arrays(ARRAY, None, tmp_path / "mine", FOG)
    with pytest.raises(OutputError, match="contains other files"):
        write_arrays(ARRAY, None, tmp_path / "mine" / "letter.txt", FOG)
    (tmp_path / "c" / "corruption.json").write_text("{")
    with pytest.raises(OutputError, match="cannot be read"):
        write_arrays(ARRAY, None, tmp_path / "c", FOG)


def test_labels_are_compared_by_their_numbers(tmp_path: Path) -> None:
    write_arrays(ARRAY, LABELS, tmp_path, Making(("fog",)))
    write_arrays(ARRAY, LABELS.astype(np.uint8), tmp_path, Making(("contrast",)))
    with pytest.raises(OutputError, match=r"a different set \(labels:"):
        write_arrays(ARRAY, LABELS + 1, tmp_path, Making(("snow",)))


def test_wrong_arrays_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="uint8 \\[N, H, W, 3\\], got float64"):
        write_arrays(ARRAY / 255, None, tmp_path / "a", FOG)
    with pytest.raises(ValueError, match="one entry for each of the 5 images"):
        write_arrays(ARRAY, LABELS[:2], tmp_path / "b", FOG)
    with pytest.raises(ValueError, match="labels must be 0 or more, got -1"):
        write_arrays(ARRAY, LABELS - 2, tmp_path / "c", FOG)
    for labels in (LABELS / 2, LABELS.astype(str), LABELS > 2):
        with pytest.raises(ValueError, match="labels must be whole numbers, got"):
            write_arrays(ARRAY, labels, tmp_path / "c", FOG)
    with pytest.raises(ValueError, match="at least 16 x 16 pixels, got 15 x 32"):
        write_arrays(ARRAY[:, :15], LABELS, tmp_path / "d", FOG)
    assert list(tmp_path.iterdir()) == []
