"""Decode images from untrusted files to 8-bit RGB.

Only the formats in `FORMATS` are decoded, whatever the name of a file says: Pillow would pass PostScript in a file
called .png to Ghostscript, which runs it. 16-bit greys are scaled, since Pillow's own conversion clips them at 255.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

from poise.io.files import regular

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")


def open_picture(source: Path | IO[bytes]) -> Any:
    """Open an image with Pillow; raises PIL.UnidentifiedImageError unless its format is one of `FORMATS`."""
    from PIL import Image

    return Image.open(regular(source) if isinstance(source, Path) else source, formats=FORMATS)


def as_rgb(picture: Any) -> Any:
    """Convert a PIL image to mode RGB.

    16-bit greys are scaled: 65535 is white. Pillow's modes I and F do not define white, so it is taken as the least of
    255, 65535 and 2**31 - 1 (for floats also 1) that no pixel exceeds.
    """
    if picture.mode == "P" and "transparency" in picture.info:
        picture = picture.convert("RGBA")  # a palette with transparency: Pillow warns if it is converted directly
    if picture.mode in ("I", "F") or picture.mode.startswith("I;16"):
        picture = _as_grey(picture)
    return picture.convert("RGB")


def _as_grey(picture: Any) -> Any:
    """Convert to 8 bits, rounding to nearest: Pillow's conversion to L truncates and clips."""
    if picture.mode.startswith("I;16"):
        picture, white = picture.convert("I"), 65535
    else:
        whites = (1, 255, 65535, 2**31 - 1) if picture.mode == "F" else (255, 65535, 2**31 - 1)
        brightest = picture.getextrema()[1]
        white = next((each for each in whites if brightest <= each), whites[-1])
    factor = 255 / white
    return picture.point(lambda value: value * factor + 0.5).convert("L")
