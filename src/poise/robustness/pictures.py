"""Corrupted pictures in the layout of ImageNet-C: out/<corruption>/<severity>/<the picture's own path>.

Axes: B pictures, H rows, W columns.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from PIL import Image

from poise.robustness.gallery import Gallery, open_gallery
from poise.robustness.output import Making, Progress, claim, silent
from poise.whole import new_file

Numbered: TypeAlias = "tuple[int, np.ndarray]"
_AT_ONCE = 32


def write_pictures(
    source: Path,
    out: Path,
    making: Making,
    resize: bool = True,
    device: torch.device | str = "cpu",
    progress: Progress = silent,
) -> dict[str, str]:
    """Corrupt a picture, or every one under a folder; returns {path: why} of those that are skipped.

    resize        as the profile's data set was made: "imagenet" cuts 224 x 224 from the middle of the picture scaled to
                  256 pixels, "tiny" scales to 64 x 64, "cifar" changes nothing.
    making.jpeg   quality of the JPEG files written; None writes PNG.

    Picture i in the order of paths draws the numbers of index i. Pictures with all their files are left, so that a
    killed run goes on. Skipped is what cannot be read, and what is too small or too large for one of the corruptions.
    """
    require_outside(source, out)
    gallery = open_gallery(source)
    claim(out, making, {"pictures": gallery.digest(), "resize": resize})
    names = output_names(gallery.paths, making.jpeg is not None)
    skipped: dict[str, str] = {}
    with ThreadPoolExecutor() as workers:
        for start in range(0, len(gallery), _AT_ONCE):
            ids = range(start, min(start + _AT_ONCE, len(gallery)))
            todo = [i for i in ids if not _is_whole(out, names[i], making)]
            good, bad = _load(gallery, todo, making, resize, workers)
            skipped.update(bad)
            for _, same in groupby(good, key=lambda pair: pair[1].shape):
                _write_batch(list(same), names, out, making, device, workers)
            progress(str(gallery.paths[ids[-1]].parent), ids.stop, len(gallery))
    return skipped


def require_outside(source: Path, out: Path) -> None:
    """ValueError for an output among the pictures: a second run would take it for some of them."""
    if source.is_dir() and out.resolve().is_relative_to(source.resolve()):
        raise ValueError(f"{out} lies in {source}, whose pictures are to be corrupted: choose a folder outside of it")


def load_fitting(gallery: Gallery, number: int, making: Making, resize: bool) -> np.ndarray | str:
    """The pixels [H, W, 3] of a picture that every corruption can take, or why there are none."""
    picture = gallery.load(number, making.profile if resize else "cifar")
    try:
        if not isinstance(picture, str):
            making.require_size(*picture.shape[:2])
    except ValueError as error:
        return str(error)
    return picture


def output_names(paths: tuple[Path, ...], jpeg: bool) -> list[Path]:
    """A picture keeps its name; the ending follows what is written.

    Pictures of one name and different endings keep them: of a.bmp, a.jpg and a.png come a.bmp.jpg, a.jpg and a.png.jpg.
    """
    endings = {".jpg", ".jpeg"} if jpeg else {".png"}
    ending = ".jpg" if jpeg else ".png"
    plain = {path: path if path.suffix.lower() in endings else path.with_suffix(ending) for path in paths}
    shared = Counter(plain.values())
    taken = {path for path in paths if plain[path] == path}
    names = []
    for path, name in plain.items():
        if name != path:
            name = name if shared[name] == 1 else path.with_name(path.name + ending)
            while name in taken:
                name = name.with_name(name.name + ending)
            taken.add(name)
        names.append(name)
    return names


def _is_whole(out: Path, name: Path, making: Making) -> bool:
    places = (out / which / str(severity) for which in making.corruptions for severity in making.severities)
    return all((place / name).exists() for place in places)


def _load(
    gallery: Gallery, ids: list[int], making: Making, resize: bool, workers: ThreadPoolExecutor
) -> tuple[list[Numbered], dict[str, str]]:
    """The pictures that can be corrupted, and why the others cannot."""
    good, bad = [], {}
    for i, picture in zip(ids, workers.map(lambda i: load_fitting(gallery, i, making, resize), ids), strict=True):
        if isinstance(picture, str):
            bad[str(gallery.paths[i])] = picture
        else:
            good.append((i, picture))
    return good, bad


def _write_batch(
    batch: list[Numbered],
    names: list[Path],
    out: Path,
    making: Making,
    device: torch.device | str,
    workers: ThreadPoolExecutor,
) -> None:
    ids = [i for i, _ in batch]
    images = torch.from_numpy(np.stack([picture for _, picture in batch])).permute(0, 3, 1, 2).to(device)
    for name in making.corruptions:
        for severity in making.severities:
            changed = making.of(images, name, severity, ids, jpeg=False)
            pixels = changed.permute(0, 2, 3, 1).contiguous().cpu().numpy()
            targets = [Path(name, str(severity), names[i]) for i in ids]
            list(workers.map(_save, [out] * len(ids), targets, pixels, [making.jpeg] * len(ids)))


def _save(out: Path, name: Path, pixels: np.ndarray, quality: int | None) -> None:
    with new_file(out / name, within=out) as stream:
        if quality is None:
            Image.fromarray(pixels).save(stream, "PNG")
        else:
            Image.fromarray(pixels).save(stream, "JPEG", quality=quality, optimize=True)
