"""Every mode of Pillow as 8-bit RGB."""

import numpy as np
import pytest
from PIL import Image

from poise import Corrupt
from poise.io.decoding import as_rgb

RAMP = np.arange(65536, dtype=np.uint16).reshape(256, 256)
GREY = np.rint(RAMP / 257).astype(np.uint8)


@pytest.mark.parametrize(
    "picture",
    [
        Image.fromarray(RAMP),
        Image.frombytes("I;16B", (256, 256), RAMP.astype(">u2").tobytes()),
        Image.fromarray(RAMP.astype(np.int32)),
        Image.fromarray(RAMP.astype(np.float32)),
        Image.fromarray((RAMP / 65535).astype(np.float32)),
        Image.fromarray(GREY.astype(np.int32)),
        Image.fromarray(GREY.astype(np.float32)),
        Image.fromarray(GREY),
    ],
    ids=["I;16", "I;16B", "I", "F", "F to 1", "I to 255", "F to 255", "L"],
)
def test_greys_are_scaled(picture: Image.Image) -> None:
    assert np.array_equal(np.asarray(as_rgb(picture)), np.repeat(GREY[..., None], 3, axis=2))


def test_the_transform_scales_them_too() -> None:
    scaled, plain = (Corrupt("contrast", 1, "imagenet")(picture) for picture in map(Image.fromarray, (RAMP, GREY)))
    assert np.array_equal(np.asarray(scaled), np.asarray(plain)) and np.asarray(scaled).std() > 10


def test_a_palette_with_alpha_is_its_colours() -> None:
    picture = Image.new("P", (16, 16), 1)
    picture.putpalette([0, 0, 0, 10, 20, 30])
    picture.info["transparency"] = bytes([255, 128])
    assert as_rgb(picture).getpixel((0, 0)) == (10, 20, 30)
