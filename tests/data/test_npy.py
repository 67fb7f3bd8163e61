"""Arrays of .npy files: any other bit in a header is said, by every reader."""

import io
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from data_sets import npy
from deadlines import within

from poise.cli.run_corrupt import arrays
from poise.corruptions.write import OutputError
from poise.data.sets import cache
from poise.data.sets.cache import map_npy, npy_from
from poise.data.sets.layouts import read_npy
from poise.errors import AuditError, DataError, DataMismatch
from poise.inputs.images import open_arrays

ARRAY = np.arange(60 * 16, dtype=np.uint8).reshape(60, 4, 4)


@pytest.mark.parametrize("shape", [(), (3,), (0, 2), (2, 3)])
@pytest.mark.parametrize("dtype", ["|u1", ">i4", "<f8", "<U3"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_they_are_read_as_numpy_reads_them(tmp_path: Path, shape: tuple[int, ...], dtype: str, order: str) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype).copy(order=order)
    np.save(tmp_path / "a.npy", array)
    for read in (map_npy(tmp_path / "a.npy"), npy_from(npy(array))):
        assert read.dtype == array.dtype and np.array_equal(read, array)
        assert read.flags.f_contiguous == array.flags.f_contiguous


@pytest.mark.parametrize("version", [(2, 0), (3, 0)])
def test_later_versions_of_the_format_are_read(version: tuple[int, int]) -> None:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, ARRAY, version=version)
    assert np.array_equal(npy_from(stream.getvalue()), ARRAY)


def as_item(path: Path) -> np.ndarray:
    return cache.load("mnist", "x")


def as_audited(path: Path) -> np.ndarray:
    return open_arrays(path, path.with_name("labels.npy")).read(range(60)).numpy()


READERS = {
    "given to get": lambda path: read_npy("x.npy", path.read_bytes()),
    "cached": as_item,
    "audited": as_audited,
    "corrupted": lambda path: arrays(str(path))[0],
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_flipped_bit_in_a_header_is_a_sentence_or_harmless(read: Callable[[Path], np.ndarray]) -> None:
    pixels = np.arange(60 * 8 * 8 * 3, dtype=np.uint8).reshape(60, 8, 8, 3)
    cache.store("mnist", [("x", pixels)], "here", {})
    path = cache.root() / "mnist" / "x.npy"
    np.save(path.with_name("labels.npy"), np.zeros(60, np.int64))
    whole, right, refused = path.read_bytes(), read(path).copy(), 0
    for bit in range(128 * 8):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            assert np.array_equal(read(path), right)
        except (DataError, AuditError, OutputError, TypeError):
            refused += 1
    assert refused > 900


def test_the_file_that_is_damaged_is_named(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", ARRAY)
    (tmp_path / "labels.npy").write_bytes(npy(np.zeros(60, int))[:-1])
    with pytest.raises(AuditError, match=r"labels\.npy cannot be read: it is damaged"):
        open_arrays(tmp_path / "x.npy", tmp_path / "labels.npy")


def test_a_header_that_announces_much_takes_no_memory() -> None:
    large = io.BytesIO()
    np.lib.format.write_array_header_1_0(large, {"descr": "|u1", "fortran_order": False, "shape": (10**12,)})
    with pytest.raises(DataMismatch, match=r"x\.npy is not an intact \.npy file: uint8 \(1000000000000,\) needs"):
        read_npy("x.npy", large.getvalue())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.npy")
    os.mkfifo(tmp_path / "x.npz")
    np.save(tmp_path / "labels.npy", np.zeros(60, int))
    for name in ("x.npy", "x.npz"):
        with within(5), pytest.raises(AuditError, match=f"{name} cannot be read: it is a pipe, not a file"):
            open_arrays(tmp_path / name, tmp_path / "labels.npy")
    with within(5), pytest.raises(OSError, match="it is a pipe, not a file"):
        arrays(str(tmp_path / "x.npy"))
