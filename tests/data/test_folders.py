"""Sets that stay where they are, and the corrupted sets."""

import sys
from pathlib import Path

import numpy as np
import pytest
from data_sets import corrupted_files, offer_corrupted, tar_bytes, write_folder

from poise.data.sets import cache, catalogue
from poise.data.sets import fetch as sources
from poise.data.sets.folders import imagenet_c, imagenet_folders, imagenet_part, in_class_folders
from poise.data.sets.layouts import read_npy
from poise.errors import DataMismatch, DataNotFound

CLASSES = ["n00000001", "n00000002", "n00000003"]


def picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")


def small_imagenet(root: Path, flat: bool = False) -> Path:
    """Three classes; flat validation pictures are of classes 3, 1, 2 (and label files say so)."""
    for number, wnid in enumerate(CLASSES, start=1):
        picture(root / "train" / wnid / "a.JPEG")
        picture(root / "val" / f"ILSVRC2012_val_{number:08d}.JPEG" if flat else root / "val" / wnid / "b.JPEG")
    return root


def small_imagenet_c(root: Path, group: str = "noise") -> Path:
    for corruption in ("gaussian_noise", "fog"):
        for severity in range(1, 6):
            picture(root / group / corruption / str(severity) / CLASSES[0] / "a.JPEG")
    return root


ORDER = [CLASSES[2], CLASSES[0], CLASSES[1]]
SOLUTION = "ImageId,PredictionString\n" + "".join(
    f"ILSVRC2012_val_{number:08d},{wnid} 1 2 3 4 {wnid} 5 6 7 8\n"
    for number, wnid in reversed(list(enumerate(ORDER, start=1)))
)
NUMBERS = {CLASSES[0]: 3, CLASSES[1]: 1, CLASSES[2]: 2}  # the development kit's numbers are in an order of their own
TRUTH = "".join(f"{NUMBERS[wnid]}\n" for wnid in ORDER)
CLSLOC = "".join(f"{wnid} {number} a_name\n" for wnid, number in NUMBERS.items())


def kit_with_matlab(folder: Path) -> None:
    """meta.mat as the development kit has it: a struct array, inner nodes after the classes."""
    matlab = pytest.importorskip("scipy.io", reason="meta.mat needs scipy")
    kind = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O"), ("gloss", "O"), ("num_children", "O")]
    rows = [(number, wnid, "a name", "a gloss", 0) for wnid, number in NUMBERS.items()]
    folder.mkdir(parents=True)
    synsets = np.array([*rows, (4, "n00000000", "all", "all", 3)], dtype=kind).reshape(-1, 1)
    matlab.savemat(folder / "meta.mat", {"synsets": synsets})


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def label(root: Path, how: str) -> None:
    kit = root / "ILSVRC2012_devkit_t12" / "data"
    if how == "Kaggle":
        write(root / "LOC_val_solution.csv", SOLUTION)
    elif how == "wnids":
        write(root / "val" / "imagenet_2012_validation_synset_labels.txt", "\n".join(ORDER))
    elif how == "kit":
        write(kit / "map_clsloc.txt", CLSLOC)
    elif how == "kit with meta.mat":
        kit_with_matlab(kit)
    if "kit" in how:
        write(kit / "ILSVRC2012_validation_ground_truth.txt", TRUTH)


def test_imagenet_in_class_folders(tmp_path: Path) -> None:
    assert imagenet_folders(small_imagenet(tmp_path), num_classes=3) == {"classes": 3, "train": 3, "val": 3}
    assert imagenet_part(tmp_path, "val").pictures[1] == (tmp_path / "val" / CLASSES[1] / "b.JPEG", 1)


@pytest.mark.parametrize("how", ["Kaggle", "wnids", "kit", "kit with meta.mat"])
def test_validation_pictures_in_one_folder_are_labelled(tmp_path: Path, how: str) -> None:
    label(small_imagenet(tmp_path, flat=True), how)
    assert imagenet_folders(tmp_path, num_classes=3) == {"classes": 3, "train": 3, "val": 3}
    listing = imagenet_part(tmp_path, "val")
    assert listing.classes == tuple(CLASSES)
    assert [(path.stem[-1], number) for path, number in listing.pictures] == [("1", 2), ("2", 0), ("3", 1)]


def test_the_top_of_kaggle_s_tree(tmp_path: Path) -> None:
    small_imagenet(tmp_path / "ILSVRC" / "Data" / "CLS-LOC", flat=True)
    write(tmp_path / "LOC_val_solution.csv", SOLUTION)
    for place in (tmp_path, tmp_path / "ILSVRC" / "Data" / "CLS-LOC"):
        assert imagenet_folders(place, num_classes=3) == {"classes": 3, "train": 3, "val": 3}
        assert [number for _, number in imagenet_part(place, "val").pictures] == [2, 0, 1]


