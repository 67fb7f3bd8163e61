"""Folders that hold several sets, of which one is meant."""

from pathlib import Path

import numpy as np
import pytest
from data_sets import (
    cifar10_binaries,
    cifar10_pickles,
    cifar100_binaries,
    cifar100_pickles,
    digits,
    idx_files,
    offer,
    pictures,
    png_folders,
    write_folder,
    zip_bytes,
)

from poise.data.sets import cache, catalogue
from poise.data.sets import fetch as sources
from poise.data.sets.layouts import in_canonical_order
from poise.errors import DataNotFound


def below(folder: str, files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": data for name, data in files.items()}


def other(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A set of the same form which is another one."""
    return {name: array[::-1].copy() for name, array in arrays.items()}


HUNDRED = pictures(train=60, test=20)
TORCHVISION = {
    **below("FashionMNIST/raw", idx_files(other(digits()), zipped=False)),
    **below("KMNIST/raw", idx_files(other(digits()))),
    **below("MNIST/raw", idx_files(digits(), zipped=False)),
    **cifar10_pickles(pictures()),
    **cifar100_pickles(HUNDRED),
}
BINARIES = {
    **below("cifar-10-batches-bin", cifar10_binaries(pictures())),
    **below("cifar-100-binary", cifar100_binaries(HUNDRED)),
}
ARRAYS = {"mnist": digits(), "cifar10": pictures(), "cifar100": in_canonical_order(HUNDRED)}


@pytest.mark.parametrize(
    ("name", "files"),
    [
        *((name, TORCHVISION) for name in ARRAYS),
        ("cifar10", BINARIES),
        ("cifar100", BINARIES),
        ("mnist", {**below("a", idx_files(other(digits()))), **below("b", idx_files(digits()))}),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_of_several_sets_the_right_one_is_taken(name: str, files, zipped: bool, tmp_path: Path, monkeypatch) -> None:
    offer(monkeypatch, catalogue.CATALOGUE[name], ARRAYS[name])
    root = write_folder({"root.zip": zip_bytes(files)} if zipped else files, tmp_path / "root")
    root = root / "root.zip" if zipped else root
    assert sources.get(name, root) == str(root)
    for item, array in ARRAYS[name].items():
        np.testing.assert_array_equal(cache.load(name, item), array)


def test_glue_s_folder(tmp_path: Path, monkeypatch) -> None:
    files = {name: f"the text of {name}".encode() for name in ("train.tsv", "dev.tsv", "test.tsv")}
    offer(monkeypatch, catalogue.SST2, files)
    wrong = dict.fromkeys(files, b"of another task")
    root = write_folder({**below("CoLA", wrong), **below("SST-2", files)}, tmp_path / "glue_data")
    assert sources.get("sst2", root) == str(root)


def test_reading_pictures_is_told(tmp_path: Path, monkeypatch) -> None:
    offer(monkeypatch, catalogue.CIFAR100, ARRAYS["cifar100"])
    files, seen = png_folders(HUNDRED), []
    folder = write_folder(files, tmp_path / "root")
    sources.get("cifar100", folder, progress=lambda *told: seen.append(told))
    assert len(seen) == len(files)
    assert seen[-1] == ("reading cifar100", sum(map(len, files.values())), None)
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


def test_the_first_place_says_why_none_was_right(tmp_path: Path, monkeypatch) -> None:
    offer(monkeypatch, catalogue.MNIST, digits())
    files = {**below("FashionMNIST/raw", idx_files(other(digits()))), **below("MNIST/raw", {"readme.md": b""})}
    with pytest.raises(DataNotFound, match=r"among 1 files \(MNIST/raw/readme\.md\)"):
        sources.get("mnist", write_folder(files, tmp_path / "root"))


def test_many_folders_of_equal_files_are_refused_before_each_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POISE_DATA", str(tmp_path / "cache"))
    offer(monkeypatch, catalogue.MNIST, digits())
    (tmp_path / "many.zip").write_bytes(zip_bytes({f"{number}/a": b"" for number in range(1200)}))
    with pytest.raises(DataNotFound, match="1,200 folders have files of equal names"):
        sources.get("mnist", tmp_path / "many.zip")
