"""RandAugment and TrivialAugment: torchvision's table of magnitudes, each operation against Pillow's, and the draws."""

import math

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from smooth_pictures import SIZE, pictures

from poise import RandAugment, TrivialAugment
from poise.data.operations import FOURTEEN, apply_each

CPU = torch.device("cpu")
RAND, TRIVIAL = RandAugment().table(SIZE, SIZE, CPU), TrivialAugment().table(CPU)
DIRECTED = FOURTEEN[1:10]


def test_magnitudes_are_those_that_torchvision_documents() -> None:
    """The ends and some bins of 31, from its tables."""
    shift = 150 / 331 * SIZE
    ends = {
        **dict.fromkeys(("shear_x", "shear_y"), (0.3, 0.99)),
        **dict.fromkeys(("translate_x", "translate_y"), (shift, 32.0)),
        "rotate": (30.0, 135.0),
        **dict.fromkeys(("brightness", "color", "contrast", "sharpness"), (0.9, 0.99)),
    }
    for place, name in enumerate(FOURTEEN):
        if name in ends:
            for table, most in zip((RAND, TRIVIAL), ends[name], strict=True):
                assert torch.allclose(table[place], torch.linspace(0, most, 31).double())
        elif name not in ("posterize", "solarize"):
            assert not RAND[place].any() and not TRIVIAL[place].any()
    bits = {"rand": RAND[FOURTEEN.index("posterize")], "trivial": TRIVIAL[FOURTEEN.index("posterize")]}
    assert bits["rand"].tolist() == [8] * 4 + [7] * 8 + [6] * 7 + [5] * 8 + [4] * 4
    assert bits["trivial"].tolist() == [8] * 3 + [7] * 5 + [6] * 5 + [5] * 5 + [4] * 5 + [3] * 5 + [2] * 3
    assert RAND[FOURTEEN.index("solarize"), [0, 10, 30]].tolist() == [255, 170, 0]


def by_pillow(picture: np.ndarray, name: str, m: float) -> np.ndarray:
    image = Image.fromarray(picture)

    def moved(*matrix: float) -> Image.Image:
        return image.transform((SIZE, SIZE), Image.Transform.AFFINE, matrix, resample=Image.Resampling.NEAREST)

    result = {
        "identity": lambda: image,
        "shear_x": lambda: moved(1, m, 0, 0, 1, 0),
        "shear_y": lambda: moved(1, 0, 0, m, 1, 0),
        "translate_x": lambda: moved(1, 0, -int(m), 0, 1, 0),
        "translate_y": lambda: moved(1, 0, 0, 0, 1, -int(m)),
        "rotate": lambda: image.rotate(m, resample=Image.Resampling.NEAREST),
        "brightness": lambda: ImageEnhance.Brightness(image).enhance(1 + m),
        "color": lambda: ImageEnhance.Color(image).enhance(1 + m),
        "contrast": lambda: ImageEnhance.Contrast(image).enhance(1 + m),
        "sharpness": lambda: ImageEnhance.Sharpness(image).enhance(1 + m),
        "posterize": lambda: ImageOps.posterize(image, int(m)),
        "solarize": lambda: ImageOps.solarize(image, m),
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "equalize": lambda: ImageOps.equalize(image),
    }[name]()
    return np.asarray(result)


@pytest.mark.parametrize("name", FOURTEEN)
def test_an_operation_is_pillows_bit_for_bit(name: str) -> None:
    images, place = pictures(8), FOURTEEN.index(name)
    steps = range(0, 31, 2) if RAND[place].any() else [0]  # of which 20 is a rotation by 90 degrees in TrivialAugment
    for magnitude in {float(table[place, step]) for table in (RAND, TRIVIAL) for step in steps}:
        for m in (magnitude, -magnitude) if name in DIRECTED else (magnitude,):
            drawn, strength = torch.full((8,), place), torch.full((8,), m, dtype=torch.float64)
            ours = apply_each(images.float(), drawn, strength).permute(0, 2, 3, 1).numpy()
            theirs = [by_pillow(picture, name, m) for picture in images.permute(0, 2, 3, 1).numpy()]
            assert np.array_equal(ours, theirs), m


def test_every_image_has_its_own_operation() -> None:
    images, drawn = pictures(14).float(), torch.arange(14)
    magnitude = TRIVIAL[:, 20]
    together = apply_each(images, drawn, magnitude)
    for place in range(14):
        one = slice(place, place + 1)
        assert torch.equal(together[one], apply_each(images[one], drawn[one], magnitude[one]))


@pytest.mark.parametrize("augment", [RandAugment(), TrivialAugment()])
def test_the_same_generator_draws_the_same(augment: RandAugment | TrivialAugment) -> None:
    x = pictures().float() / 255
    once, again, other = (augment(x, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(once, again) and not torch.equal(once, other)
    assert once.shape == x.shape and once.dtype == x.dtype and once.min() >= 0 and once.max() <= 1
    last = augment(x.contiguous(memory_format=torch.channels_last), torch.Generator().manual_seed(1))
    assert last.is_contiguous(memory_format=torch.channels_last) and torch.equal(last, once)
    assert augment(x[:, :1], torch.Generator().manual_seed(1)).shape == (len(x), 1, SIZE, SIZE)


def test_rand_augment_applies_its_operations_one_after_the_other() -> None:
    x, generator = pictures().float() / 255, torch.Generator().manual_seed(3)
    made = RandAugment(count=2, magnitude=12)(x, generator)
    generator.manual_seed(3)
    images = x * 255
    for _ in range(2):
        drawn = torch.randint(14, (len(x),), generator=generator)
        turned = torch.randint(2, (len(x),), generator=generator) == 1
        strength = RAND[drawn, 12]
        directed = torch.tensor([FOURTEEN[place] in DIRECTED for place in drawn.tolist()])
        images = apply_each(images.round(), drawn, strength.where(~(directed & turned), -strength))
    assert torch.equal(made, images / 255)


def test_operations_and_bins_are_drawn_evenly() -> None:
    """Of 14 x 31 outcomes, those that leave a picture alone are as frequent as expected."""
    x = (pictures(5)[4:5, :, ::4, ::4].float() / 255).expand(6000, -1, -1, -1)
    made = TrivialAugment()(x, torch.Generator().manual_seed(0))
    same = float((made == x).flatten(1).all(1).double().mean())
    drawn = torch.arange(14).repeat_interleave(62)
    magnitude = torch.cat([TRIVIAL, TRIVIAL], 1).flatten() * torch.tensor([1.0, -1.0]).repeat_interleave(31).repeat(14)
    magnitude = magnitude.where((drawn > 0) & (drawn < 10), magnitude.abs())
    each = apply_each((255 * x[:1]).round().expand(14 * 62, -1, -1, -1), drawn, magnitude)
    expected = float((each == (255 * x[:1]).round()).flatten(1).all(1).double().mean())
    assert 0.1 < expected < 0.3 and abs(same - expected) < 4 * math.sqrt(expected / 6000)


def test_wrong_settings_are_named() -> None:
    for wrong in ({"count": 0}, {"magnitude": -1}, {"bins": 1}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}="):
            RandAugment(**wrong)
    with pytest.raises(ValueError, match="magnitude=31 must be less than bins=31"):
        RandAugment(magnitude=31)
    with pytest.raises(TypeError, match="images must be floats"):
        TrivialAugment()(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))
    with pytest.raises(ValueError, match="images must have 1 or 3 channels"):
        RandAugment()(torch.zeros(2, 4, 8, 8))