def test_pictures_without_labels_get_a_sentence(tmp_path: Path) -> None:
    small_imagenet(tmp_path, flat=True)
    with pytest.raises(DataNotFound, match=r"without class folders, .* none of LOC_val_solution\.csv, "):
        imagenet_folders(tmp_path, num_classes=3)
    write(tmp_path / "ILSVRC2012_validation_ground_truth.txt", TRUTH)
    with pytest.raises(DataNotFound, match=r"has neither map_clsloc\.txt nor meta\.mat"):
        imagenet_folders(tmp_path, num_classes=3)
    write(tmp_path / "meta.mat", "nonsense")
    with pytest.raises(DataMismatch, match=r"is not the development kit's meta\.mat"):
        imagenet_folders(tmp_path, num_classes=3)
    write(tmp_path / "LOC_val_solution.csv", "<html>\n<title>Sign in</title>\n")
    with pytest.raises(
        DataMismatch, match=r"LOC_val_solution\.csv does not label images with classes such as n01440764"
    ):
        imagenet_folders(tmp_path, num_classes=3)
    (tmp_path / "LOC_val_solution.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(DataMismatch, match=r"LOC_val_solution\.csv is not UTF-8 text"):
        imagenet_folders(tmp_path, num_classes=3)
    write(tmp_path / "LOC_val_solution.csv", SOLUTION)
    picture(tmp_path / "val" / "ILSVRC2012_val_00000004.JPEG")
    with pytest.raises(DataMismatch, match=r"1 of the 4 images in .* have no label, such as ILSVRC2012_val_00000004"):
        imagenet_folders(tmp_path, num_classes=3)


def test_matlab_s_file_without_its_reader_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    label(small_imagenet(tmp_path, flat=True), "kit with meta.mat")
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(DataNotFound, match=r"meta\.mat requires scipy: pip install scipy"):
        imagenet_folders(tmp_path, num_classes=3)


def test_only_imagenet_s_classes_count_there_and_all_folders_elsewhere(tmp_path: Path) -> None:
    for name in ("n0000000", "n000000001", "thumbnails", ".cache"):
        picture(small_imagenet(tmp_path) / "train" / name / "a.JPEG")
    picture(tmp_path / "train" / CLASSES[0] / "._a.JPEG")
    assert imagenet_folders(tmp_path, num_classes=3) == {"classes": 3, "train": 3, "val": 3}
    assert imagenet_part(tmp_path, "train").classes == tuple(CLASSES)
    assert in_class_folders(tmp_path / "train", wnids=True) == imagenet_part(tmp_path, "train")
    assert in_class_folders(tmp_path / "train").classes == tuple(
        sorted([".cache", "n0000000", "n000000001", "thumbnails", *CLASSES])
    )


def test_imagenet_that_is_not_whole_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataMismatch, match="has 3 class folders such as n01440764, not 1000"):
        imagenet_folders(small_imagenet(tmp_path))
    with pytest.raises(DataNotFound, match="train is not a folder"):
        imagenet_folders(tmp_path / "elsewhere")
    picture(tmp_path / "val" / "n00000009" / "a.JPEG")
    with pytest.raises(DataMismatch, match="val has 4 classes, not the 3 of"):
        imagenet_folders(tmp_path, num_classes=3)
    (tmp_path / "empty" / "val").mkdir(parents=True)
    with pytest.raises(DataNotFound, match="has neither class folders such as n01440764 nor images"):
        imagenet_part(tmp_path / "empty", "val")


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
    with pytest.raises(DataNotFound, match=r"imagenet-c cannot be downloaded.*--from FOLDER"):
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


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    offer_corrupted(monkeypatch, catalogue.CIFAR10_C.md5)


@pytest.mark.usefixtures("_small")
def test_a_corrupted_set_from_a_folder_and_from_an_archive_with_its_md5(tmp_path: Path) -> None:
    write_folder(corrupted_files(), tmp_path)
    sources.get("cifar10-c", tmp_path / "CIFAR-10-C")
    assert cache.load("cifar10-c", "fog").shape == (100, 32, 32, 3)
    assert cache.load("cifar10-c", "labels").dtype == np.uint8
    archive = tmp_path / "CIFAR-10-C.tar"
    archive.write_bytes(tar_bytes(corrupted_files()))
    with pytest.raises(
        DataNotFound, match="is not the official archive: expected md5 56bf5dcef84df0e2308c6dcbcbbd8499"
    ):
        sources.get("cifar10-c", archive, again=True)
    assert cache.load("cifar10-c", "fog").shape == (100, 32, 32, 3)


@pytest.mark.usefixtures("_small")
def test_a_corrupted_set_of_our_own_making_is_not_the_published_one(tmp_path: Path) -> None:
    write_folder({**corrupted_files(), "CIFAR-10-C/corruption.json": b"{}"}, tmp_path)
    for place in (tmp_path / "CIFAR-10-C", tmp_path):
        with pytest.raises(DataNotFound, match=r"made by  poise corrupt .*: they are not the published ones"):
            sources.get("cifar10-c", place)
    assert cache.manifest_of("cifar10-c") is None


@pytest.mark.usefixtures("_small")
def test_a_corrupted_set_of_the_wrong_kind_is_named(tmp_path: Path) -> None:
    write_folder(corrupted_files(fog=np.zeros((5, 32, 32, 3), np.uint8)), tmp_path)
    with pytest.raises(DataNotFound, match=r"fog\.npy is uint8 \(5, 32, 32, 3\), not uint8 \(100, 32, 32, 3\)"):
        sources.get("cifar10-c", tmp_path)
    with pytest.raises(DataMismatch, match=r"is not an intact \.npy file"):
        read_npy("a.npy", b"\x93NUMPY broken")
