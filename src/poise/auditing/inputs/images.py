"""Pictures by a word: a set of the cache, a folder of class folders, an .npz or .npy, which may hold a table.

Examples in arrays: pictures or a table in an .npz with their labels, or in an .npy with the labels in another.

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
from PIL import Image
from torch import Tensor

from poise.auditing.inputs.examples import AuditExamples, Columns, DamagedExample, read_rows
from poise.data.sets.cache import load, map_npy
from poise.data.sets.catalogue import CLASS_NAMES
from poise.data.sets.folders import in_class_folders
from poise.data.synthetic_mnist import SyntheticMNIST
from poise.errors import AuditError, DataNotFound
from poise.io.decoding import as_rgb, open_picture
from poise.io.files import regular

Read: TypeAlias = Callable[[Sequence[int]], Tensor]
_IMAGES, _LABELS = ("x", "images", "image", "data", "arr_0"), ("y", "labels", "label", "targets", "arr_1")
_UTILITY, _FEATURES = "utility", "features"
_LOOKED_AT = 2000  # examples, for their range
_FAR = 16.0  # no picture that was normalized has values beyond
_CONSTANT = 1e-12


def open_arrays(path: Path, labels: Path | None) -> AuditExamples:
    """An .npz with x, y, and columns, utility and names of features beside them; or an .npy with its labels."""
    if path.suffix == ".npy":
        if labels is None:
            raise AuditError(f"{path} holds examples alone: give their labels with --labels FILE.npy")
        x, y = _array(path), _array(labels)
        _require_labels(str(labels), y, x)
        return from_array(path.name, x, y)
    with _reading(path), regular(path).open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    return _of_archive(path, arrays)


def _of_archive(path: Path, arrays: dict[str, np.ndarray]) -> AuditExamples:
    x, y = (next((name for name in names if name in arrays), None) for names in (_IMAGES, _LABELS))
    if x is None or y is None:
        raise AuditError(f"{path} holds {', '.join(arrays)}: call the pictures x and the labels y")
    others = {name: array for name, array in arrays.items() if name not in (x, y, _UTILITY)}
    columns = {name: [str(v) for v in array] for name, array in others.items() if array.shape == arrays[y].shape}
    features = [str(name) for name in others[_FEATURES]] if _has_feature_names(others, arrays[x]) else []
    lost = [f"{n} {list(a.shape)}" for n, a in others.items() if n not in columns and not (features and n == _FEATURES)]
    notes = (f"arrays of {path.name} that are no columns were left out: {', '.join(lost)}",) if lost else ()
    return from_array(path.name, arrays[x], arrays[y], columns, arrays.get(_UTILITY), features, notes)


def _array(path: Path) -> np.ndarray:
    with _reading(path):
        return map_npy(path)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise AuditError(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception:  # whatever a damaged file makes numpy raise, whose words would have the user unpickle it
        raise AuditError(
            f"{path} cannot be read: it is damaged, or holds Python objects; save numbers and strings"
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
    """Pictures or a table; an AuditError where it is neither."""
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
        raise AuditError(f"{name} needs one whole number as label per example, got {labels.dtype} {list(labels.shape)}")


def _table(name: str, x: np.ndarray) -> tuple[Read, tuple[Tensor, Tensor], tuple[str, ...], bool]:
    """Columns standardized, and by what."""
    mean, deviation = _scale(name, x)
    note = "the columns are standardized for the audit, and the model sees them as they are: sigma is in deviations"
    return lambda rows: (_rows(x, rows) - mean) / deviation, (mean, deviation), (note,), False


def _of_pictures(name: str, x: np.ndarray) -> tuple[Read, None, tuple[str, ...], bool]:
    """Pictures [B, C, H, W] in [0, 1], and whether their channels lie last in the array."""
    last = _channels_last(name, x)
    unit, note = _unit(name, x)
    return lambda rows: _pictures(x, rows, last) / unit, None, note, last


def _channels_last(name: str, x: np.ndarray) -> bool:
    """They are first only if that axis alone can be the channels."""
    if x.dtype.kind in "fiu":
        if x.ndim == 3 or (x.ndim == 4 and x.shape[3] not in (1, 3) and x.shape[1] in (1, 3)):
            return False
        if x.ndim == 4 and x.shape[3] in (1, 3):
            return True
    raise AuditError(
        f"{name} holds {x.dtype} {list(x.shape)}, not pictures [N, H, W] or [N, H, W, 3], nor a table [N, F]"
    )


def _unit(name: str, x: np.ndarray) -> tuple[float, tuple[str, ...]]:
    """What the values are divided by; floats far outside [0, 1] are refused, since the model may mean either."""
    if x.dtype == np.uint8:
        return 255.0, ()
    low, high = _range(name, x)
    if x.dtype.kind in "iu" and low >= 0 and 1 < high <= 255:
        return 255.0, (f"{name} holds whole numbers up to {high:g}, taken for pixels of 0 to 255",)
    if max(-low, high) > _FAR:
        raise AuditError(
            f"{name} holds pictures with values from {low:g} to {high:g}: save them as uint8, or as floats in [0, 1]"
        )
    outside = low < 0 or high > 1
    note = f"{name} has values from {low:.3g} to {high:.3g}: sigma is meant for pictures in [0, 1]"
    return 1.0, (note,) if outside else ()


def _range(name: str, x: np.ndarray) -> tuple[float, float]:
    some = x[:: max(1, len(x) // _LOOKED_AT)]
    low, high = (float(some.min()), float(some.max())) if some.size else (0.0, 0.0)
    if not np.isfinite([low, high]).all():
        raise AuditError(f"{name} has values that are not finite: fill or drop them first")
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
    """Mean and deviation of each column; 1 for one that is constant."""
    some = np.asarray(x[:: max(1, len(x) // _LOOKED_AT)], dtype=float)
    if not np.isfinite(some).all():
        raise AuditError(f"{name} has values that are not finite: fill or drop them first")
    spread = some.std(0)
    deviation = np.where(spread > _CONSTANT, spread, 1.0)
    return torch.from_numpy(some.mean(0).astype(np.float32)), torch.from_numpy(deviation.astype(np.float32))


def _utility(name: str, u: np.ndarray, shape: tuple[int, ...], last: bool) -> Read:
    """Of every feature, laid out as x; of pictures also one for all channels [N, H, W]."""
    plain = shape[:-1] if last else (shape[0], *shape[2:])
    if u.dtype.kind not in "fiub" or (u.shape != shape and not (len(shape) == 4 and u.shape == plain)):
        raise AuditError(f"{name}: utility is {u.dtype} {list(u.shape)}, but x is {list(shape)}: give one per feature")
    if len(shape) == 2:
        return lambda rows: _rows(u, rows)
    channels = 1 if len(shape) == 3 else shape[3] if last else shape[1]

    def given(rows: Sequence[int]) -> Tensor:
        part = _pictures(u, rows, last)
        return part.expand(-1, channels, -1, -1)

    return given


SETS = ("mnist", "cifar10", "cifar100", "synthetic-mnist")
_SIZE = 224  # of pictures of many sizes


def open_pictures(
    source: str, labels: Path | None, metadata: Path | None, size: int | None, grey: bool = False
) -> AuditExamples:
    """What the word means; an AuditError says what it could have been. Pictures of a folder are RGB, or `grey`."""
    path = Path(source)
    if source in SETS:
        found = _set(source)
    elif path.is_dir():
        found = _folder(path, size, grey)
    elif path.suffix in (".npz", ".npy"):
        found = open_arrays(path, labels)
    else:
        raise AuditError(
            f"no data are found under {source!r}: name {', '.join(SETS)}, a folder of class folders, an .npz or .npy, "
            "or sentences as .tsv, .csv or .jsonl"
        )
    if metadata is None:
        return found
    columns = read_rows(metadata)
    counts = {name: len(values) for name, values in columns.items() if len(values) != len(found)}
    if counts:
        raise AuditError(f"{metadata} has {next(iter(counts.values()))} rows for {len(found)} examples, in their order")
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
    """Class folders. Without a size, pictures that are all of one are left as they are; others become 224 x 224."""
    try:
        listing = in_class_folders(path)
    except DataNotFound as error:
        raise AuditError(f"{error}: it needs the layout <class>/<picture>") from None
    labels = np.array([label for _, label in listing.pictures])
    common = None if size is not None else _common_size([picture for picture, _ in listing.pictures])
    wanted = size or (None if common is not None else _SIZE)

    def read(rows: Sequence[int]) -> Tensor:
        return torch.stack([_picture(listing.pictures[row][0], wanted, common, grey) for row in rows])

    def source(row: int) -> str:
        return listing.pictures[row][0].relative_to(path).as_posix()

    return AuditExamples(path.name, labels, {}, listing.classes, read, source)


def _common_size(paths: Sequence[Path]) -> tuple[int, int] | None:
    """That of all of them, as far as some hundreds tell; what cannot be read is named when its turn comes."""
    sizes = set()
    for path in paths[:: max(1, len(paths) // 500)]:
        with suppress(Exception), open_picture(path) as opened:
            sizes.add(opened.size)
    return sizes.pop() if len(sizes) == 1 else None


def _cut(picture: Image.Image, size: int) -> Image.Image:
    """Scaled by the short side and cut from the middle, as for ImageNet."""
    short, target = min(picture.size), round(size * 256 / 224)
    width, height = (max(size, round(side * target / short)) for side in picture.size)
    left, top = (width - size) // 2, (height - size) // 2
    scaled = picture.resize((width, height), Image.Resampling.BILINEAR)
    return scaled.crop((left, top, left + size, top + size))


def _picture(path: Path, size: int | None, common: tuple[int, int] | None, grey: bool) -> Tensor:
    try:
        with open_picture(path) as opened:
            picture = as_rgb(opened).convert("L" if grey else "RGB")
            pixels = np.asarray(picture if size is None else _cut(picture, size))
    except Exception as error:  # whatever a damaged file makes a decoder raise
        raise DamagedExample(f"{path} cannot be read as a picture: {error}") from None
    if common is not None and picture.size != common:
        raise AuditError(f"{path} is {picture.size[0]} x {picture.size[1]}, others are not: say --size")
    return torch.from_numpy(pixels.copy()).reshape(*pixels.shape[:2], -1).permute(2, 0, 1).float() / 255
