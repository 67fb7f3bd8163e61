"""AugMix: each operation against Pillow's, the mixture against its formula, draws from their generator."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from smooth_pictures import SIZE, pictures

from poise import AugMix
from poise.data.augmix import OPERATIONS, operate


def by_pillow(picture: np.ndarray, name: str, strength: float, sign: int) -> np.ndarray:
    """The operation at this strength, by the formulas of AugMix's CIFAR settings."""
    image = Image.fromarray(picture)

    def moved(*matrix: float) -> Image.Image:
        return image.transform((SIZE, SIZE), Image.Transform.AFFINE, matrix, resample=Image.Resampling.BILINEAR)

    shear, shift = sign * 0.3 * strength / 10, sign * int(SIZE / 3 * strength / 10)
    result = {
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "equalize": lambda: ImageOps.equalize(image),
        "posterize": lambda: ImageOps.posterize(image, 4 - int(4 * strength / 10)),
        "rotate": lambda: image.rotate(sign * int(30 * strength / 10), resample=Image.Resampling.BILINEAR),
        "solarize": lambda: ImageOps.solarize(image, 256 - int(256 * strength / 10)),
        "shear_x": lambda: moved(1, shear, 0, 0, 1, 0),
        "shear_y": lambda: moved(1, 0, 0, shear, 1, 0),
        "translate_x": lambda: moved(1, 0, shift, 0, 1, 0),
        "translate_y": lambda: moved(1, 0, 0, 0, 1, shift),
    }[name]()
    return np.asarray(result)


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_pillows(name: str) -> None:
    images = pictures()
    strength = torch.linspace(0.17, 9.3, len(images))
    sign = torch.tensor([1, -1]).repeat(len(images) // 2)
    drawn = torch.full((len(images),), OPERATIONS.index(name))
    ours = operate(images.float(), drawn, strength, sign).permute(0, 2, 3, 1).numpy()
    assert (ours == np.floor(ours)).all() and ours.min() >= 0 and ours.max() <= 255
    off = 0
    for place, picture in enumerate(images.permute(0, 2, 3, 1).numpy()):
        theirs = by_pillow(picture, name, float(strength[place]), int(sign[place])).astype(float)
        gap = np.abs(ours[place] - theirs)
        assert gap.max() <= 1, (name, place)
        off += int((gap > 0).sum())
    bent = name in ("rotate", "shear_x", "shear_y")  # these cut sums of products to whole levels
    assert off <= (0.002 * ours.size if bent else 0)


def test_every_picture_has_its_own_operation_and_none_leaves_it_alone() -> None:
    images = pictures(10).float()
    drawn = torch.tensor([-1, *range(9)])
    strength, sign = torch.full((10,), 3.0), torch.ones(10, dtype=torch.int64)
    mixed = operate(images, drawn, strength, sign)
    assert torch.equal(mixed[0], images[0])
    for place in range(1, 10):
        alone = operate(images[place : place + 1], drawn[place : place + 1], strength[:1], sign[:1])
        assert torch.equal(mixed[place : place + 1], alone)


def test_the_same_generator_draws_the_same_and_the_result_stays_in_range() -> None:
    x = pictures().float() / 255
    once, again, other = (AugMix()(x, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(once, again) and not torch.equal(once, other)
    assert once.shape == x.shape and once.min() >= 0 and once.max() <= 1
    last = AugMix()(x.contiguous(memory_format=torch.channels_last), torch.Generator().manual_seed(1))
    assert last.is_contiguous(memory_format=torch.channels_last) and torch.equal(last, once)


def test_a_mixture_lies_between_the_picture_and_the_end_of_its_chain() -> None:
    """Of the nine, seven can change a flat picture: here all but autocontrast and equalize, which find one level."""
    x = torch.full((4000, 1, 8, 8), 0.8)
    mixed = AugMix(severity=10, width=1, depth=1)(x, torch.Generator().manual_seed(0))
    left = mixed.amin((1, 2, 3)) / 0.8
    assert float(left.min()) >= 0 and float(left.max()) <= 1 + 1e-6
    assert 4.5 / 9 < float((left < 1 - 1e-6).float().mean()) < 7.5 / 9


def test_how_much_is_mixed_is_uniform() -> None:
    """Black comes in, or white is inverted: (1 - m) of it is left. Posterize, at this strength, leaves more than .9."""
    x = torch.ones(6000, 1, 16, 16)
    left = AugMix(severity=2, width=1, depth=1)(x, torch.Generator().manual_seed(0)).amin((1, 2, 3))
    touched = left[left < 0.9]
    assert 0.43 < float(touched.mean()) < 0.47
    assert abs(float(touched.std()) - 0.9 / 12**0.5) < 0.02


def test_a_chain_has_one_to_three_operations() -> None:
    """With q the chance that one operation leaves a flat picture alone, q^d is that of d of them."""
    x = torch.full((8000, 1, 8, 8), 0.8)

    def untouched(depth: int) -> float:
        mixed = AugMix(severity=10, width=1, depth=depth)(x, torch.Generator().manual_seed(depth))
        return float(((mixed - x).abs().amax((1, 2, 3)) < 1e-4).float().mean())

    q = untouched(1)
    assert 0.2 < q < 0.5 and abs(untouched(3) - (q + q**2 + q**3) / 3) < 0.02


def test_wrong_settings_are_named() -> None:
    for wrong in ({"severity": 0.0}, {"severity": 11.0}, {"width": 0}, {"depth": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}=.* must be a"):
            AugMix(**wrong)
    with pytest.raises(TypeError, match="images must be floats"):
        AugMix()(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))
