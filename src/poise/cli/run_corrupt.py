"""The implementation of `poise corrupt`, for a data set, an .npy file, a folder of images, or one image.

Axes: N images, H rows, W columns.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from json import dumps
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer

from poise.cli.options import describe_os_error, usage
from poise.cli.progress import counting
from poise.corruptions.corrupt import Making, profile_for, require_c_bar
from poise.corruptions.profiles import PROFILES
from poise.corruptions.protocols import C_BAR, CORRUPTIONS, SEVERITIES
from poise.corruptions.write import (
    OutputError,
    contact_sheet,
    device_for,
    load_fitting,
    picture_files,
    require_bytes,
    require_outside,
    write_arrays,
    write_pictures,
)
from poise.data.sets.cache import load, map_npy
from poise.io.files import new_file, remove_parts

SETS = ("cifar10", "cifar100")
_FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}


@dataclass(frozen=True)
class CorruptRequest:
    """The arguments of `poise corrupt`."""

    source: str
    out: Path | None
    sheet: Path | None
    corruption: list[str] | None
    severity: list[int] | None
    profile: str | None
    seed: int
    libraries: str
    jpeg: bool | None
    resize: bool
    labels: Path | None
    image: int
    device: str
    quiet: bool
    json: bool


def run_corrupt(request: CorruptRequest) -> None:
    """Write the copy or the contact sheet."""
    source, out, sheet = request.source, request.out, request.sheet
    with _failures(request):
        _require_call(source, out, sheet, request.labels)
        require_exists(source)
        profile = request.profile or _profile_of(source)
        quality = 85 if (profile != "cifar" if request.jpeg is None else request.jpeg) else None
        names = _names(request.corruption or CORRUPTIONS, profile)
        severities = tuple(sorted({*(request.severity or SEVERITIES)}))
        with usage():
            making = Making(names, severities, profile, request.seed, request.libraries, quality)
            place = device_for(request.device)
        if sheet is not None:
            _draw(request, sheet, making, place)
        elif out is not None:
            _write(request, out, making, place)


def _require_call(source: str, out: Path | None, sheet: Path | None, labels: Path | None) -> None:
    """Raise a usage error for invalid combinations of arguments."""
    if (out is None) == (sheet is None):
        raise typer.BadParameter("pass either --out or --sheet")
    if sheet is not None and sheet.suffix.lower() not in _FORMATS:
        raise typer.BadParameter(f"{sheet} must end with one of {', '.join(_FORMATS)}", param_hint="--sheet")
    if labels is not None and (source in SETS or not is_array(source) or out is None):
        raise typer.BadParameter("needs an .npy of images, and --out", param_hint="--labels")
    if out is not None and not is_array(source):
        with usage():
            require_outside(Path(source), out)


def _names(chosen: Collection[str], profile: str) -> tuple[str, ...]:
    """The names without repetition; "c-bar" is short for the ten of the profile."""
    with usage():
        if "c-bar" in chosen:
            require_c_bar(profile)
    return tuple(dict.fromkeys(each for name in chosen for each in (C_BAR[profile] if name == "c-bar" else (name,))))


def _profile_of(source: str) -> str:
    """The profile for the image size of an array; for image files the user must choose it."""
    if source in SETS:
        return "cifar"
    if not is_array(source):
        raise typer.BadParameter(f"image files need one of {', '.join(PROFILES)}", param_hint="--profile")
    images, _ = arrays(source)
    with usage():
        return profile_for(*images.shape[1:3])


@contextmanager
def _failures(request: CorruptRequest) -> Iterator[None]:
    """Turn failures into one sentence and exit code 1."""
    try:
        yield
    except (OutputError, ValueError) as error:
        sys.exit(f"poise: {error}")
    except OSError as error:
        out, option = (request.out, "--out") if request.out else (request.sheet or Path(), "--sheet")
        sys.exit(f"poise: {describe_os_error(error, out, option)}")


def _write(request: CorruptRequest, out: Path, making: Making, device: torch.device) -> None:
    source, skipped = request.source, dict[str, str]()
    with counting("images", request.quiet) as report:
        if is_array(source):
            write_arrays(*arrays(source, request.labels), out, making, device, report)
        else:
            skipped = write_pictures(Path(source), out, making, request.resize, device, report)
    corruptions = _plural(len(making.corruptions), "corruption", "corruptions")
    summary = f"{out}: {corruptions} x {_plural(len(making.severities), 'severity', 'severities')}"
    typer.echo(dumps({"folder": str(out), **asdict(making), "skipped": skipped}) if request.json else summary)
    if skipped:
        raise OutputError(
            "\n  ".join([f"{len(skipped)} skipped:", *(f"{path}: {why}" for path, why in skipped.items())])
        )


def _draw(request: CorruptRequest, sheet: Path, making: Making, device: torch.device) -> None:
    pixels = one_image(request.source, request.image, making, request.resize)
    picture = contact_sheet(pixels, making, request.image, max(1, 96 // max(pixels.shape[:2])), device)
    remove_parts(sheet.parent)
    with new_file(sheet, within=sheet.parent) as stream:
        picture.save(stream, _FORMATS[sheet.suffix.lower()])
    facts = {"sheet": str(sheet), "width": picture.width, "height": picture.height, **asdict(making)}
    typer.echo(dumps(facts) if request.json else f"{sheet}: {picture.width} x {picture.height} pixels")


def _plural(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"


def require_exists(source: str) -> None:
    """Raise OutputError unless the source is a data set, a file or a folder."""
    if source not in SETS and not Path(source).exists():
        raise OutputError(f"{source} does not exist: use {', '.join(SETS)}, an .npy file, a folder or an image")


def is_array(source: str) -> bool:
    """Whether the source is one array of images."""
    return source in SETS or source.endswith(".npy")


def arrays(source: str, labels: Path | None = None) -> tuple[np.ndarray, np.ndarray | None]:
    """Images uint8 [N, H, W, 3], and labels or None."""
    if source in SETS:
        return load(source, "test_x"), load(source, "test_y")
    images = _npy(Path(source))
    require_bytes(images)
    return images, None if labels is None else _npy(labels)


def one_image(source: str, number: int, making: Making, resize: bool) -> np.ndarray:
    """One image uint8 [H, W, 3], by the same index as with `--out`."""
    if is_array(source):
        return np.array(_pick(arrays(source)[0], number))
    gallery = picture_files(Path(source))
    path = _pick(gallery.paths, number)
    picture = load_fitting(gallery, number, making, resize)
    if isinstance(picture, str):
        raise OutputError(f"{gallery.home / path}: {picture}")
    return picture


def _pick(things: Any, number: int) -> Any:
    if not 0 <= number < len(things):
        valid = f"it must lie between 0 and {len(things) - 1}" if len(things) else "the source is empty"
        raise ValueError(f"--image {number} is out of range: {valid}")
    return things[number]


def _npy(path: Path) -> np.ndarray:
    try:
        return map_npy(path)
    except ValueError:
        raise OutputError(f"{path} cannot be read as an array: save numbers with numpy.save") from None
