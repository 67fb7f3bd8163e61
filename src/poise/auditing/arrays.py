"""Examples in arrays: pictures or a table in an .npz with their labels, or in an .npy with the labels in another.

    pictures   uint8, or floats in [0, 1]; [N, H, W], [N, H, W, C] or [N, C, H, W]
    table      [N, F], as the model takes it; the audit sees its columns standardized, so that sigma means one thing

Axes: N examples, H rows, W columns, C channels, F columns of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from poise.auditing.errors import AuditError
from poise.auditing.examples import Examples
from poise.auditing.rows import Columns
from poise.reporting.audits import DAMAGES

Read: TypeAlias = Callable[[Sequence[int]], Tensor]
_IMAGES, _LABELS = ("x", "images", "image", "data", "arr_0"), ("y", "labels", "label", "targets", "arr_1")
_UTILITY, _FEATURES = "utility", "features"
_LOOKED_AT = 2000  # examples, for their range
_FAR = 16.0  # no picture that was normalized has values beyond
_CONSTANT = 1e-12


def open_arrays(path: Path, labels: Path | None) -> Examples:
    """An .npz with x, y, and columns, utility and names of features beside them; or an .npy with its labels."""
    try:
        if path.suffix == ".npy":
            if labels is None:
                raise AuditError(f"{path} holds examples alone: give their labels with --labels FILE.npy")
            return from_array(path.name, np.load(path, mmap_mode="r"), np.load(labels))
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except OSError as error:
        raise AuditError(f"{path} cannot be read: {error.strerror or error}") from None
    except DAMAGES:  # numpy's own words would have the user unpickle it
        raise AuditError(
            f"{path} cannot be read: it is damaged, or holds Python objects; save numbers and strings"
        ) from None
    x, y = (next((name for name in names if name in arrays), None) for names in (_IMAGES, _LABELS))
    if x is None or y is None:
        raise AuditError(f"{path} holds {', '.join(arrays)}: call the pictures x and the labels y")
    others = {name: array for name, array in arrays.items() if name not in (x, y, _UTILITY)}
    columns = {name: [str(v) for v in array] for name, array in others.items() if array.shape == arrays[y].shape}
    features = [str(name) for name in others[_FEATURES]] if _named(others, arrays[x]) else []
    lost = [f"{n} {list(a.shape)}" for n, a in others.items() if n not in columns and not (features and n == _FEATURES)]
    notes = (f"arrays of {path.name} that are no columns were left out: {', '.join(lost)}",) if lost else ()
    return from_array(path.name, arrays[x], arrays[y], columns, arrays.get(_UTILITY), features, notes)


def _named(others: dict[str, np.ndarray], x: np.ndarray) -> bool:
    return x.ndim == 2 and _FEATURES in others and others[_FEATURES].shape == x.shape[1:]


def from_array(
    name: str,
    x: np.ndarray,
    labels: np.ndarray,
    columns: Columns | None = None,
    utility: np.ndarray | None = None,
    features: Sequence[str] = (),
    notes: tuple[str, ...] = (),
) -> Examples:
    """Pictures or a table; an AuditError where it is neither."""
    if labels.ndim == 1 and x.ndim and len(labels) != len(x):
        raise AuditError(f"{name} has {len(labels)} labels for {len(x)} examples")
    if labels.shape != (len(x) if x.ndim else 0,) or labels.dtype.kind not in "iu":
        raise AuditError(f"{name} needs one whole number as label per example, got {labels.dtype} {list(labels.shape)}")
    classes = [str(label) for label in range(int(labels.max(initial=0)) + 1)]
    table = x.ndim == 2 and x.dtype.kind in "fiu"
    read, scale, told, last = _table(name, x) if table else _of_pictures(name, x)
    given = None if utility is None else _utility(name, utility, x.shape, last)
    found = Examples(name, np.asarray(labels), columns or {}, classes, read, lambda row: f"row {row}")
    return replace(found, given=given, scale=scale, features=features, notes=(*notes, *told))


def _table(name: str, x: np.ndarray) -> tuple[Read, tuple[Tensor, Tensor], tuple[str, ...], bool]:
    """Columns standardized, and by what."""
    mean, deviation = _scale(name, x)
    told = "the columns are standardized for the audit, and the model sees them as they are: sigma is in deviations"
    return lambda rows: (_rows(x, rows) - mean) / deviation, (mean, deviation), (told,), False


def _of_pictures(name: str, x: np.ndarray) -> tuple[Read, None, tuple[str, ...], bool]:
    """Pictures [B, C, H, W] in [0, 1], and whether their channels lie last in the array."""
    last = _channels_last(name, x)
    unit, told = _unit(name, x)
    return lambda rows: _pictures(x, rows, last) / unit, None, told, last


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
    told = f"{name} has values from {low:.3g} to {high:.3g}: sigma is meant for pictures in [0, 1]"
    return 1.0, (told,) if outside else ()


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
