"""`poise corrupt`: a corrupted copy of a set, an array or a folder of pictures; or a contact sheet of one picture."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from PIL import Image

from poise.commands.progress import counting
from poise.corruptions.profiles import PROFILES
from poise.data.cache import load
from poise.protocols import CORRUPTIONS, SEVERITIES
from poise.robustness.arrays import write_arrays
from poise.robustness.output import Making, OutputError, device_for
from poise.robustness.pictures import as_profile, find_pictures, write_pictures
from poise.robustness.sheet import contact_sheet

_SETS = ("cifar10", "cifar100")


def corrupt(
    source: Annotated[
        str, typer.Argument(help="cifar10, cifar100, a folder of pictures, a picture, or an .npy [N, H, W, 3].")
    ],
    out: Annotated[Path | None, typer.Option(help="A new folder, or one to go on with.")] = None,
    sheet: Annotated[
        Path | None, typer.Option(help="Instead of a copy: one picture under everything, as PNG or JPEG.")
    ] = None,
    corruption: Annotated[
        list[str] | None, typer.Option(help="One of the 19; repeat it for more. All by default.")
    ] = None,
    severity: Annotated[list[int] | None, typer.Option(help="1 to 5; repeat it for more. All by default.")] = None,
    profile: Annotated[str | None, typer.Option(help="cifar, tiny or imagenet; for arrays by default by size.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed, other draws.")] = 0,
    rounding: Annotated[str, typer.Option(help="Of motion_blur and snow: nearest or truncate.")] = "nearest",
    jpeg: Annotated[
        bool | None, typer.Option(help="Write JPEG of quality 85, as ImageNet-C; by default for its profile.")
    ] = None,
    resize: Annotated[bool, typer.Option(help="Cut and scale pictures as the profile's data set was made.")] = True,
    labels: Annotated[Path | None, typer.Option(help="An .npy of labels beside an .npy of images.")] = None,
    image: Annotated[int, typer.Option(help="Which picture goes on the sheet.")] = 0,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Corrupt images as CIFAR-10-C and ImageNet-C were made, bit by bit.

    poise corrupt cifar10 --out CIFAR-10-C --device cuda

    poise corrupt photos --out photos-C --profile imagenet --corruption fog --severity 3

    poise corrupt cifar10 --sheet sheet.png
    """
    if (out is None) == (sheet is None):
        raise typer.BadParameter("give one of --out and --sheet")
    profile = profile or _profile_of(source)
    quality = 85 if (profile != "cifar" if jpeg is None else jpeg) else None
    with _usage():
        making = Making(
            tuple(corruption or CORRUPTIONS), tuple(severity or SEVERITIES), profile, seed, rounding, quality
        )
        place = device_for(device)
    with _failures():
        if sheet is not None:
            _draw(source, image, sheet, making, resize, place)
        elif out is not None:
            _write(source, labels, out, making, resize, place)


@contextmanager
def _usage() -> Iterator[None]:
    try:
        yield
    except (ValueError, RuntimeError) as error:
        raise typer.BadParameter(str(error)) from None


@contextmanager
def _failures() -> Iterator[None]:
    """One sentence and exit code 1."""
    try:
        yield
    except (OutputError, ValueError) as error:
        sys.exit(f"poise: {error}")
    except OSError as error:
        sys.exit(f"poise: {error.filename or ''}: {error.strerror or error}")


def _write(source: str, labels: Path | None, out: Path, making: Making, resize: bool, device: torch.device) -> None:
    with counting("pictures" if Path(source).is_dir() else "images") as report:
        if source in _SETS or source.endswith(".npy"):
            x, y = _arrays(source, labels)
            write_arrays(x, y, out, making, device, report)
            unreadable = {}
        else:
            unreadable = write_pictures(_folder(source), out, making, resize, device, report)
    if unreadable:
        typer.echo(f"{out}: written, without {len(unreadable)} that cannot be read")
        raise OutputError("\n  ".join([f"{len(unreadable)} skipped:", *(f"{k}: {v}" for k, v in unreadable.items())]))
    typer.echo(f"{out}: {len(making.corruptions)} corruptions x {len(making.severities)} severities")


def _draw(source: str, number: int, sheet: Path, making: Making, resize: bool, device: torch.device) -> None:
    pixels = _one(source, number, making.profile if resize else "cifar")
    picture = contact_sheet(pixels, making, enlarge=max(1, 96 // max(pixels.shape[:2])), device=device)
    picture.save(sheet)
    typer.echo(f"{sheet}: {picture.width} x {picture.height} pixels")


def _one(source: str, number: int, profile: str) -> np.ndarray:
    if source in _SETS or source.endswith(".npy"):
        return np.array(_pick(_arrays(source, None)[0], number))
    path = Path(source)
    if path.is_dir():
        path = path / _pick(find_pictures(path), number)
    with Image.open(path) as picture:
        return np.asarray(as_profile(picture.convert("RGB"), profile))


def _pick(things: Any, number: int) -> Any:
    if not 0 <= number < len(things):
        raise ValueError(f"image {number}: there are {len(things)}, from 0")
    return things[number]


def _arrays(source: str, labels: Path | None) -> tuple[np.ndarray, np.ndarray | None]:
    if source in _SETS:
        return load(source, "test_x"), load(source, "test_y")
    return _npy(Path(source)), None if labels is None else _npy(labels)


def _npy(path: Path) -> np.ndarray:
    try:
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise OutputError(f"{path} is not an array that can be read ({error})") from None
    return array


def _folder(source: str) -> Path:
    path = Path(source)
    if not path.is_dir():
        raise OutputError(f"{source} is neither cifar10, cifar100, an .npy file nor a folder")
    return path


def _profile_of(source: str) -> str:
    if source in _SETS:
        return "cifar"
    if source.endswith(".npy") and Path(source).exists():
        side = _npy(Path(source)).shape[1:3]
        sides = {(32, 32): "cifar", (64, 64): "tiny", (224, 224): "imagenet"}
        if side in sides:
            return sides[side]
    raise typer.BadParameter(f"name one of {', '.join(PROFILES)}", param_hint="--profile")
