"""The work of `poise corrupt`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from json import dumps
from pathlib import Path

import torch
import typer

from poise.commands.inputs import SETS, arrays, is_array, one_image, require_there
from poise.commands.progress import counting
from poise.commands.results import told, usage
from poise.corruptions.corrupt import profile_for
from poise.corruptions.profiles import PROFILES
from poise.protocols import CORRUPTIONS, SEVERITIES
from poise.robustness.arrays import write_arrays
from poise.robustness.output import Making, OutputError, device_for
from poise.robustness.pictures import require_outside, write_pictures
from poise.robustness.sheet import contact_sheet
from poise.whole import new_file

_FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}


@dataclass(frozen=True)
class Order:
    """The words of the command, as they were given."""

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


def carry_out(order: Order) -> None:
    """Write the copy, or draw the sheet."""
    source, out, sheet = order.source, order.out, order.sheet
    with _failures(order):
        _require_call(source, out, sheet, order.labels)
        require_there(source)
        profile = order.profile or _profile_of(source)
        quality = 85 if (profile != "cifar" if order.jpeg is None else order.jpeg) else None
        names = tuple(dict.fromkeys(order.corruption or CORRUPTIONS))
        severities = tuple(sorted({*(order.severity or SEVERITIES)}))
        with usage():
            making = Making(names, severities, profile, order.seed, order.libraries, quality)
            place = device_for(order.device)
        if sheet is not None:
            _draw(order, sheet, making, place)
        elif out is not None:
            _write(order, out, making, place)


def _require_call(source: str, out: Path | None, sheet: Path | None, labels: Path | None) -> None:
    """A usage error for words that do not go together."""
    if (out is None) == (sheet is None):
        raise typer.BadParameter("give one of --out and --sheet")
    if sheet is not None and sheet.suffix.lower() not in _FORMATS:
        raise typer.BadParameter(f"{sheet} must end with one of {', '.join(_FORMATS)}", param_hint="--sheet")
    if labels is not None and (source in SETS or not is_array(source) or out is None):
        raise typer.BadParameter("needs an .npy of images, and --out", param_hint="--labels")
    if out is not None and not is_array(source):
        with usage():
            require_outside(Path(source), out)


def _profile_of(source: str) -> str:
    """By the size of the images in an array; that of pictures must be named."""
    if source in SETS:
        return "cifar"
    if not is_array(source):
        raise typer.BadParameter(f"for pictures choose one of {', '.join(PROFILES)}", param_hint="--profile")
    images, _ = arrays(source)
    with usage():
        return profile_for(*images.shape[1:3])


@contextmanager
def _failures(order: Order) -> Iterator[None]:
    """One sentence and exit code 1."""
    try:
        yield
    except (OutputError, ValueError) as error:
        sys.exit(f"poise: {error}")
    except OSError as error:
        out, option = (order.out, "--out") if order.out else (order.sheet or Path(), "--sheet")
        sys.exit(f"poise: {told(error, out, option)}")


def _write(order: Order, out: Path, making: Making, device: torch.device) -> None:
    source, skipped = order.source, dict[str, str]()
    with counting("images" if is_array(source) else "pictures", order.quiet) as report:
        if is_array(source):
            write_arrays(*arrays(source, order.labels), out, making, device, report)
        else:
            skipped = write_pictures(Path(source), out, making, order.resize, device, report)
    corruptions = _counted(len(making.corruptions), "corruption", "corruptions")
    said = f"{out}: {corruptions} x {_counted(len(making.severities), 'severity', 'severities')}"
    typer.echo(dumps({"folder": str(out), **asdict(making), "skipped": skipped}) if order.json else said)
    if skipped:
        raise OutputError(
            "\n  ".join([f"{len(skipped)} skipped:", *(f"{path}: {why}" for path, why in skipped.items())])
        )


def _draw(order: Order, sheet: Path, making: Making, device: torch.device) -> None:
    pixels = one_image(order.source, order.image, making, order.resize)
    picture = contact_sheet(pixels, making, order.image, max(1, 96 // max(pixels.shape[:2])), device)
    with new_file(sheet, within=sheet.parent) as stream:
        picture.save(stream, _FORMATS[sheet.suffix.lower()])
    facts = {"sheet": str(sheet), "width": picture.width, "height": picture.height, **asdict(making)}
    typer.echo(dumps(facts) if order.json else f"{sheet}: {picture.width} x {picture.height} pixels")


def _counted(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"
