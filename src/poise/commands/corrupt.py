"""`poise corrupt`: a corrupted copy of a set, an array or a folder of pictures; or a contact sheet of one picture."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import torch
import typer

from poise.commands.inputs import SETS, arrays, is_array, one_image, require_there
from poise.commands.progress import counting
from poise.corruptions.corrupt import profile_for
from poise.corruptions.profiles import PROFILES
from poise.protocols import CORRUPTIONS, SEVERITIES
from poise.robustness.arrays import write_arrays
from poise.robustness.output import Making, OutputError, device_for
from poise.robustness.parts import new_file
from poise.robustness.pictures import require_outside, write_pictures
from poise.robustness.sheet import contact_sheet

_FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}


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
    with _failures():
        _require_call(source, out, sheet, labels)
        require_there(source)
        profile = profile or _profile_of(source)
        quality = 85 if (profile != "cifar" if jpeg is None else jpeg) else None
        names, severities = tuple(dict.fromkeys(corruption or CORRUPTIONS)), tuple(sorted({*(severity or SEVERITIES)}))
        with _usage():
            making = Making(names, severities, profile, seed, rounding, quality)
            place = device_for(device)
        if sheet is not None:
            _draw(source, image, sheet, making, resize, place)
        elif out is not None:
            _write(source, labels, out, making, resize, place)


def _require_call(source: str, out: Path | None, sheet: Path | None, labels: Path | None) -> None:
    """A usage error for words that do not go together."""
    if (out is None) == (sheet is None):
        raise typer.BadParameter("give one of --out and --sheet")
    if sheet is not None and sheet.suffix.lower() not in _FORMATS:
        raise typer.BadParameter(f"{sheet} must end with one of {', '.join(_FORMATS)}", param_hint="--sheet")
    if labels is not None and (source in SETS or not is_array(source) or out is None):
        raise typer.BadParameter("labels go with an .npy of images and --out", param_hint="--labels")
    if out is not None and not is_array(source):
        with _usage():
            require_outside(Path(source), out)


def _profile_of(source: str) -> str:
    """By the size of the images in an array; that of pictures must be named."""
    if source in SETS:
        return "cifar"
    if not is_array(source):
        raise typer.BadParameter(f"for pictures name one of {', '.join(PROFILES)}", param_hint="--profile")
    images, _ = arrays(source)
    with _usage():
        return profile_for(*images.shape[1:3])


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
        sys.exit(f"poise: {error.filename}: {error.strerror}" if error.filename else f"poise: {error}")


def _write(source: str, labels: Path | None, out: Path, making: Making, resize: bool, device: torch.device) -> None:
    skipped: dict[str, str] = {}
    with counting("images" if is_array(source) else "pictures") as report:
        if is_array(source):
            write_arrays(*arrays(source, labels), out, making, device, report)
        else:
            skipped = write_pictures(Path(source), out, making, resize, device, report)
    corruptions = _counted(len(making.corruptions), "corruption", "corruptions")
    typer.echo(f"{out}: {corruptions} x {_counted(len(making.severities), 'severity', 'severities')}")
    if skipped:
        raise OutputError(
            "\n  ".join([f"{len(skipped)} skipped:", *(f"{path}: {why}" for path, why in skipped.items())])
        )


def _draw(source: str, number: int, sheet: Path, making: Making, resize: bool, device: torch.device) -> None:
    pixels = one_image(source, number, making, resize)
    picture = contact_sheet(pixels, making, number, max(1, 96 // max(pixels.shape[:2])), device)
    with new_file(sheet.parent, sheet.name) as stream:
        picture.save(stream, _FORMATS[sheet.suffix.lower()])
    typer.echo(f"{sheet}: {picture.width} x {picture.height} pixels")


def _counted(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"
