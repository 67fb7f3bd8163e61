"""Folders that hold the official archives themselves, as a download or torchvision leaves them."""

import hashlib
import io
from pathlib import Path

import numpy as np
import pytest
from data_sets import (
    cifar10_pickles,
    cifar100_pickles,
    digits,
    idx_files,
    offer,
    pictures,
    tar_bytes,
    write_folder,
    zip_bytes,
)

from poise.data import cache, catalogue, sources
from poise.data.errors import DataNotFound
from poise.data.layouts import in_canonical_order


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


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def test_the_tar_of_cifar_10_c_is_proved_by_its_md5(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    labels = npy(np.tile(np.arange(10), 5000))
    archive = tar_bytes(
        {"CIFAR-10-C/fog.npy": npy(np.zeros((50000, 32, 32, 3), np.uint8)), "CIFAR-10-C/labels.npy": labels}
    )
    folder = write_folder({"CIFAR-10-C.tar": archive}, tmp_path / "data")
    offer(monkeypatch, catalogue.CIFAR10_C, {}, md5=hashlib.md5(archive).hexdigest())
    assert sources.get("cifar10-c", folder) == f"{folder} (CIFAR-10-C.tar)"
    assert cache.load("cifar10-c", "fog").shape == (50000, 32, 32, 3)
    offer(monkeypatch, catalogue.CIFAR10_C, {}, md5="0" * 32)
    with pytest.raises(DataNotFound, match=r"CIFAR-10-C\.tar is not the official archive: expected md5 0000"):
        sources.get("cifar10-c", folder, again=True)
