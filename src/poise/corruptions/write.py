"""Write corrupted images to a folder: arrays like CIFAR-10-C, pictures like ImageNet-C, or a contact sheet.

    arrays    one .npy per corruption, severity after severity, and labels.npy
    pictures  out/<corruption>/<severity>/<the picture's own path>
    sheet     one picture under every corruption and severity, 19 x 5, with the clean one in the corner

An output folder records its source and settings, so that results are neither mixed nor overwritten. The source of
pictures is one picture, or all below a folder, in the order of their paths.

Axes: N images, B pictures of a batch, H rows, W columns, S severities.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from PIL import Image, ImageDraw

from poise.corruptions.corrupt import Making
from poise.io.decoding import as_rgb, open_picture
from poise.io.files import is_part, new_file, regular, remove_parts

Progress = Callable[[str, int, int], None]
_MANIFEST = "corruption.json"


class OutputError(Exception):
    """The output folder cannot be used."""


def claim(out: Path, making: Making, source: dict[str, Any]) -> None:
    """Create the folder, or continue in one with the same source and settings; else raise OutputError.

    Corruptions may be added later, since each has its own files. Partial files of a killed run are removed.
    """
    facts = json.loads(json.dumps({**source, **asdict(making)}, default=int))
    del facts["corruptions"]
    manifest = out / _MANIFEST
    if manifest.exists():
        _require_same(out, _read(manifest), facts)
    elif out.exists() and (not out.is_dir() or not all(map(is_part, out.iterdir()))):
        raise OutputError(f"{out} contains other files: choose an empty or a new folder")
    out.mkdir(parents=True, exist_ok=True)
    remove_parts(out)
    if not manifest.exists():
        with new_file(manifest, within=out) as stream:
            stream.write(json.dumps(facts, indent=1).encode())


def device_for(name: str) -> torch.device:
    """The device, if it is available and supports float64, which the corruptions need."""
    if not re.fullmatch(r"(cpu|cuda)(:\d+)?", name):
        raise ValueError(f"device {name!r} is not supported: the corruptions run on cpu and cuda")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device {name!r} is not available: use cpu")
    return device


def _require_same(out: Path, held: dict[str, Any], facts: dict[str, Any]) -> None:
    for key, now in facts.items():
        was = held.get(key)
        if was != now:
            raise OutputError(
                f"{out} contains a different set ({key}: {_short(was)}, not {_short(now)}): choose another folder"
            )


def _short(value: Any) -> Any:
    """The first twelve characters of a digest; any other value unchanged."""
    return f"{value[:12]}…" if isinstance(value, str) and len(value) == 64 else value


def _read(manifest: Path) -> dict[str, Any]:
    try:
        held = json.loads(manifest.read_text())
    except (OSError, ValueError):
        held = None
    if not isinstance(held, dict):
        raise OutputError(f"{manifest} cannot be read: choose another folder, or delete this one")
    return held


_AT_ONCE = 2000


def write_arrays(
    images: np.ndarray,
    labels: np.ndarray | None,
    out: Path,
    making: Making,
    device: torch.device | str = "cpu",
    progress: Progress = lambda what, done, total: None,
) -> None:
    """Write [S * N, H, W, 3] for each corruption. Existing files are kept, so that a killed run can be continued.

    images  uint8 [N, H, W, 3]; image i draws the numbers of index i.
    labels  whole numbers [N], 0 or more, or None; written as uint8 or int64, repeated for each severity.
    """
    require_bytes(images)
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


def require_bytes(images: np.ndarray) -> None:
    """ValueError unless the array contains images with channels last."""
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3:
        raise ValueError(f"images must be uint8 [N, H, W, 3], got {images.dtype} {list(images.shape)}")


def _small(labels: np.ndarray, count: int) -> np.ndarray:
    """The labels as bytes if they fit; ValueError unless they are whole numbers, 0 or more, one per image."""
    if labels.shape != (count,):
        raise ValueError(f"labels must have one entry for each of the {count} images, got {list(labels.shape)}")
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
    """Write through a plain stream: on a full disk it raises an error, while a memory map would crash."""
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


_ENDINGS = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff"}
_BLOCK = 1 << 16


@dataclass(frozen=True)
class PictureFiles:
    """Pictures on disk; paths are relative to `home`."""

    home: Path
    paths: tuple[Path, ...]

    def __len__(self) -> int:
        return len(self.paths)

    def load(self, number: int, profile: str) -> np.ndarray | str:
        """The pixels [H, W, 3] of a picture, cropped and scaled for the profile, or why it cannot be read."""
        try:
            with open_picture(self.home / self.paths[number]) as picture:
                return np.asarray(as_profile(as_rgb(picture), profile))
        except Exception as error:  # decoders raise many types for damaged files
            return f"{type(error).__name__}: {error}"

    def digest(self) -> str:
        """sha256 of the paths, the sizes, and the first and last 64 kB of every file.

        Reading 50,000 whole files would take minutes. An edit in the middle of a large file that keeps its size goes
        unnoticed; this is rare for compressed pictures.
        """
        total = sha256()
        with ThreadPoolExecutor() as workers:
            for path, content in zip(self.paths, workers.map(self._fingerprint, self.paths), strict=True):
                total.update(sha256(path.as_posix().encode(errors="surrogateescape")).digest() + content)
        return total.hexdigest()

    def _fingerprint(self, path: Path) -> bytes:
        """The digest of one file [32 bytes]; a file that cannot be opened counts as empty."""
        try:
            with regular(self.home / path).open("rb") as stream:
                size = stream.seek(0, 2)
                stream.seek(0)
                first = stream.read(_BLOCK)
                stream.seek(max(0, size - _BLOCK))
                return sha256(f"{size}/".encode() + first + stream.read(_BLOCK)).digest()
        except OSError:
            return sha256(b"0/").digest()


def picture_files(source: Path) -> PictureFiles:
    """The pictures below a folder, or the one picture at the path."""
    if not source.is_dir():
        return PictureFiles(source.parent, (Path(source.name),))
    found = [path for path in source.rglob("*") if path.suffix.lower() in _ENDINGS and not path.is_dir()]
    if not found:
        raise OutputError(f"{source} contains no picture ({', '.join(sorted(_ENDINGS))})")
    return PictureFiles(source, tuple(sorted(path.relative_to(source) for path in found)))


def as_profile(picture: Image.Image, profile: str) -> Image.Image:
    """The picture cropped and scaled as in the data set of this profile."""
    if profile == "tiny":
        return picture.resize((64, 64), Image.Resampling.BILINEAR)
    if profile == "imagenet":
        short = min(picture.size)
        width, height = (int(256 * side / short) for side in picture.size)
        picture = picture.resize((width, height), Image.Resampling.BILINEAR)
        left, top = round((width - 224) / 2), round((height - 224) / 2)
        return picture.crop((left, top, left + 224, top + 224))
    return picture


Numbered: TypeAlias = "tuple[int, np.ndarray]"
_PICTURES_AT_ONCE = 32


def write_pictures(
    source: Path,
    out: Path,
    making: Making,
    resize: bool = True,
    device: torch.device | str = "cpu",
    progress: Progress = lambda what, done, total: None,
) -> dict[str, str]:
    """Corrupt a picture, or every picture below a folder; returns {path: reason} for skipped pictures.

    resize        as for the profile's data set: "imagenet" crops 224 x 224 from the middle of the picture scaled to
                  256 pixels, "tiny" scales to 64 x 64, "cifar" changes nothing.
    making.jpeg   quality of the JPEG files written; None writes PNG.

    Picture i in the order of paths draws the numbers of index i. Pictures whose files all exist are skipped, so that a
    killed run can be continued. Unreadable pictures, and those too small or too large for a corruption, are skipped.
    """
    require_outside(source, out)
    pictures = picture_files(source)
    claim(out, making, {"pictures": pictures.digest(), "resize": resize})
    names = output_names(pictures.paths, making.jpeg is not None)
    skipped: dict[str, str] = {}
    with ThreadPoolExecutor() as workers:
        for start in range(0, len(pictures), _PICTURES_AT_ONCE):
            ids = range(start, min(start + _PICTURES_AT_ONCE, len(pictures)))
            todo = [i for i in ids if not _is_whole(out, names[i], making)]
            good, bad = _load(pictures, todo, making, resize, workers)
            skipped.update(bad)
            for _, same in groupby(good, key=lambda pair: pair[1].shape):
                _write_batch(list(same), names, out, making, device, workers)
            progress(str(pictures.paths[ids[-1]].parent), ids.stop, len(pictures))
    return skipped


def require_outside(source: Path, out: Path) -> None:
    """ValueError for an output folder among the pictures: a second run would corrupt its own output."""
    if source.is_dir() and out.resolve().is_relative_to(source.resolve()):
        raise ValueError(f"{out} is inside the source folder {source}: choose an output folder outside of it")


def load_fitting(pictures: PictureFiles, number: int, making: Making, resize: bool) -> np.ndarray | str:
    """The pixels [H, W, 3] of a picture that every corruption supports, or the reason why there are none."""
    picture = pictures.load(number, making.profile if resize else "cifar")
    try:
        if not isinstance(picture, str):
            making.require_size(*picture.shape[:2])
    except ValueError as error:
        return str(error)
    return picture


def output_names(paths: tuple[Path, ...], jpeg: bool) -> list[Path]:
    """A picture keeps its name; the suffix follows the output format.

    Pictures with the same stem and different suffixes keep both: a.bmp, a.jpg and a.png become a.bmp.jpg, a.jpg and
    a.png.jpg.
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
    pictures: PictureFiles, ids: list[int], making: Making, resize: bool, workers: ThreadPoolExecutor
) -> tuple[list[Numbered], dict[str, str]]:
    """The pictures that can be corrupted, and the reasons for the others."""
    good, bad = [], {}
    for i, picture in zip(ids, workers.map(lambda i: load_fitting(pictures, i, making, resize), ids), strict=True):
        if isinstance(picture, str):
            bad[str(pictures.paths[i])] = picture
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
    lossless = replace(making, jpeg=None)  # the file that is saved is the second pass
    images = torch.from_numpy(np.stack([picture for _, picture in batch])).permute(0, 3, 1, 2).to(device)
    for name in making.corruptions:
        for severity in making.severities:
            changed = lossless.of(images, name, severity, ids)
            pixels = changed.permute(0, 2, 3, 1).contiguous().cpu().numpy()
            targets = [Path(name, str(severity), names[i]) for i in ids]
            list(workers.map(_save, [out] * len(ids), targets, pixels, [making.jpeg] * len(ids)))


