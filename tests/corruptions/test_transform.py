"""A corruption in anybody's Dataset."""

import numpy as np
import pytest
import torch
from PIL import Image
from reference_draws import synthetic_images
from torch.utils.data import DataLoader, Dataset

from poise import Corrupt, corrupt

IMAGES = synthetic_images(32, 8)


class Pictures(Dataset[torch.Tensor]):
    def __init__(self, transform: Corrupt) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, i: int) -> torch.Tensor:
        return self.transform(IMAGES[i])


def test_workers_order_and_epoch_change_nothing() -> None:
    data = Pictures(Corrupt("gaussian_noise", 3))
    plain = torch.cat(list(DataLoader(data, batch_size=3)))
    assert torch.equal(plain, torch.cat(list(DataLoader(data, batch_size=2, num_workers=2))))
    assert torch.equal(plain, torch.stack([data[i] for i in range(8)]))


def test_different_pictures_get_different_draws() -> None:
    flat = [torch.full((3, 32, 32), level, dtype=torch.uint8) for level in (100, 101)]
    first, second = (Corrupt("gaussian_noise", 1)(image).int() for image in flat)
    assert not torch.equal(first, second - 1)


def test_an_index_makes_it_the_batch_call() -> None:
    transform = Corrupt("snow", 2, seed=4, libraries="today", jpeg=85)
    together = corrupt(IMAGES, "snow", 2, seed=4, libraries="today", jpeg=85)
    assert torch.equal(torch.stack([transform(image, index=i) for i, image in enumerate(IMAGES)]), together)


def test_floats_and_bytes_of_one_picture_are_one_picture() -> None:
    transform = Corrupt("gaussian_noise", 3)
    assert torch.equal((transform(IMAGES[0] / 255) * 255).round().to(torch.uint8), transform(IMAGES[0]))


def test_pil_in_pil_out() -> None:
    transform = Corrupt("fog", 3)
    picture = Image.fromarray(IMAGES[0].permute(1, 2, 0).numpy())
    made = transform(picture)
    assert isinstance(made, Image.Image)
    assert np.array_equal(np.asarray(made), transform(IMAGES[0]).permute(1, 2, 0).numpy())


def test_wrong_settings_fail_when_they_are_made() -> None:
    with pytest.raises(ValueError, match="did you mean 'frost'"):
        Corrupt("frosty", 3)
    with pytest.raises(ValueError, match="severity=9"):
        Corrupt("frost", 9)
    with pytest.raises(ValueError, match="quality=0 must be from 1 to 100"):
        Corrupt("frost", 3, jpeg=0)
    with pytest.raises(ValueError, match="seed=None must be a whole number"):
        Corrupt("frost", 3, seed=None)


def test_wrong_images_are_named() -> None:
    with pytest.raises(TypeError, match=r"tensor .* or a PIL image, got ndarray"):
        Corrupt("fog", 1)(IMAGES[0].numpy())
    with pytest.raises(ValueError, match=r"use poise.corrupt for batches"):
        Corrupt("fog", 1)(IMAGES)
