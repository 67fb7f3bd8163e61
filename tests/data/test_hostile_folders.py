"""Folders with anything in place of their files: a sentence within a deadline, and the cache stays as it was."""

import gzip
import io
import os
import pickle
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from data_sets import (
    cifar10_binaries,
    cifar10_pickles,
    cifar10_sheets,
    cifar100_pickles,
    corrupted_files,
    digits,
    idx_files,
    keras_file,
    mnist_pickle_file,
    npy,
    offer,
    offer_corrupted,
    pictures,
    png,
    png_folders,
    tar_bytes,
    write_folder,
    zip_bytes,
)
from deadlines import within

from poise.data.sets import catalogue
from poise.data.sets import fetch as sources
from poise.data.sets.layouts import in_canonical_order
from poise.errors import DataNotFound

TEN, HUNDRED = pictures(), pictures(train=60, test=20)
LAYOUTS: dict[str, tuple[str, dict[str, bytes]]] = {
    "idx": ("mnist", idx_files(digits())),
    "bare idx": ("mnist", idx_files(digits(), zipped=False)),
    "npz": ("mnist", keras_file(digits())),
    "a pickle": ("mnist", mnist_pickle_file(digits())),
    "pickles": ("cifar10", cifar10_pickles(TEN)),
    "binaries": ("cifar10", cifar10_binaries(TEN)),
    "sheets": ("cifar10", cifar10_sheets(TEN)),
    "fine pickles": ("cifar100", cifar100_pickles(HUNDRED)),
    "pngs": ("cifar100", png_folders(HUNDRED)),
    "arrays": ("cifar10-c", corrupted_files()),
    "a text": ("bert-vocab", {"vocab.txt": b"[PAD]\n[UNK]\na\n"}),
    "a tar": ("cifar10", {"cifar-10-python.tar.gz": tar_bytes(cifar10_pickles(TEN))}),
    "a zip": ("sst2", {"SST-2.zip": zip_bytes({f"{part}.tsv": b"a\tb\n" for part in ("train", "dev", "test")})}),
}


def flipped(at: int) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[min(at, len(content) - 1)] ^= 0x10
        path.write_bytes(content)

    return damage