def _save(out: Path, name: Path, pixels: np.ndarray, quality: int | None) -> None:
    with new_file(out / name, within=out) as stream:
        if quality is None:
            Image.fromarray(pixels).save(stream, "PNG")
        else:
            Image.fromarray(pixels).save(stream, "JPEG", quality=quality, optimize=True)


_NAMES, _HEAD, _GAP = 130, 18, 2


def contact_sheet(
    image: np.ndarray, making: Making, index: int = 0, enlarge: int = 1, device: torch.device | str = "cpu"
) -> Image.Image:
    """image: uint8 [H, W, 3], which draws the numbers of this index; `enlarge` repeats its pixels."""
    height, width = (side * enlarge + _GAP for side in image.shape[:2])
    rows, columns = len(making.corruptions), len(making.severities)
    sheet = Image.new("RGB", (_NAMES + (columns + 1) * width, _HEAD + rows * height), "white")
    pen = ImageDraw.Draw(sheet)
    for column, title in enumerate(["clean", *(f"severity {severity}" for severity in making.severities)]):
        pen.text((_NAMES + column * width, 3), title, fill="black")
    sheet.paste(_enlarged(image, enlarge), (_NAMES, _HEAD))
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).to(device)
    for row, name in enumerate(making.corruptions):
        pen.text((4, _HEAD + row * height + height // 2 - 6), name, fill="black")
        for column, severity in enumerate(making.severities, start=1):
            changed = making.of(pixels, name, severity, index)
            place = (_NAMES + column * width, _HEAD + row * height)
            sheet.paste(_enlarged(changed.permute(1, 2, 0).cpu().numpy(), enlarge), place)
    return sheet


def _enlarged(image: np.ndarray, by: int) -> Image.Image:
    return Image.fromarray(np.ascontiguousarray(image.repeat(by, 0).repeat(by, 1)))
