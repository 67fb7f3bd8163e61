"""What `poise corrupt` is given: a set of the cache, an .npy file, a folder of pictures, or one picture.

Axes: N images, H rows, W columns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from poise.data.cache import load
from poise.robustness.arrays import require_images
from poise.robustness.gallery import open_gallery
from poise.robustness.output import Making, OutputError
from poise.robustness.pictures import load_fitting

SETS = ("cifar10", "cifar100")


def require_there(source: str) -> None:
    """OutputError unless the source is a set, a file or a folder."""
    if source not in SETS and not Path(source).exists():
        raise OutputError(f"{source} does not exist: name {', '.join(SETS)}, an .npy file, a folder or a picture")


def is_array(source: str) -> bool:
    """Whether its images lie in one array."""
    return source in SETS or source.endswith(".npy")


def arrays(source: str, labels: Path | None = None) -> tuple[np.ndarray, np.ndarray | None]:
    """Images uint8 [N, H, W, 3], and labels where there are some."""
    if source in SETS:
        return load(source, "test_x"), load(source, "test_y")
    images = _npy(Path(source))
    require_images(images)
    return images, None if labels is None else _npy(labels)


def one_image(source: str, number: int, making: Making, resize: bool) -> np.ndarray:
    """uint8 [H, W, 3]; they are counted as `--out` counts them."""
    if is_array(source):
        return np.array(_pick(arrays(source)[0], number))
    gallery = open_gallery(Path(source))
    path = _pick(gallery.paths, number)
    picture = load_fitting(gallery, number, making, resize)
    if isinstance(picture, str):
        raise OutputError(f"{gallery.home / path}: {picture}")
    return picture


def _pick(things: Any, number: int) -> Any:
    if not 0 <= number < len(things):
        count = f"they are counted from 0 to {len(things) - 1}" if len(things) else "the source is empty"
        raise ValueError(f"there is no image {number}: {count}")
    return things[number]


def _npy(path: Path) -> np.ndarray:
    try:
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError):
        raise OutputError(f"{path} is not an array that can be read: save it with numpy.save, as numbers") from None
    return array
