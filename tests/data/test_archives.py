"""Folders that hold the official archives themselves, as a download or torchvision leaves them."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from data_sets import (
    cifar10_pickles,
    cifar100_pickles,
    corrupted_files,
    digits,
    idx_files,
    offer,
    offer_corrupted,
    pictures,
    tar_bytes,
    write_folder,
    zip_bytes,
)

from poise.data.sets import cache, catalogue
from poise.data.sets import fetch as sources
from poise.data.sets.layouts import in_canonical_order
from poise.errors import DataMismatch, DataNotFound


def test_the_names_are_those_of_the_official_addresses() -> None:
    names = {name: getattr(each, "archives", []) for name, each in catalogue.CATALOGUE.items()}
    assert {name: found for name, found in names.items() if found} == {
        "cifar10": ["cifar-10-python.tar.gz"],
        "cifar100": ["cifar-100-python.tar.gz"],
        "cifar10-c": ["CIFAR-10-C.tar"],
        "cifar100-c": ["CIFAR-100-C.tar"],
        "sst": ["stanfordSentimentTreebank.zip", "trainDevTestTrees_PTB.zip"],
        "sst2": ["SST-2.zip"],
    }


def test_torchvision_s_folder_of_cifar_10_and_100(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ten, hundred = pictures(), pictures(train=60, test=20)
    offer(monkeypatch, catalogue.CIFAR10, ten)
    offer(monkeypatch, catalogue.CIFAR100, in_canonical_order(hundred))
    archives = {
        "cifar-10-python.tar.gz": tar_bytes(cifar10_pickles(ten)),
        "cifar-100-python.tar.gz": tar_bytes(cifar100_pickles(hundred)),
    }
    folder = write_folder(archives, tmp_path / "data")
    assert sources.get("cifar10", folder) == f"{folder} (cifar-10-python.tar.gz)"
    assert sources.get("cifar100", folder) == f"{folder} (cifar-100-python.tar.gz)"
    for name in ("cifar10", "cifar100"):
        sources.check(name)


def test_a_damaged_archive_beside_its_own_files_does_no_harm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    offer(monkeypatch, catalogue.CIFAR10, pictures())
    archive = tar_bytes(cifar10_pickles(pictures()))
    folder = write_folder({"cifar-10-python.tar.gz": archive[:-2000]}, tmp_path / "data")
    with pytest.raises(DataNotFound, match=r"cifar-10-python\.tar\.gz is (not a whole archive|damaged)"):
        sources.get("cifar10", folder)
    write_folder(cifar10_pickles(pictures()), folder)
    assert sources.get("cifar10", folder).startswith(f"{folder}; after {folder} (cifar-10-python.tar.gz): ")


def test_torchvision_s_folder_of_mnist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    offer(monkeypatch, catalogue.MNIST, digits())
    folder = write_folder({f"MNIST/raw/{name}": data for name, data in idx_files(digits()).items()}, tmp_path)
    assert sources.get("mnist", folder) == str(folder)


def sst_files() -> tuple[dict[str, bytes], dict[str, bytes]]:
    """What the two zips hold, in small; the first has the droppings of a Mac in it as the real one does."""
    names = ["datasetSentences.txt", "datasetSplit.txt", "SOStr.txt", "STree.txt", "sentiment_labels.txt"]
    raw = {name: f"the text of {name}".encode() for name in [*names, "dictionary.txt"]}
    return raw, {f"trees/{part}.txt": f"the trees of {part}".encode() for part in ("train", "dev", "test")}


@pytest.mark.parametrize("unpacked", [False, True])
def test_the_two_zips_of_sst(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, unpacked: bool) -> None:
    raw, trees = sst_files()
    required = {name: data for name, data in {**raw, **trees}.items() if name != "dictionary.txt"}
    offer(monkeypatch, catalogue.SST, required)
    inside = {f"stanfordSentimentTreebank/{name}": data for name, data in raw.items()}
    inside |= {f"__MACOSX/stanfordSentimentTreebank/._{name}": b"mac" for name in raw}
    folder = write_folder({"stanfordSentimentTreebank.zip": zip_bytes(inside)}, tmp_path / "data")
    write_folder(trees if unpacked else {"trainDevTestTrees_PTB.zip": zip_bytes(trees)}, folder)
    others = "" if unpacked else ", trainDevTestTrees_PTB.zip"
    assert sources.get("sst", folder) == f"{folder} (stanfordSentimentTreebank.zip{others})"
    assert cache.path_of("sst", "dictionary.txt").read_bytes() == raw["dictionary.txt"]


def test_the_zip_of_sst_2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = {name: f"the text of {name}".encode() for name in ("train.tsv", "dev.tsv", "test.tsv")}
    offer(monkeypatch, catalogue.SST2, files)
    archive = zip_bytes({f"SST-2/{name}": data for name, data in files.items()})
    folder = write_folder({"glue/SST-2.zip": archive}, tmp_path / "data")
    assert sources.get("sst2", folder) == f"{folder} (SST-2.zip)"


def test_the_tar_of_cifar_10_c_is_proved_by_its_md5(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    archive = tar_bytes(corrupted_files())
    folder = write_folder({"CIFAR-10-C.tar": archive}, tmp_path / "data")
    offer_corrupted(monkeypatch, md5=hashlib.md5(archive).hexdigest())
    assert sources.get("cifar10-c", folder) == f"{folder} (CIFAR-10-C.tar)"
    np.testing.assert_array_equal(cache.load("cifar10-c", "frost"), np.full((100, 32, 32, 3), 8))
    sources.check("cifar10-c")
    offer_corrupted(monkeypatch, md5="0" * 32)
    with pytest.raises(DataNotFound, match=r"CIFAR-10-C\.tar is not the official archive: expected md5 0000"):
        sources.get("cifar10-c", folder, again=True)


def test_cifar_10_c_beside_cifar_100_c(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    offer_corrupted(monkeypatch)
    folder = write_folder({**corrupted_files("a/CIFAR-100-C", 100), **corrupted_files("b/CIFAR-10-C")}, tmp_path / "x")
    assert sources.get("cifar10-c", folder) == str(folder)
    assert set(cache.load("cifar10-c", "labels")) == set(range(10))
    folder = write_folder({**corrupted_files("a", 100), **corrupted_files("b")}, tmp_path / "y")
    assert sources.get("cifar10-c", folder, again=True) == str(folder)
    assert set(cache.load("cifar10-c", "labels")) == set(range(10))


def test_a_part_of_cifar_10_c_is_refused_and_what_is_missing_named(monkeypatch, tmp_path: Path) -> None:
    offer_corrupted(monkeypatch)
    files = corrupted_files()
    for name in ("fog", "labels"):
        del files[f"CIFAR-10-C/{name}.npy"]
    sentence = r"18 of 19 corruptions among 18 files .*, without labels\.npy, fog\.npy"
    with pytest.raises(DataNotFound, match=sentence):
        sources.get("cifar10-c", write_folder(files, tmp_path / "data"))


def test_a_part_that_was_stored_once_is_not_called_right(monkeypatch: pytest.MonkeyPatch) -> None:
    offer_corrupted(monkeypatch)
    cache.store("cifar10-c", [("fog", np.zeros(3, np.uint8)), ("labels", np.zeros(3, np.uint8))], "here", {})
    with pytest.raises(DataMismatch, match=r"1 of 19 corruptions.* poise data get cifar10-c --again"):
        sources.check("cifar10-c")


@pytest.mark.parametrize("name", ["fog", "labels"])
def test_corrupted_pictures_of_a_wrong_shape_are_refused(name: str, monkeypatch, tmp_path: Path) -> None:
    offer_corrupted(monkeypatch)
    folder = write_folder(corrupted_files(**{name: np.zeros(99, np.uint8)}), tmp_path / "data")
    with pytest.raises(DataNotFound, match=f"{name}.npy (is uint8|does not hold 100 labels of 10 classes)"):
        sources.get("cifar10-c", folder)


def test_a_corruption_under_two_names_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    offer_corrupted(monkeypatch)
    same = np.random.default_rng(0).integers(0, 256, (100, 32, 32, 3), dtype=np.uint8)
    folder = write_folder(corrupted_files(fog=same, snow=same), tmp_path / "data")
    with pytest.raises(DataNotFound, match=r"fog\.npy has the same images as snow\.npy: one of them is a copy"):
        sources.get("cifar10-c", folder)
    assert cache.manifest_of("cifar10-c") is None