def holding(content: bytes | Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.write_bytes(content(path.read_bytes()) if callable(content) else content)

    return damage


def instead(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


def listening(path: Path) -> None:
    """A socket, whose path may not be long."""
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def npz(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


DAMAGES: dict[str, Callable[[Path], None]] = {
    "nothing": Path.unlink,
    "an empty file": holding(b""),
    "one byte": holding(b"\x1f"),
    "zeros": holding(bytes(1000)),
    "text": holding(b"<html>not found</html>\n" * 50),
    "half of it": holding(lambda content: content[: len(content) // 2]),
    "all but a byte": holding(lambda content: content[:-1]),
    "more of it": holding(lambda content: content + bytes(100)),
    "its start twice": holding(lambda content: content[:100] + content),
    "another start": flipped(2),
    "another header": flipped(24),
    "another middle": flipped(300),
    "a folder": instead(Path.mkdir),
    "a link to nothing": instead(lambda path: path.symlink_to("nowhere")),
    "a link to itself": instead(lambda path: path.symlink_to(path.name)),
    "a link to a folder": instead(lambda path: path.symlink_to(".")),
    "a link to a device": instead(lambda path: path.symlink_to("/dev/zero")),
    "a link to a file of any size": instead(lambda path: path.symlink_to("/proc/self/pagemap")),
    "a pipe": instead(lambda path: os.mkfifo(path)),
    "a socket": instead(listening),
    "a large file": lambda path: os.truncate(path, 2**40),
    "objects": holding(pickle.dumps({"data": object})),
    "a pickle of a list": holding(pickle.dumps([1, 2])),
    "a pickle of numbers": holding(pickle.dumps({b"data": 3, b"labels": 4})),
    "a pickle of floats": holding(pickle.dumps({b"data": np.full((10, 3072), np.nan), b"labels": [0] * 10})),
    "other shapes": holding(npy(np.zeros((3, 4, 5), np.uint8))),
    "other types": holding(npy(np.zeros((100, 32, 32, 3), ">f8"))),
    "a picture": holding(png(np.zeros((4, 4, 3), np.uint8))),
    "a large picture": holding(png(np.zeros((2, 60_000), np.uint8))),
    "a picture of many pixels": holding(png(np.zeros((5000, 5000), np.uint8))),
    "a picture of any size": holding(png(np.zeros((4, 4), np.uint8)).replace(bytes([0, 0, 0, 4] * 2), b"\0\1\0\0" * 2)),
    "a damaged picture": holding(png(np.zeros((64, 64, 3), np.uint8))[:-30]),
    "PostScript": holding(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 1 1\n"),
    "a gzip of nothing": holding(gzip.compress(b"")),
    "a gzip of zeros": holding(gzip.compress(bytes(2**20))),
    "an npz of other names": holding(npz(a=np.zeros(3))),
    "an npz of other shapes": holding(
        npz(x_train=np.zeros(3), y_train=np.zeros(()), x_test=np.zeros((2, 2)), y_test=np.zeros(0))
    ),
    "a tar": holding(tar_bytes({"x": b"x"})),
    "a zip": holding(zip_bytes({"x": b"x"})),
}


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, catalogue.MNIST, digits())
    offer(monkeypatch, catalogue.CIFAR10, TEN)
    offer(monkeypatch, catalogue.CIFAR100, in_canonical_order(HUNDRED))
    offer(monkeypatch, catalogue.BERT_VOCAB, LAYOUTS["a text"][1])
    offer(monkeypatch, catalogue.SST2, {f"{part}.tsv": b"a\tb\n" for part in ("train", "dev", "test")})
    offer_corrupted(monkeypatch)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_anything_in_place_of_a_file_is_a_sentence(
    layout: str, damage: str, offered: None, tmp_path: Path, cache_folder: Path
) -> None:
    name, contents = LAYOUTS[layout]
    folder = write_folder(contents, tmp_path / "mine")
    path = folder / sorted(contents)[0]
    DAMAGES[damage](path)
    with within(20):
        try:
            sources.get(name, folder)
        except DataNotFound as error:
            sentence = str(error)
        else:  # what a reader passes over is proved by digests
            sources.check(name)
            return
    assert sentence.startswith(f"{name} could not be obtained. ") and sentence.isprintable()
    assert "cannot be read, " not in sentence  # as would be an error that nobody thought of
    assert [p.name for p in cache_folder.iterdir() if p.suffix != ".lock"] == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_not_damaged_is_read(layout: str, offered: None, tmp_path: Path) -> None:
    name, contents = LAYOUTS[layout]
    sources.get(name, write_folder(contents, tmp_path / "mine"))
    sources.check(name)


def test_a_set_that_is_here_stays_when_a_folder_is_damaged(offered: None, tmp_path: Path, cache_folder: Path) -> None:
    right = write_folder(LAYOUTS["idx"][1], tmp_path / "right")
    wrong = write_folder(dict.fromkeys(LAYOUTS["idx"][1], b""), tmp_path / "wrong")
    sources.get("mnist", right)
    with pytest.raises(DataNotFound):
        sources.get("mnist", wrong, again=True)
    sources.check("mnist")
    assert sorted(p.name for p in cache_folder.iterdir()) == [".mnist.lock", "mnist"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(offered: None, tmp_path: Path) -> None:
    folder = write_folder(LAYOUTS["a text"][1], tmp_path / "mine")
    (folder / "vocab.txt").chmod(0)
    with pytest.raises(DataNotFound, match=r"vocab\.txt cannot be read: Permission denied"):
        sources.get("bert-vocab", folder)


def test_names_of_files_are_shown_without_control_characters(offered: None, tmp_path: Path) -> None:
    folder = write_folder({"\x1b[31mred\n": b"x"}, tmp_path / "mine")
    with pytest.raises(DataNotFound, match=r"among 1 files \(\?\[31mred\)") as caught:
        sources.get("mnist", folder)
    assert str(caught.value).isprintable()
