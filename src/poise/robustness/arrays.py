"""Corrupted arrays in the layout of CIFAR-10-C: per corruption one .npy, severity after severity, and labels.npy.

Axes: N images, H rows, W columns, S severities.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch

from poise.robustness.output import Making, Progress, claim, silent
from poise.whole import new_file

_AT_ONCE = 2000


def write_arrays(
    images: np.ndarray,
    labels: np.ndarray | None,
    out: Path,
    making: Making,
    device: torch.device | str = "cpu",
    progress: Progress = silent,
) -> None:
    """Write [S * N, H, W, 3] for each corruption; those that are there already are left, so that a killed run goes on.

    images  uint8 [N, H, W, 3]; image i draws the numbers of index i.
    labels  whole numbers [N], 0 or more, or None; written as uint8 or int64, repeated for each severity.
    """
    require_images(images)
    making.require_size(*images.shape[1:3])
    small = None if labels is None else _small(labels, len(images))
    claim(out, making, {"images": _digest(images), "shape": list(images.shape), "labels": _digest(small)})
    total = len(making.corruptions) * len(making.severities) * len(images)
    done = 0
    for name in making.corruptions:
        if not (out / f"{name}.npy").exists():
            _write_one(
                images, name, out, making, device, lambda more, name=name, done=done: progress(name, done + more, total)
            )
        done += len(making.severities) * len(images)
        progress(name, done, total)
    if small is not None and not (out / "labels.npy").exists():
        with new_file(out / "labels.npy", within=out) as stream:
            np.save(stream, np.tile(small, len(making.severities)))


def require_images(images: np.ndarray) -> None:
    """ValueError unless it holds pictures, channels last."""
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3:
        raise ValueError(f"images must be uint8 [N, H, W, 3], got {images.dtype} {list(images.shape)}")


def _small(labels: np.ndarray, count: int) -> np.ndarray:
    """As bytes where they fit; ValueError unless they are whole numbers, 0 or more, one per image."""
    if labels.shape != (count,):
        raise ValueError(f"{count} images need as many labels, got {list(labels.shape)}")
    if labels.dtype.kind not in "iu":
        raise ValueError(f"labels must be whole numbers, got {labels.dtype}")
    if labels.min(initial=0) < 0:
        raise ValueError(f"labels must be 0 or more, got {labels.min()}")
    return labels.astype(np.uint8 if labels.max(initial=0) < 256 else np.int64)


def _digest(array: np.ndarray | None) -> str | None:
    return None if array is None else sha256(np.ascontiguousarray(array).data).hexdigest()


def _write_one(
    images: np.ndarray, name: str, out: Path, making: Making, device: torch.device | str, report: Any
) -> None:
    """A plain stream, not a memory map: on a full disk this is an error and that a crash."""
    header = {
        "descr": "|u1",
        "fortran_order": False,
        "shape": (len(making.severities) * len(images), *images.shape[1:]),
    }
    with new_file(out / f"{name}.npy", within=out) as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        for number, severity in enumerate(making.severities):
            for start in range(0, len(images), _AT_ONCE):
                part = torch.from_numpy(np.array(images[start : start + _AT_ONCE])).to(device)
                index = torch.arange(start, start + len(part))
                changed = making.of(part.permute(0, 3, 1, 2), name, severity, index)
                stream.write(changed.permute(0, 2, 3, 1).contiguous().cpu().numpy().tobytes())
                report(number * len(images) + start + len(part))
