"""Pictures of any kind as 8-bit RGB: Pillow's own conversion cuts 16-bit greys at 255, so that they turn white.

Pictures from outside are decoded as one of the formats that we mean, whatever their names say.

Pillow would hand PostScript that is called .png to Ghostscript, which runs it.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

from poise.io.files import regular

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")


def open_picture(source: Path | IO[bytes]) -> Any:
    """PIL's picture of a file; PIL.UnidentifiedImageError where it is of no format of ours."""
    from PIL import Image

    return Image.open(regular(source) if isinstance(source, Path) else source, formats=FORMATS)


def as_rgb(picture: Any) -> Any:
    """A PIL image in mode RGB.

    Greys of 16 bits are scaled: 65535 is white. Pillow's modes I and F do not say what is white: it is the least of
    255, 65535 and 2**31 - 1, for floats also 1, that no pixel exceeds.
    """
    if picture.mode == "P" and "transparency" in picture.info:
        picture = picture.convert("RGBA")  # a palette with an alpha of its own; Pillow warns otherwise
    if picture.mode in ("I", "F") or picture.mode.startswith("I;16"):
        picture = _as_grey(picture)
    return picture.convert("RGB")


def _as_grey(picture: Any) -> Any:
    """8 bits, rounded to nearest: the conversion to L cuts the fraction and clips."""
    if picture.mode.startswith("I;16"):
        picture, white = picture.convert("I"), 65535
    else:
        whites = (1, 255, 65535, 2**31 - 1) if picture.mode == "F" else (255, 65535, 2**31 - 1)
        brightest = picture.getextrema()[1]
        white = next((each for each in whites if brightest <= each), whites[-1])
    factor = 255 / white
    return picture.point(lambda value: value * factor + 0.5).convert("L")
