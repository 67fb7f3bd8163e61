"""Synthetic MNIST, on small digits made by code and, where MNIST is in the cache, on the real ones."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from poise.data.sets.cache import digest
from poise.data.synthetic_mnist import Digits, SyntheticMNIST, shrink
from poise.random import Stream


def blobs(train: int = 3000, test: int = 500) -> dict[str, np.ndarray]:
    """Images whose centre carries a number of their own and whose corners are empty, as MNIST's almost always are."""
    arrays = {}
    for part, count in (("train", train), ("test", test)):
        x = np.zeros((count, 28, 28), np.uint8)
        x[:, 8:20, 8:20] = 1 + Stream(0, "blobs", part).integers(255, count * 144).reshape(count, 12, 12)
        arrays[f"{part}_x"], arrays[f"{part}_y"] = x, (np.arange(count) % 10).astype(np.uint8)
    return arrays


@pytest.fixture(scope="module")
def parts() -> dict:
    return SyntheticMNIST(validation=500, rare=5)(blobs())


def test_counts_and_classes(parts) -> None:
    assert np.bincount(parts["train"].y).tolist() == [250] * 10 + [5] * 5
    for part in ("validation", "test"):
        assert np.bincount(parts[part].y).tolist() == [50] * 15


def corner_of(image: np.ndarray, size: int = 7) -> list[bool]:
    return [
        bool(image[r, c].any())
        for r in (slice(0, size), slice(-size, None))
        for c in (slice(0, size), slice(-size, None))
    ]


@pytest.mark.parametrize("part", ["train", "validation", "test"])
def test_who_has_a_corner_digit_and_what_it_means(parts, part: str) -> None:
    made = parts[part]
    for image, label, digit, corner in zip(made.x, made.y, made.digit, made.corner, strict=True):
        has = label >= 5
        assert (corner >= 0) == has
        assert label == (digit + 10 if digit < 5 and has else digit)
        assert corner_of(image) == [has and number == corner for number in range(4)]


def test_corners_and_corner_digits_are_random(parts) -> None:
    made = parts["train"]
    share = np.bincount(made.corner[made.corner >= 0], minlength=4) / (made.corner >= 0).sum()
    assert abs(share - 0.25).max() < 0.05


def names_of(made: Digits, pool: dict[bytes, int], small: dict[bytes, int]) -> set[int]:
    """Which of all digit images a part is made of: those in the centre, and those in a corner."""
    names = {pool[np.ascontiguousarray(image).tobytes()] for image in made.x[:, 8:20, 8:20]}
    for image, corner in zip(made.x, made.corner, strict=True):
        if corner >= 0:
            rows = image[:7] if corner < 2 else image[-7:]
            patch = rows[:, :7] if corner % 2 == 0 else rows[:, -7:]
            names.add(small[np.ascontiguousarray(patch).tobytes()])
    return names


@pytest.mark.parametrize("common", [None, 200])
def test_parts_share_no_digit_image_corner_digits_included(common: int | None) -> None:
    """Every digit image can be told from its centre and from its small copy; each part is made of its own."""
    arrays = blobs()
    every = np.concatenate([arrays["train_x"], arrays["test_x"]])
    centres = {np.ascontiguousarray(image).tobytes(): number for number, image in enumerate(every[:, 8:20, 8:20])}
    small = {image.tobytes(): number for number, image in enumerate(shrink(every, 7))}
    assert len(centres) == len(small) == len(every) == 3500
    parts = SyntheticMNIST(validation=500, rare=5, common=common)(arrays)
    names = {part: names_of(made, centres, small) for part, made in parts.items()}
    assert names["train"] <= set(range(2500))
    assert names["validation"] == set(range(2500, 3000))
    assert names["test"] == set(range(3000, 3500))


def test_the_number_of_common_images_is_a_setting(parts) -> None:
    fewer = SyntheticMNIST(validation=500, rare=5, common=200)(blobs())
    assert np.bincount(fewer["train"].y).tolist() == [200] * 10 + [5] * 5
    every = {image.tobytes() for image in parts["train"].x[:, 8:20, 8:20].copy()}
    assert {image.tobytes() for image in fewer["train"].x[:, 8:20, 8:20].copy()} < every
    for part in ("validation", "test"):
        assert digest(fewer[part].x) == digest(parts[part].x)
    whole = SyntheticMNIST(validation=500, rare=5, common=250)(blobs())
    assert digest(whole["train"].x) == digest(parts["train"].x)


def test_one_seed_one_set(parts) -> None:
    again = SyntheticMNIST(validation=500, rare=5)(blobs())
    other = SyntheticMNIST(validation=500, rare=5, seed=1)(blobs())
    for part in parts:
        assert digest(parts[part].x) == digest(again[part].x) != digest(other[part].x)


def test_the_set_is_frozen(parts) -> None:
    assert (
        digest(np.concatenate([parts[part].x for part in ("train", "validation", "test")]))
        == "561681e5730cd3bb669b6f2a9fe098eeb364eaf7e60e76aaf8a40d5eb3e08e58"
    )


@pytest.mark.parametrize("size", [1, 4, 5, 7, 9, 14])
def test_area_scaling_is_the_mean_over_the_area(size: int) -> None:
    """Against the same mean in exact fractions, by way of an image enlarged `size` times."""
    images = np.random.default_rng(0).integers(0, 256, (5, 28, 28), dtype=np.uint8)
    large = images.repeat(size, axis=1).repeat(size, axis=2).reshape(5, size, 28, size, 28).astype(np.int64)
    expected = (large.sum((2, 4)) + 392) // 784
    np.testing.assert_array_equal(shrink(images, size), expected)


def test_nearest_takes_the_pixel_under_the_centre() -> None:
    images = np.arange(28 * 28, dtype=np.int64).reshape(1, 28, 28).astype(np.uint8)
    np.testing.assert_array_equal(shrink(images, 7, "nearest"), images[:, 2::4, 2::4])


@pytest.mark.parametrize("size", [5, 7, 9, 14])
def test_bilinear_is_torch_s_without_antialiasing(size: int) -> None:
    images = np.random.RandomState(0).randint(0, 256, (20, 28, 28)).astype(np.uint8)
    expected = F.interpolate(torch.from_numpy(images)[:, None].double(), (size, size), mode="bilinear")[:, 0]
    np.testing.assert_array_equal(shrink(images, size, "bilinear"), (expected + 0.5 + 1e-9).floor().numpy())


def test_bad_settings_are_named() -> None:
    with pytest.raises(ValueError, match="corner_size=20"):
        SyntheticMNIST(corner_size=20)
    with pytest.raises(ValueError, match="rare=9999 is too many"):
        SyntheticMNIST(validation=500, rare=9999)(blobs())
    with pytest.raises(ValueError, match="common=9999 is too many: there are 250 images of digit 0"):
        SyntheticMNIST(validation=500, common=9999)(blobs())
    with pytest.raises(ValueError, match="common=0 must be at least 1"):
        SyntheticMNIST(common=0)
