"""A gallery: one picture, or all that lie under a folder, in the order of their paths.

Axes: H rows, W columns.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from PIL import Image

from poise.corruptions.rgb import as_rgb
from poise.data.decoding import open_picture
from poise.robustness.output import OutputError

_ENDINGS = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff"}
_BLOCK = 1 << 16


@dataclass(frozen=True)
class Gallery:
    """paths: relative to `home`."""

    home: Path
    paths: tuple[Path, ...]

    def __len__(self) -> int:
        return len(self.paths)

    def load(self, number: int, profile: str) -> np.ndarray | str:
        """The pixels [H, W, 3] of a picture, cut and scaled as those of the profile, or why there are none."""
        try:
            with open_picture(self.home / self.paths[number]) as picture:
                return np.asarray(as_profile(as_rgb(picture), profile))
        except Exception as error:  # whatever a damaged file makes a decoder raise
            return f"{type(error).__name__}: {error}"

    def digest(self) -> str:
        """sha256 of the paths, the sizes, and the first and last 64 kB of every file.

        Whole files would take minutes where there are 50,000. An edit in the middle of a large file that keeps its
        size is not seen; pictures are compressed, so that hardly any is of that kind.
        """
        total = sha256()
        with ThreadPoolExecutor() as workers:
            for path, content in zip(self.paths, workers.map(self._fingerprint, self.paths), strict=True):
                total.update(sha256(path.as_posix().encode(errors="surrogateescape")).digest() + content)
        return total.hexdigest()

    def _fingerprint(self, path: Path) -> bytes:
        """Of one file [32 bytes]; one that cannot be opened has that of an empty one."""
        try:
            with (self.home / path).open("rb") as stream:
                size = stream.seek(0, 2)
                stream.seek(0)
                first = stream.read(_BLOCK)
                stream.seek(max(0, size - _BLOCK))
                return sha256(f"{size}/".encode() + first + stream.read(_BLOCK)).digest()
        except OSError:
            return sha256(b"0/").digest()


def open_gallery(source: Path) -> Gallery:
    """The pictures under a folder, or the one that the path names."""
    if not source.is_dir():
        return Gallery(source.parent, (Path(source.name),))
    found = [path for path in source.rglob("*") if path.suffix.lower() in _ENDINGS and not path.is_dir()]
    if not found:
        raise OutputError(f"no picture ({', '.join(sorted(_ENDINGS))}) is in {source}")
    return Gallery(source, tuple(sorted(path.relative_to(source) for path in found)))


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
