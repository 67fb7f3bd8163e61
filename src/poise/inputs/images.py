"""Images and tables: data sets of the cache, folders of class folders, and .npz or .npy files.

An .npz contains x and y, and optionally columns, utility and feature names; an .npy has its labels in another .npy.

    pictures   uint8, or floats in [0, 1]; [N, H, W], [N, H, W, C] or [N, C, H, W]
    table      [N, F], as the model takes it; the audit sees its columns standardized, so that sigma means one thing

Axes: N examples, H rows, W columns, C channels, F columns of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from poise.data.loading.pictures import CentreCrop
from poise.data.sets.cache import load, map_npy
from poise.data.sets.catalogue import CLASS_NAMES
from poise.data.sets.folders import KAGGLE, Listing, imagenet_part, in_class_folders
from poise.data.synthetic_mnist import SyntheticMNIST
from poise.errors import AuditError, DataNotFound
from poise.inputs.examples import FARTHEST, AuditExamples, Columns, DamagedExample, read_rows
from poise.io.decoding import as_rgb, open_picture
from poise.io.files import regular

Read: TypeAlias = Callable[[Sequence[int]], Tensor]
SETS = ("mnist", "cifar10", "cifar100", "synthetic-mnist")
_IMAGES, _LABELS = ("x", "images", "image", "data", "arr_0"), ("y", "labels", "label", "targets", "arr_1")
_UTILITY, _FEATURES = "utility", "features"
_SIZE = 224  # for images of different sizes
_LOOKED_AT = 2000  # examples, to estimate the range
_CONSTANT = 1e-12
_MOST_CLASSES = 1_000_000


def open_pictures(
    source: str, labels: Path | None, metadata: Path | None, size: int | None, grey: bool = False
) -> AuditExamples:
    """Open a data set, folder or file; AuditError lists the valid sources. Images of a folder are RGB, or `grey`."""
    path = Path(source)
    if source in SETS:
        found = _set(source)
    elif path.is_dir():
        found = _folder(path, size, grey)
    elif path.suffix in (".npz", ".npy"):
        found = open_arrays(path, labels)
    else:
        raise AuditError(
            f"no data found at {source!r}: use {', '.join(SETS)}, a folder of class folders, an .npz or .npy file, or "
            "sentences in a .tsv, .csv or .jsonl file"
        )
    if metadata is None:
        return found
    columns = read_rows(metadata)
    counts = {name: len(values) for name, values in columns.items() if len(values) != len(found)}
    if counts:
        raise AuditError(
            f"{metadata} has {next(iter(counts.values()))} rows for {len(found)} examples: add one per example"
        )
    return replace(found, columns={**found.columns, **columns})


def _set(name: str) -> AuditExamples:
    if name != "synthetic-mnist":
        found = from_array(f"{name} (test)", load(name, "test_x"), load(name, "test_y"))
        return replace(found, default_names=CLASS_NAMES.get(name, ()))
    parts = ("train_x", "train_y", "test_x", "test_y")
    digits = SyntheticMNIST()({part: load("mnist", part) for part in parts})["test"]
    columns = {"corner": [("none", "digit")[int(corner >= 0)] for corner in digits.corner]}
    return replace(from_array("synthetic MNIST (test)", digits.x, digits.y, columns), rare=range(10, 15))


def _folder(path: Path, size: int | None, grey: bool) -> AuditExamples:
    """Class folders, or ImageNet's validation images. Without `size`, images of one common size keep it; others become
    224 x 224.
    """
    return from_listing(path.name, _listing(path), path, size, grey)


def from_listing(name: str, listing: Listing, home: Path, size: int | None, grey: bool = False) -> AuditExamples:
    """The images of a listing below `home`, at a size as of `_folder`."""
    labels = np.array([label for _, label in listing.pictures])
    common = _common_size([picture for picture, _ in listing.pictures])
    if size is not None and common != (size, size):
        common = None
    wanted = None if common is not None else size or _SIZE

    def read(rows: Sequence[int]) -> Tensor:
        return torch.stack([_picture(listing.pictures[row][0], wanted, common, grey) for row in rows])

    def source(row: int) -> str:
        return listing.pictures[row][0].relative_to(home).as_posix()

    return AuditExamples(name, labels, {}, listing.classes, read, source)


def _listing(path: Path) -> Listing:
    try:
        if any((path / place / "val").is_dir() for place in ("", KAGGLE)):
            return imagenet_part(path, "val")
        return in_class_folders(path)
    except DataNotFound as error:
        raise AuditError(f"{error}: it needs the layout <class>/<image>") from None


def _common_size(paths: Sequence[Path]) -> tuple[int, int] | None:
    """The common size of the images, by a sample of about 500. Unreadable images are reported later."""
    sizes = set()
    for path in paths[:: max(1, len(paths) // 500)]:
        with suppress(Exception), open_picture(path) as opened:
            sizes.add(opened.size)
    return sizes.pop() if len(sizes) == 1 else None


def _picture(path: Path, size: int | None, common: tuple[int, int] | None, grey: bool) -> Tensor:
    try:
        with open_picture(path) as opened:
            picture = as_rgb(opened).convert("L" if grey else "RGB")
            pixels = np.asarray(picture if size is None else CentreCrop(size, round(size * 256 / 224))(picture))
    except Exception as error:  # any error of a decoder on a damaged file
        raise DamagedExample(f"{path} cannot be read as an image: {error}") from None
    if common is not None and picture.size != common:
        raise AuditError(f"{path} is {picture.size[0]} x {picture.size[1]}, unlike other images: set --size")
    return torch.from_numpy(pixels.copy()).reshape(*pixels.shape[:2], -1).permute(2, 0, 1).float() / 255


def open_arrays(path: Path, labels: Path | None) -> AuditExamples:
    """An .npz with x, y, and optionally columns, utility and feature names; or an .npy with its labels."""
    if path.suffix == ".npy":
        if labels is None:
            raise AuditError(f"{path} contains no labels: pass them with --labels FILE.npy")
        x, y = open_array(path), open_array(labels)
        _require_labels(str(labels), y, x)
        return from_array(path.name, x, y)
    with _reading(path), regular(path).open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    return _of_archive(path, arrays)


def _of_archive(path: Path, arrays: dict[str, np.ndarray]) -> AuditExamples:
    x, y = (next((name for name in names if name in arrays), None) for names in (_IMAGES, _LABELS))
    if x is None or y is None:
        raise AuditError(f"{path} contains {', '.join(arrays)}: name the examples x and the labels y")
    others = {name: array for name, array in arrays.items() if name not in (x, y, _UTILITY)}
    columns = {name: [str(v) for v in array] for name, array in others.items() if array.shape == arrays[y].shape}
    features = [str(name) for name in others[_FEATURES]] if _has_feature_names(others, arrays[x]) else []
    lost = [f"{n} {list(a.shape)}" for n, a in others.items() if n not in columns and not (features and n == _FEATURES)]
    notes = (f"ignored arrays of {path.name} that are not columns: {', '.join(lost)}",) if lost else ()
    return from_array(path.name, arrays[x], arrays[y], columns, arrays.get(_UTILITY), features, notes)


def open_array(path: Path) -> np.ndarray:
    """An .npy, mapped from disk; AuditError if it cannot be read."""
    with _reading(path):
        return map_npy(path)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise AuditError(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception:  # any error on a damaged file; NumPy's message would suggest unpickling it
        raise AuditError(
            f"{path} cannot be read: it is damaged, or contains Python objects; save numbers and strings only"
        ) from None


def _has_feature_names(others: dict[str, np.ndarray], x: np.ndarray) -> bool:
    return x.ndim == 2 and _FEATURES in others and others[_FEATURES].shape == x.shape[1:]


def from_array(
    name: str,
    x: np.ndarray,
    labels: np.ndarray,
    columns: Columns | None = None,
    utility: np.ndarray | None = None,
    features: Sequence[str] = (),
    notes: tuple[str, ...] = (),
) -> AuditExamples:
    """Images or a table from an array; AuditError if it is neither."""
    _require_labels(name, labels, x)
    classes = [str(label) for label in range(int(labels.max(initial=0)) + 1)]
    table = x.ndim == 2 and x.dtype.kind in "fiu"
    read, scale, note, last = _table(name, x) if table else _of_pictures(name, x)
    given = None if utility is None else _utility(name, utility, x.shape, last)
    found = AuditExamples(name, np.asarray(labels), columns or {}, classes, read, lambda row: f"row {row}")
    return replace(found, given=given, scale=scale, features=features, notes=(*notes, *note))


def _require_labels(name: str, labels: np.ndarray, x: np.ndarray) -> None:
    if labels.ndim == 1 and x.ndim and len(labels) != len(x):
        raise AuditError(f"{name} has {len(labels)} labels for {len(x)} examples")
    if labels.shape != (len(x) if x.ndim else 0,) or labels.dtype.kind not in "iu":
        raise AuditError(
            f"{name} must have one whole number per example as label, got {labels.dtype} {list(labels.shape)}: turn "
            "the target of a regression into classes"
        )
    if labels.size and int(labels.max()) >= _MOST_CLASSES:
        raise AuditError(f"{name} has label {labels.max()}: number the classes from 0")


def _table(name: str, x: np.ndarray) -> tuple[Read, tuple[Tensor, Tensor], tuple[str, ...], bool]:
    """Standardized columns, with their mean and deviation."""
    mean, deviation = _scale(name, x)
    note = "the audit standardizes the columns, so sigma is in standard deviations; the model gets the original values"
    return lambda rows: (_rows(x, rows) - mean) / deviation, (mean, deviation), (note,), False


def _of_pictures(name: str, x: np.ndarray) -> tuple[Read, None, tuple[str, ...], bool]:
    """Images [B, C, H, W] in [0, 1], and whether the channels are last in the array."""
    last = _channels_last(name, x)
    unit, note = _unit(name, x)
    return lambda rows: _pictures(x, rows, last) / unit, None, note, last


def _channels_last(name: str, x: np.ndarray) -> bool:
    """Whether channels are last; they are first only if no other axis can be the channels."""
    if x.dtype.kind in "fiu":
        if x.ndim == 3 or (x.ndim == 4 and x.shape[3] not in (1, 3) and x.shape[1] in (1, 3)):
            return False
        if x.ndim == 4 and x.shape[3] in (1, 3):
            return True
    raise AuditError(
        f"{name} contains {x.dtype} {list(x.shape)}: it must be images [N, H, W] or [N, H, W, 3], or a table [N, F]"
    )


def _unit(name: str, x: np.ndarray) -> tuple[float, tuple[str, ...]]:
    """The divisor of the values. Floats far outside [0, 1] are refused, since their scale is ambiguous."""
    if x.dtype == np.uint8:
        return 255.0, ()
    low, high = _range(name, x)
    if x.dtype.kind in "iu" and low >= 0 and 1 < high <= 255:
        return 255.0, (f"{name} contains whole numbers up to {high:g}, interpreted as pixels from 0 to 255",)
    if max(-low, high) > FARTHEST:
        raise AuditError(
            f"{name} contains values from {low:g} to {high:g}: save the images as uint8, or as floats in [0, 1]"
        )
    outside = low < 0 or high > 1
    note = f"{name} has values from {low:.3g} to {high:.3g}, but the sigmas of the noise assume [0, 1]"
    return 1.0, (note,) if outside else ()


def _range(name: str, x: np.ndarray) -> tuple[float, float]:
    some = x[:: max(1, len(x) // _LOOKED_AT)]
    low, high = (float(some.min()), float(some.max())) if some.size else (0.0, 0.0)
    if not np.isfinite([low, high]).all():
        raise AuditError(f"{name} has values that are not finite: replace or remove them")
    return low, high


def _rows(x: np.ndarray, rows: Sequence[int]) -> Tensor:
    return torch.from_numpy(np.array(x[list(rows)]).astype(np.float32))


def _pictures(x: np.ndarray, rows: Sequence[int], last: bool) -> Tensor:
    """[B, C, H, W]."""
    part = _rows(x, rows)
    if part.ndim == 3:
        return part[:, None]
    return part.permute(0, 3, 1, 2).contiguous() if last else part


def _scale(name: str, x: np.ndarray) -> tuple[Tensor, Tensor]:
    """The mean and deviation of each column; the deviation of a constant column is 1."""
    some = np.asarray(x[:: max(1, len(x) // _LOOKED_AT)], dtype=float)
    if not np.isfinite(some).all():
        raise AuditError(f"{name} has values that are not finite: replace or remove them")
    spread = some.std(0)
    deviation = np.where(spread > _CONSTANT, spread, 1.0)
    return torch.from_numpy(some.mean(0).astype(np.float32)), torch.from_numpy(deviation.astype(np.float32))


def _utility(name: str, u: np.ndarray, shape: tuple[int, ...], last: bool) -> Read:
    """The utility of every feature, in the layout of x; for images also one value for all channels [N, H, W]."""
    plain = shape[:-1] if last else (shape[0], *shape[2:])
    if u.dtype.kind not in "fiub" or (u.shape != shape and not (len(shape) == 4 and u.shape == plain)):
        raise AuditError(
            f"{name}: utility is {u.dtype} {list(u.shape)}, but x is {list(shape)}: it needs one value per feature"
        )
    if len(shape) == 2:
        return lambda rows: _rows(u, rows)
    channels = 1 if len(shape) == 3 else shape[3] if last else shape[1]

    def given(rows: Sequence[int]) -> Tensor:
        part = _pictures(u, rows, last)
        return part.expand(-1, channels, -1, -1)

    return given
