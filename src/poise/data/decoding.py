"""Pictures from outside are decoded as one of the formats that we mean, whatever their names say.

Pillow would hand PostScript that is called .png to Ghostscript, which runs it.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")


def open_picture(source: Path | IO[bytes]) -> Any:
    """PIL's picture of a file; PIL.UnidentifiedImageError where it is of no format of ours."""
    from PIL import Image

    return Image.open(source, formats=FORMATS)
