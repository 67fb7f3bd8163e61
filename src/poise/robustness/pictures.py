"""Corrupted pictures in the layout of ImageNet-C: out/<corruption>/<severity>/<the picture's own path>.

Axes: B pictures, H rows, W columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from poise.corruptions.corrupt import corrupt
from poise.robustness.output import Making, OutputError, Progress, claim, new_file, silent

_ENDINGS = {".png", ".jpg", ".jpeg", ".bmp", ".webp"}
_AT_ONCE = 32


def write_pictures(
    source: Path,
    out: Path,
    making: Making,
    resize: bool = True,
    device: torch.device | str = "cpu",
    progress: Progress = silent,
) -> dict[str, str]:
    """Corrupt every picture under a folder; returns {path: why} of those that cannot be read.

    resize        as the profile's data set was made: "imagenet" cuts 224 x 224 from the middle of the picture scaled to
                  256 pixels, "tiny" scales to 64 x 64, "cifar" changes nothing.
    making.jpeg   quality of the JPEG files written; None writes PNG.

    Picture i in the order of paths draws the numbers of index i. Pictures with all their files are left, so that a
    killed run goes on.
    """
    paths = find_pictures(source)
    claim(out, making, {"pictures": len(paths), "resize": resize, "first": str(paths[0]) if paths else None})
    unreadable: dict[str, str] = {}
    total, done = len(paths), 0
    with ThreadPoolExecutor() as workers:
        for start in range(0, total, _AT_ONCE):
            ids = range(start, min(start + _AT_ONCE, total))
            todo = [i for i in ids if not all(path.exists() for path in _outputs(out, paths[i], making))]
            loaded = workers.map(lambda i: _load(source / paths[i], making.profile if resize else "cifar"), todo)
            good: list[tuple[int, np.ndarray]] = []
            for i, picture in zip(todo, loaded, strict=True):
                if isinstance(picture, str):
                    unreadable[str(paths[i])] = picture
                else:
                    good.append((i, picture))
            for _, same in groupby(good, key=lambda pair: pair[1].shape):
                _write_batch(list(same), paths, out, making, device, workers)
            done += len(ids)
            progress(str(paths[ids[-1]].parent), done, total)
    return unreadable


def find_pictures(source: Path) -> list[Path]:
    """The pictures under a folder, in the order of their paths."""
    found = sorted(path.relative_to(source) for path in source.rglob("*") if path.suffix.lower() in _ENDINGS)
    if not found:
        raise OutputError(f"no picture ({', '.join(sorted(_ENDINGS))}) is in {source}")
    return found


def as_profile(picture: Image.Image, profile: str) -> Image.Image:
    """Cut and scaled as the images of this profile were."""
    if profile == "tiny":
        return picture.resize((64, 64), Image.Resampling.BILINEAR)
    if profile == "imagenet":
        short = min(picture.size)
        width, height = (int(256 * side / short) for side in picture.size)
        picture = picture.resize((width, height), Image.Resampling.BILINEAR)
        left, top = round((width - 224) / 2), round((height - 224) / 2)
        return picture.crop((left, top, left + 224, top + 224))
    return picture


def _load(path: Path, profile: str) -> np.ndarray | str:
    """The pixels [H, W, 3], or why there are none."""
    try:
        with Image.open(path) as picture:
            return np.asarray(as_profile(picture.convert("RGB"), profile))
    except Exception as error:  # whatever a damaged file makes a decoder raise
        return f"{type(error).__name__}: {error}"


def _outputs(out: Path, path: Path, making: Making) -> Iterator[Path]:
    for name in making.corruptions:
        for severity in making.severities:
            yield _output(out, name, severity, path, making)


def _output(out: Path, name: str, severity: int, path: Path, making: Making) -> Path:
    """A picture keeps its name; the ending follows what is written."""
    endings = {".jpg", ".jpeg"} if making.jpeg is not None else {".png"}
    kept = path if path.suffix.lower() in endings else path.with_suffix(".jpg" if making.jpeg is not None else ".png")
    return out / name / str(severity) / kept


def _write_batch(
    batch: list[tuple[int, np.ndarray]],
    paths: list[Path],
    out: Path,
    making: Making,
    device: torch.device | str,
    workers: ThreadPoolExecutor,
) -> None:
    ids = [i for i, _ in batch]
    images = torch.from_numpy(np.stack([picture for _, picture in batch])).permute(0, 3, 1, 2).to(device)
    for name in making.corruptions:
        for severity in making.severities:
            changed = corrupt(
                images, name, severity, making.profile, seed=making.seed, index=ids, rounding=making.rounding
            )
            pixels = changed.permute(0, 2, 3, 1).contiguous().cpu().numpy()
            targets = [_output(out, name, severity, paths[i], making) for i in ids]
            list(workers.map(_save, targets, pixels, [making.jpeg] * len(ids)))


def _save(path: Path, pixels: np.ndarray, quality: int | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with new_file(path) as stream:
        if quality is None:
            Image.fromarray(pixels).save(stream, "PNG")
        else:
            Image.fromarray(pixels).save(stream, "JPEG", quality=quality, optimize=True)
