"""UN and NUN: how many, where, and what the pixels become."""

import numpy as np
import pytest

from poise.data.pixel_noise import PixelNoise, pixel_deviation
from poise.data.sets.cache import digest
from poise.random import Stream

GREY = np.full((300, 28, 28), 100, np.uint8)
COLOUR = Stream(0, "test images").integers(256, 200 * 16 * 16 * 3).astype(np.uint8).reshape(200, 16, 16, 3)


def changed(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    return before != after


def test_exactly_fifteen_percent_of_the_pixels_of_every_image() -> None:
    """118 of 784 pixels are drawn; one in 256 draws the level it had."""
    counts = changed(GREY, PixelNoise()(GREY)).sum((1, 2))
    assert counts.max() <= 118
    assert counts.mean() == pytest.approx(118 * 255 / 256, abs=0.3)


@pytest.mark.parametrize(("kind", "places"), [("grey", 38), ("colour", 38), ("value", 115)])
def test_what_a_pixel_becomes(kind, places: int) -> None:
    flat = np.full((200, 16, 16, 3), 77, np.uint8)
    noisy = PixelNoise(kind=kind)(flat)
    moved = changed(flat, noisy)
    assert (moved if kind == "value" else moved.any(3)).reshape(200, -1).sum(1).max() == places
    hit = noisy[moved.any(3)]
    if kind == "grey":
        assert (hit == hit[:, :1]).all()
    if kind == "colour":
        assert (hit[:, 0] != hit[:, 1]).mean() > 0.9
    if kind == "value":
        assert (moved.sum(3) == 1).sum() > (moved.sum(3) == 3).sum()


def test_levels_are_uniform() -> None:
    noisy = PixelNoise(share=1.0)(GREY)
    counts = np.bincount(noisy.ravel(), minlength=256)
    expected = noisy.size / 256
    assert abs(counts - expected).max() < 6 * expected**0.5


def test_un_has_no_favourite_pixels() -> None:
    images = np.full((4000, 10, 10), 100, np.uint8)
    share = changed(images, PixelNoise()(images)).mean(0)
    assert abs(share - 0.15).max() < 0.03


def test_nun_prefers_pixels_that_change_little() -> None:
    """Small shares, so that drawing without replacement hardly bends the weights: rates go like 1 / deviation."""
    deviation = np.array([[1.0, 2.0, 4.0, 8.0]] * 25)
    images = np.full((6000, 25, 4), 100, np.uint8)
    rates = changed(images, PixelNoise(uniform=False, share=0.05)(images, deviation)).mean((0, 1))
    assert rates / rates[3] == pytest.approx([8, 4, 2, 1], rel=0.15)


def test_a_deviation_of_zero_counts_as_the_least() -> None:
    deviation = np.array([[0.0, 0.5, 1.0, 2.0]] * 25)
    images = np.full((6000, 25, 4), 100, np.uint8)
    rates = changed(images, PixelNoise(uniform=False, share=0.05)(images, deviation)).mean((0, 1))
    assert rates / rates[3] == pytest.approx([2, 2, 2, 1], rel=0.15)


def test_noise_depends_on_the_seed_alone() -> None:
    assert digest(PixelNoise()(COLOUR)) == digest(PixelNoise()(COLOUR.copy()))
    assert digest(PixelNoise(seed=1)(COLOUR)) != digest(PixelNoise()(COLOUR))


@pytest.mark.parametrize("kind", ["grey", "colour", "value"])
@pytest.mark.parametrize("uniform", [True, False])
def test_an_image_s_noise_does_not_depend_on_how_many_come_after_it(uniform: bool, kind, monkeypatch) -> None:
    noise, deviation = PixelNoise(uniform=uniform, kind=kind), pixel_deviation(COLOUR)
    whole = noise(COLOUR, deviation)
    for count in (1, 7, 150):
        np.testing.assert_array_equal(noise(COLOUR[:count], deviation), whole[:count])
    monkeypatch.setattr("poise.data.pixel_noise.CHUNK", 33)
    np.testing.assert_array_equal(noise(COLOUR, deviation), whole)


def test_noise_is_frozen() -> None:
    deviation = pixel_deviation(COLOUR)
    assert digest(PixelNoise()(COLOUR)) == "ed204487f4a3184d809befa581c07afed8c02d9f3ffe31413a207ac4b4d6a534"
    assert (
        digest(PixelNoise(uniform=False)(COLOUR, deviation))
        == "86454fe6efde8230ba628513ac8e2aa9795b1677e4d6b7bdc83923fc48653652"
    )


def test_no_share_changes_nothing() -> None:
    np.testing.assert_array_equal(PixelNoise(share=0.0)(COLOUR), COLOUR)


def test_deviation_is_numpy_s() -> None:
    np.testing.assert_allclose(pixel_deviation(COLOUR), COLOUR.astype(float).std(0))


def test_wrong_calls_are_named() -> None:
    with pytest.raises(ValueError, match=r"NUN needs the deviation of the training images: pixel_deviation\(train_x\)"):
        PixelNoise(uniform=False)(GREY)
    with pytest.raises(ValueError, match="the deviation has shape"):
        PixelNoise(uniform=False)(GREY, np.ones((16, 16)))
    with pytest.raises(TypeError, match="images must be uint8"):
        PixelNoise()(GREY.astype(float))
    with pytest.raises(ValueError, match=r"share=1\.5"):
        PixelNoise(share=1.5)


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_a_deviation_that_is_none_is_refused(value: float) -> None:
    deviation = np.ones((4, 4))
    deviation[1, 2] = value
    with pytest.raises(ValueError, match="negative, infinite or nan"):
        PixelNoise(uniform=False)(np.zeros((2, 4, 4), np.uint8), deviation)
    with pytest.raises(ValueError, match="least_deviation=nan above 0"):
        PixelNoise(least_deviation=np.nan)
