"""Benchmarks: their test sets, and what they make."""

import numpy as np
import pytest
import torch

from poise.cli.completion import complete_benchmarks
from poise.corruptions.corrupt import corrupt
from poise.data.pixel_noise import PixelNoise, pixel_deviation
from poise.evaluation.benchmarks import BENCHMARKS, SHARES, TestSet, benchmark_of

IMAGES = torch.randint(256, (12, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
INDEX = torch.tensor([7, 2, 11])


@pytest.mark.parametrize(
    ("name", "side", "profile", "jpeg"),
    [("cifar10-c", 32, "cifar", None), ("tiny-imagenet-c", 64, "tiny", 85), ("imagenet-c", 224, "imagenet", 85)],
)
def test_common_corruptions_are_made_as_they_were_published(name: str, side: int, profile: str, jpeg) -> None:
    images = IMAGES[:1].repeat(1, 1, side // 32, side // 32)
    made = BENCHMARKS[name].make(images, "snow", 3, torch.tensor([5]), 4)
    assert torch.equal(made, corrupt(images, "snow", 3, profile, seed=4, index=[5], jpeg=jpeg))
    assert BENCHMARKS[name].made(side, side) == "made as the published set was, with random draws of our own"
    assert f"was published at {side} px" in BENCHMARKS[name].made(side, side + 8)


@pytest.mark.parametrize("name", ["UN", "NUN"])
def test_pixel_noise_of_a_few_images_is_that_of_the_whole_set(name: str) -> None:
    whole = IMAGES.permute(0, 2, 3, 1).numpy()
    deviation = pixel_deviation(whole)
    make = BENCHMARKS["pixel-noise"].make.fitted(lambda: deviation)
    for severity, share in enumerate(SHARES, start=1):
        noise = PixelNoise(name == "UN", share, seed=3)
        expected = noise(whole, None if name == "UN" else deviation)[INDEX.numpy()]
        made = make(IMAGES[INDEX], name, severity, INDEX, 3).permute(0, 2, 3, 1).numpy()
        assert np.array_equal(made, expected)


def test_c_bar_is_a_benchmark_and_completions_know_all() -> None:
    made = BENCHMARKS["cifar10-c-bar"].make(IMAGES[:2], "ripple", 2, torch.tensor([4, 9]), 1)
    assert torch.equal(made, corrupt(IMAGES[:2], "ripple", 2, "cifar", seed=1, index=[4, 9]))
    assert sorted(complete_benchmarks()) == sorted(BENCHMARKS)


def test_test_sets_are_chosen_by_name_and_severity() -> None:
    benchmark = benchmark_of("imagenet-c")
    assert len(benchmark.chosen(None, None)) == 1 + 19 * 5
    assert benchmark.chosen(["fog"], [1, 3]) == [TestSet(), TestSet("fog", 1), TestSet("fog", 3)]
    with pytest.raises(ValueError, match="did you mean 'fog'"):
        benchmark.chosen(["fogg"], None)
    with pytest.raises(ValueError, match="severity 6 must be one of 1, 2, 3, 4, 5"):
        benchmark.chosen(None, [6])
    with pytest.raises(ValueError, match="did you mean 'imagenet-c'"):
        benchmark_of("imagenet-cc")
