"""Folders and archives that mean harm: {name: what makes one in a folder, and returns what to give to --from}.

The first word is the set that each pretends to be.
"""

from __future__ import annotations

import gzip
import io
import os
import pickle
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from data_sets import (
    cifar10_pickles,
    cifar10_sheets,
    digits,
    idx_bytes,
    idx_files,
    keras_file,
    mnist_pickle_file,
    pictures,
    tar_bytes,
    write_folder,
    zip_bytes,
)

Maker = Callable[[Path], Path]
_MEGABYTE = 2**20
POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 32 32\n(ran) (w) file closefile\nshowpage\n%%EOF\n"


class Bomb:
    """Pickles as something that writes a file called `ran`."""

    def __init__(self, home: Path) -> None:
        self.place = home / "ran"

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.place,)


class Cascade:
    """Pickles as a call."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


def _file(name: str, content: Callable[[Path], bytes]) -> Maker:
    def make(home: Path) -> Path:
        (home / name).write_bytes(content(home))
        return home / name

    return make


def _folder(content: Callable[[Path], dict[str, bytes]]) -> Maker:
    return lambda home: write_folder(content(home), home / "source")


def _changed(files: dict[str, bytes], change: Callable[[bytes], bytes], part: str) -> dict[str, bytes]:
    return {name: change(content) if part in name else content for name, content in files.items()}


def _tar(kind: bytes, target: str, name: str = "train-images-idx3-ubyte.gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, target
        archive.addfile(member)
    return buffer.getvalue()


def _long_name(size: int) -> bytes:
    """A member whose name, a file of its own in the archive, is that long."""
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, size
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1) as out:
        out.write(header.tobuf(tarfile.GNU_FORMAT))
        for _ in range(size // _MEGABYTE):
            out.write(b"a" * _MEGABYTE)
        out.write(tarfile.TarInfo("a").tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    return buffer.getvalue()


def _long_header(size: int) -> bytes:
    """The same with a header of the POSIX format."""
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, size
    line = f"{size} path=".encode()
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1) as out:
        out.write(header.tobuf(tarfile.PAX_FORMAT) + line)
        left = size - len(line) - 1
        for _ in range(left // _MEGABYTE):
            out.write(b"a" * _MEGABYTE)
        out.write(b"a" * (left % _MEGABYTE) + b"\n" + bytes(-size % 512))
        out.write(tarfile.TarInfo("a").tobuf(tarfile.PAX_FORMAT) + bytes(1024))
    return buffer.getvalue()


def _lying_zip(name: str, size: int) -> bytes:
    """A member that unfolds to far more than the archive says."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive, archive.open(name, "w") as out:
        for _ in range(size // _MEGABYTE):
            out.write(bytes(_MEGABYTE))
    content = buffer.getvalue()
    return content.replace(struct.pack("<I", size), struct.pack("<I", 1000))


def _many(count: int) -> bytes:
    return zip_bytes({f"{number}/a": b"" for number in range(count)})


def _special_zip(kind: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        info = zipfile.ZipInfo("train-images-idx3-ubyte.gz")
        info.external_attr = (kind | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    return buffer.getvalue()


def zeros(size: int) -> bytes:
    """Gzip of so many of them."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1) as out:
        for _ in range(size // _MEGABYTE):
            out.write(bytes(_MEGABYTE))
    return buffer.getvalue()


def _pickled(value: Any) -> bytes:
    return gzip.compress(pickle.dumps(value, protocol=2))


def _batch(value: Any) -> dict[str, bytes]:
    return {**cifar10_pickles(pictures()), "cifar-10-batches-py/data_batch_3": pickle.dumps(value, protocol=2)}


def npz_bytes(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def announced(shape: tuple[int, ...]) -> bytes:
    """An .npy whose header announces that much, and nothing else."""
    buffer = io.BytesIO()
    header = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue() + b"x"


def _linked(target: str) -> Maker:
    def make(home: Path) -> Path:
        place = write_folder(idx_files(digits()), home / "source")
        (place / "train-images-idx3-ubyte.gz").unlink()
        (place / "train-images-idx3-ubyte.gz").symlink_to(target)
        return place

    return make


def _pipe(name: str, *without: str) -> Maker:
    def make(home: Path) -> Path:
        place = write_folder({n: c for n, c in idx_files(digits()).items() if n not in without}, home / "source")
        place.mkdir(exist_ok=True)
        os.mkfifo(place / name)
        return place

    return make


def _sparse(home: Path) -> Path:
    place = write_folder(idx_files(digits(), zipped=False), home / "source")
    os.truncate(place / "train-images-idx3-ubyte", 40 * 2**30)
    return place


def _deep(home: Path) -> Path:
    place = home / "source"
    place.joinpath(*["a"] * 900).mkdir(parents=True)
    return place


def _circle(home: Path) -> Path:
    place = write_folder({"a/x": b""}, home / "source")
    (place / "a" / "b").symlink_to(place)
    return place


def _unreadable(home: Path) -> Path:
    place = write_folder({}, home / "source")
    place.mkdir()
    (place / "train-images-idx3-ubyte.gz").mkdir()
    return place


def _odd_names(home: Path) -> Path:
    place = home / "source"
    place.mkdir()
    for name in (b"\xff\xfe", b"a\nb", b"\x1b[2J", "\u202e".encode()):
        Path(os.fsdecode(os.fsencode(place) + b"/" + name)).write_bytes(b"")
    return place


def _flipped(files: dict[str, bytes], part: str) -> dict[str, bytes]:
    return _changed(files, lambda content: bytes([*content[:-9], content[-9] ^ 1, *content[-8:]]), part)


def _bomb_of(kind: str) -> Maker:
    made: dict[str, Callable[[Path], dict[str, bytes]]] = {
        "mnist": lambda home: {"mnist.pkl.gz": _pickled(Bomb(home))},
        "cifar": lambda home: _batch({b"data": Bomb(home), b"labels": []}),
        "npz": lambda home: {"mnist.npz": npz_bytes(x_train=np.array([Bomb(home)]), y_train=0, x_test=0, y_test=0)},
    }
    return _folder(made[kind])


_IDX, _LINE = idx_files(digits()), b"\x00\x00\x08"
_HUGE = _LINE + b"\xff" + b"\x7f\xff\xff\xff" * 255
FOLDERS: dict[str, Maker] = {
    "mnist nothing": _folder(lambda home: {"readme": b""}),
    "mnist empty files": _folder(lambda home: dict.fromkeys(_IDX, b"")),
    "mnist one value less": _folder(lambda home: _changed(_IDX, lambda c: gzip.compress(gzip.decompress(c)[:-1]), "x")),
    "mnist one bit": _folder(lambda home: _flipped(idx_files(digits(), zipped=False), "t10k-images")),
    "mnist labels of another": _folder(
        lambda home: {**_IDX, "t10k-labels-idx1-ubyte.gz": gzip.compress(idx_bytes(np.zeros(20, np.uint8)))}
    ),
    "mnist parts exchanged": _folder(
        lambda home: {name: _IDX[name.replace("t10k", "train")] if "t10k" in name else _IDX[name] for name in _IDX}
    ),
    "mnist rotated": _folder(
        lambda home: idx_files({k: np.ascontiguousarray(np.rot90(v)) if v.ndim > 1 else v for k, v in digits().items()})
    ),
    "mnist shape of the universe": _folder(
        lambda home: {**idx_files(digits(), False), "train-images-idx3-ubyte": _HUGE}
    ),
    "mnist shape below nothing": _folder(
        lambda home: {**idx_files(digits(), False), "train-images-idx3-ubyte": _LINE + b"\x03" + b"\xff" * 12}
    ),
    "mnist gzip bomb": _folder(lambda home: {**_IDX, "train-images-idx3-ubyte.gz": zeros(2000 * _MEGABYTE)}),
    "mnist gzip cut": _folder(lambda home: _changed(_IDX, lambda content: content[:-10], "train")),
    "mnist gzip in gzip": _folder(lambda home: _changed(_IDX, gzip.compress, "train")),
    "mnist pickle": _bomb_of("mnist"),
    "mnist pickle of eval": _folder(lambda home: {"mnist.pkl.gz": _pickled(Cascade(eval, "1"))}),
    "mnist pickle of nothing": _folder(lambda home: {"mnist.pkl.gz": _pickled(None)}),
    "mnist pickle of other parts": _folder(lambda home: {"mnist.pkl.gz": _pickled(((1, 2), (3, 4), (5, 6)))}),
    "mnist pickle cut": _folder(lambda home: _changed(mnist_pickle_file(digits()), lambda c: c[: len(c) // 2], "")),
    "mnist pickle of a far place": _folder(
        lambda home: {"mnist.pkl.gz": gzip.compress(b"\x80\x02]r\xff\xff\xff\x07.")}
    ),
    "mnist pickle without end": _folder(lambda home: {"mnist.pkl.gz": gzip.compress(b"(" * 5_000_000)}),
    "mnist pickle of a huge array": _folder(
        lambda home: {"mnist.pkl.gz": _pickled(Cascade(np.zeros, (10**11,), "u1"))}
    ),
    "mnist npz of objects": _bomb_of("npz"),
    "mnist npz bomb": _folder(
        lambda home: {
            "mnist.npz": npz_bytes(x_train=np.zeros(1500 * _MEGABYTE, np.uint8), y_train=0, x_test=0, y_test=0)
        }
    ),
    "mnist npz of text": _folder(lambda home: {"mnist.npz": zip_bytes({"x_train.npy": b"x" * 99})}),
    "mnist npz that announces": _folder(
        lambda home: {"mnist.npz": zip_bytes(dict.fromkeys(_npz_names(), announced((2**40,))))}
    ),
    "mnist npz of other shapes": _folder(
        lambda home: keras_file({name: array[:3] for name, array in digits().items()})
    ),
    "mnist tar out": _file("a.tar.gz", lambda home: tar_bytes({"../../ran": b"x"})),
    "mnist tar absolute": _file("a.tar.gz", lambda home: tar_bytes({f"{home}/ran": b"x"})),
    "mnist tar link": _file("a.tar.gz", lambda home: _tar(tarfile.SYMTYPE, "/etc/passwd")),
    "mnist tar hard link": _file("a.tar.gz", lambda home: _tar(tarfile.LNKTYPE, "/etc/passwd")),
    "mnist tar device": _file("a.tar.gz", lambda home: _tar(tarfile.CHRTYPE, "")),
    "mnist tar pipe": _file("a.tar.gz", lambda home: _tar(tarfile.FIFOTYPE, "")),
    "mnist tar cut": _file("a.tar.gz", lambda home: tar_bytes(_IDX)[:500]),
    "mnist tar of text": _file("a.tar.gz", lambda home: b"<html>" * 100),
    "mnist tar empty": _file("a.tar.gz", lambda home: b""),
    "mnist tar bomb": _file("a.tar.gz", lambda home: zeros(3000 * _MEGABYTE)),
    "mnist tar of a long name": _file("a.tar.gz", lambda home: _long_name(800 * _MEGABYTE)),
    "mnist tar of a long header": _file("a.tar.gz", lambda home: _long_header(800 * _MEGABYTE)),
    "mnist zip out": _file("a.zip", lambda home: zip_bytes({"../../ran": b"x"})),
    "mnist zip link": _file("a.zip", lambda home: _special_zip(stat.S_IFLNK)),
    "mnist zip device": _file("a.zip", lambda home: _special_zip(stat.S_IFCHR)),
    "mnist zip that lies": _file("a.zip", lambda home: _lying_zip("train-images-idx3-ubyte", 2000 * _MEGABYTE)),
    "mnist zip of many": _file("a.zip", lambda home: _many(100_000)),
    "mnist zip cut": _file("a.zip", lambda home: zip_bytes(_IDX)[:-30]),
    "mnist zip of zips": _file("a.zip", lambda home: zip_bytes({"a.zip": zip_bytes(_IDX)})),
    "mnist a link to zeros": _linked("/dev/zero"),
    "mnist a link to chance": _linked("/dev/urandom"),
    "mnist a link to itself": _linked("train-images-idx3-ubyte.gz"),
    "mnist a link to memory": _linked("/proc/self/mem"),
    "mnist a pipe": _pipe("train-images-idx3-ubyte.gz", "train-images-idx3-ubyte.gz"),
    "mnist a pipe as archive": _pipe("mnist.tar.gz", *_IDX),
    "mnist a huge file": _sparse,
    "mnist deep folders": _deep,
    "mnist folders in a circle": _circle,
    "mnist a folder for a file": _unreadable,
    "mnist odd names": _odd_names,
    "mnist zeros themselves": lambda home: Path("/dev/zero"),
    "mnist the system": lambda home: Path("/proc/self"),
    "mnist nowhere": lambda home: home / "nowhere",
    "mnist a name too long": lambda home: home / ("a" * 5000),
    "mnist a name with nothing": lambda home: home / "a\x00b",
    "cifar10 pickle": _bomb_of("cifar"),
    "cifar10 pickle of a list": _folder(lambda home: _batch([1, 2])),
    "cifar10 pickle of too few": _folder(lambda home: _batch({b"data": np.zeros((1, 3072), np.uint8), b"labels": [1]})),
    "cifar10 pickle of rows": _folder(lambda home: _batch({b"data": np.zeros((10, 5), np.uint8), b"labels": [1] * 10})),
    "cifar10 pickle of names": _folder(lambda home: _batch({b"data": "x", b"labels": "y"})),
    "cifar10 pickle of large labels": _folder(
        lambda home: _batch({b"data": np.zeros((10, 3072), np.uint8), b"labels": [300] * 10})
    ),
    "cifar10 pickle of objects": _folder(lambda home: _batch({b"data": np.array([None] * 10), b"labels": [1] * 10})),
    "cifar10 binaries of half a row": _folder(
        lambda home: {f"data_batch_{n}.bin": b"x" * 3000 for n in range(1, 6)} | {"test_batch.bin": b"x"}
    ),
    "cifar10 sheets of PostScript": _folder(
        lambda home: _changed(cifar10_sheets(pictures()), lambda content: POSTSCRIPT, ".png")
    ),
    "cifar10 sheets cut": _folder(lambda home: _changed(cifar10_sheets(pictures()), lambda c: c[:200], ".png")),
    "cifar10 sheets of text": _folder(lambda home: _changed(cifar10_sheets(pictures()), lambda c: b"x", ".png")),
    "cifar10 sheets that announce": _folder(
        lambda home: _changed(cifar10_sheets(pictures()), lambda c: wide(c, 60_000), "data_batch_1.png")
    ),
    "cifar10 sheets with odd labels": _folder(
        lambda home: _changed(cifar10_sheets(pictures()), lambda c: b'{"a": 1}', ".json")
    ),
    "cifar10 sheets with deep labels": _folder(
        lambda home: _changed(cifar10_sheets(pictures()), lambda c: b"[" * 100_000, ".json")
    ),
    "cifar10 other pictures": _folder(
        lambda home: cifar10_pickles(
            {name: 255 - array if array.ndim > 1 else array for name, array in pictures().items()}
        )
    ),
    "cifar10 another order": _folder(lambda home: cifar10_pickles({n: a[::-1] for n, a in pictures().items()})),
    "cifar10 digits": _folder(lambda home: _IDX),
}


def _npz_names() -> tuple[str, ...]:
    return "x_train.npy", "y_train.npy", "x_test.npy", "y_test.npy"


def wide(png: bytes, side: int) -> bytes:
    """A PNG that announces another size."""
    return png[:16] + struct.pack(">II", side, side) + png[24:]


ARCHIVE = partial(tar_bytes, _IDX)
