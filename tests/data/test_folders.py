"""Sets that stay where they are, and the corrupted sets."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from data_sets import tar_bytes

from poise.data import cache, catalogue, sources
from poise.data.errors import DataMismatch, DataNotFound
from poise.data.folders import imagenet, imagenet_c
from poise.data.layouts import read_npy

CLASSES = ["n00000001", "n00000002", "n00000003"]


def picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")


def small_imagenet(root: Path, flat: bool) -> Path:
    for number, wnid in enumerate(CLASSES):
        picture(root / "train" / wnid / "a.JPEG")
        picture(root / "val" / f"ILSVRC2012_val_{number}.JPEG" if flat else root / "val" / wnid / "b.JPEG")
    return root


def small_imagenet_c(root: Path, group: str = "noise") -> Path:
    for corruption in ("gaussian_noise", "fog"):
        for severity in range(1, 6):
            picture(root / group / corruption / str(severity) / CLASSES[0] / "a.JPEG")
    return root


@pytest.mark.parametrize("flat", [True, False])
def test_imagenet_in_both_layouts(tmp_path: Path, flat: bool) -> None:
    assert imagenet(small_imagenet(tmp_path, flat), num_classes=3) == {"classes": 3, "train": 3, "val": 3}


def test_imagenet_that_is_not_whole_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataMismatch, match="has 3 class folders such as n01440764, not 1000"):
        imagenet(small_imagenet(tmp_path, flat=True))
    with pytest.raises(DataNotFound, match="train is not a folder"):
        imagenet(tmp_path / "elsewhere")
    (tmp_path / "val" / "n00000009").mkdir()
    with pytest.raises(DataMismatch, match="neither pictures nor the 3 class folders"):
        imagenet(tmp_path, num_classes=3)


@pytest.mark.parametrize("group", ["noise", "."])
def test_imagenet_c_with_and_without_groups(tmp_path: Path, group: str) -> None:
    assert imagenet_c(small_imagenet_c(tmp_path, group)) == {"corruptions": 2}


def test_imagenet_c_that_is_not_whole_is_named(tmp_path: Path) -> None:
    small_imagenet_c(tmp_path)
    (tmp_path / "noise" / "fog" / "3" / CLASSES[0] / "a.JPEG").unlink()
    (tmp_path / "noise" / "fog" / "3" / CLASSES[0]).rmdir()
    with pytest.raises(DataMismatch, match="lacks severities 1 to 5 of fog"):
        imagenet_c(tmp_path)


def test_a_folder_is_remembered_and_looked_at_again(tmp_path: Path) -> None:
    place = small_imagenet_c(tmp_path / "set")
    with pytest.raises(DataNotFound, match=r"imagenet-c cannot be fetched.*--from FOLDER"):
        sources.get("imagenet-c")
    sources.get("imagenet-c", place)
    assert sources.folder("imagenet-c") == place
    sources.check("imagenet-c")
    picture(place / "noise" / "snow" / "1" / CLASSES[0] / "a.JPEG")
    for severity in range(2, 6):
        picture(place / "noise" / "snow" / str(severity) / CLASSES[0] / "a.JPEG")
    with pytest.raises(DataMismatch, match=r"had .*2.* and has .*3"):
        sources.check("imagenet-c")
    (place / "noise").rename(place / "elsewhere")
    (place / "elsewhere" / "fog" / "1").rename(place / "elsewhere" / "fog" / "one")
    with pytest.raises(DataMismatch, match="fog"):
        sources.check("imagenet-c")


def corrupted_files() -> dict[str, bytes]:
    import io

    def npy(array: np.ndarray) -> bytes:
        buffer = io.BytesIO()
        np.save(buffer, array)
        return buffer.getvalue()

    labels = np.tile(np.arange(10), 5000)
    return {"CIFAR-10-C/fog.npy": npy(np.zeros((50000, 32, 32, 3), np.uint8)), "CIFAR-10-C/labels.npy": npy(labels)}


@pytest.fixture
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalogue.CATALOGUE, "cifar10-c", dataclasses.replace(catalogue.CIFAR10_C, addresses=()))


@pytest.mark.usefixtures("_offline")
def test_a_corrupted_set_from_a_folder_and_from_an_archive_with_its_md5(tmp_path: Path) -> None:
    files = corrupted_files()
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    sources.get("cifar10-c", tmp_path / "CIFAR-10-C")
    assert cache.load("cifar10-c", "fog").shape == (50000, 32, 32, 3)
    assert cache.load("cifar10-c", "labels").dtype == np.uint8
    archive = tmp_path / "CIFAR-10-C.tar"
    archive.write_bytes(tar_bytes({"CIFAR-10-C/labels.npy": files["CIFAR-10-C/labels.npy"]}))
    with pytest.raises(
        DataNotFound, match="is not the official archive: expected md5 56bf5dcef84df0e2308c6dcbcbbd8499"
    ):
        sources.get("cifar10-c", archive, again=True)
    assert cache.load("cifar10-c", "fog").shape == (50000, 32, 32, 3)


@pytest.mark.usefixtures("_offline")
def test_a_corrupted_set_of_the_wrong_kind_is_named(tmp_path: Path) -> None:
    (tmp_path / "labels.npy").write_bytes(corrupted_files()["CIFAR-10-C/labels.npy"])
    np.save(tmp_path / "fog.npy", np.zeros((5, 32, 32, 3), np.uint8))
    with pytest.raises(DataNotFound, match=r"fog\.npy is uint8 \(5, 32, 32, 3\), not uint8 \(50000, 32, 32, 3\)"):
        sources.get("cifar10-c", tmp_path)
    with pytest.raises(DataMismatch, match=r"is not a whole \.npy file"):
        read_npy("a.npy", b"\x93NUMPY broken")
