"""PRIME: each primitive against its formula written out, and the distribution of its draws."""

import math

import pytest
import torch
from smooth_pictures import pictures
from torch import Tensor

from poise import PRIME
from poise.data.prime import bilinear, random_color, random_filter, random_warp, temperatures, wave_modes

CPU = torch.device("cpu")


def images(count: int = 6) -> Tensor:
    return pictures(count).float() / 255


@pytest.mark.parametrize(("height", "width", "cut"), [(32, 32, 100), (9, 14, 40), (48, 32, 20)])
def test_a_field_has_the_variance_of_all_its_modes(height: int, width: int, cut: int) -> None:
    """sum over i^2 + j^2 < (cut + 1/2)^2 of (sin(i pi x) sin(j pi y))^2 / (i^2 + j^2), although few modes are drawn.

    And the same for the covariance of two places, which aliases with wrong signs would change.
    """
    spread, rows, columns = (part.double() for part in wave_modes(height, width, cut, CPU))
    assert rows.shape[0] <= height - 2 and columns.shape[0] <= width - 2
    place = [torch.linspace(0, 1, size, dtype=torch.float64) for size in (height, width)]
    for limit in (2, 3, cut // 2, cut):
        expected = torch.zeros(height, width, dtype=torch.float64)
        beside = torch.zeros(height, width - 1, dtype=torch.float64)
        for i in range(1, limit + 1):
            for j in range(1, limit + 1):
                if math.hypot(i, j) < limit + 0.5:
                    down, across = (math.pi * i * place[0]).sin(), (math.pi * j * place[1]).sin()
                    expected += (down[:, None] * across) ** 2 / (i * i + j * j)
                    beside += down[:, None] ** 2 * across[1:] * across[:-1] / (i * i + j * j)
        variance = spread[limit] ** 2
        assert torch.allclose(rows.T**2 @ variance @ columns**2, expected, atol=1e-5)
        assert torch.allclose(rows.T**2 @ variance @ (columns[:, 1:] * columns[:, :-1]), beside, atol=1e-5)


def test_temperatures_reach_from_half_a_pixel_to_the_first_fold() -> None:
    """The published range at 32 px: T1 = 1 / (pi n^2 log c), T2 = 4 / (pi^3 c^2 log c), at least T1."""
    for cut in (2, 3, 10, 100):
        least, largest = temperatures(32, torch.tensor([cut]))
        log = math.log(cut + 1e-6)
        low, high = 1 / (math.pi * 32**2 * log), 4 / (math.pi**3 * cut**2 * log)
        assert float(least) == pytest.approx(low, rel=1e-5) and float(largest) == pytest.approx(
            max(low, high), rel=1e-5
        )


def test_sampling_is_bilinear_and_clamped() -> None:
    x = images()[:3]
    generator = torch.Generator().manual_seed(0)
    down, right = 6 * torch.randn(2, 3, 32, 32, generator=generator)
    made = bilinear(x, down, right)
    for b, row, column in ((0, 0, 0), (1, 5, 31), (2, 17, 9), (0, 31, 31), (1, 13, 2)):
        y = min(max(row - float(down[b, row, column]), 0), 31)
        z = min(max(column - float(right[b, row, column]), 0), 31)
        expected = torch.zeros(3)
        for i in range(32):
            for j in range(32):
                expected += max(0, 1 - abs(y - i)) * max(0, 1 - abs(z - j)) * x[b, :, i, j]
        assert torch.allclose(made[b, :, row, column], expected, atol=1e-5)
    assert torch.equal(bilinear(x, torch.zeros(3, 32, 32), torch.zeros(3, 32, 32)), x)


def test_a_filter_is_a_correlation_with_its_own_taps() -> None:
    x, generator = images() * 0.5 + 0.25, torch.Generator().manual_seed(4)
    made = random_filter(x, 0.05, generator)
    generator.manual_seed(4)
    noise = torch.randn(6, 9, generator=generator)
    taps = (noise * (0.05 * torch.rand(6, generator=generator))[:, None]).view(6, 1, 3, 3)
    taps[:, :, 1, 1] += 1
    for place in range(6):
        expected = torch.nn.functional.conv2d(x[place, :, None], taps[place, None], padding=1)[:, 0]
        assert torch.allclose(made[place], expected.clamp(0, 1), atol=1e-6)


def test_a_change_of_color_is_the_sum_of_sines_per_channel() -> None:
    x, generator = images(), torch.Generator().manual_seed(4)
    made = random_color(x, 100, 0.01, generator)
    generator.manual_seed(4)
    modes = torch.randint(1, 101, (6, 1, 1), generator=generator)
    heat = (0.01 * torch.rand(6, generator=generator)).sqrt()[:, None, None]
    drawn = heat * torch.randn(6, 3, 100, generator=generator)
    expected = x.double().clone()
    for mode in range(1, 101):
        on = (mode <= modes)[..., None]
        expected += drawn[:, :, mode - 1, None, None].double() * (math.pi * mode * x.double()).sin() * on
    assert (made - expected.clamp(0, 1)).abs().max() < 1 / 255
    ends = random_color(torch.tensor([0.0, 1.0]).view(1, 1, 1, 2).expand(9, 1, 2, 2), 100, 1.0, generator)
    assert torch.allclose(ends, torch.tensor([0.0, 1.0]).expand_as(ends), atol=1e-3)


def test_a_warp_moves_the_inside_by_about_a_pixel_and_holds_the_border() -> None:
    x = torch.arange(32.0).expand(300, 1, 32, 32) / 31
    made = random_warp(x, 100, torch.Generator().manual_seed(0))
    assert torch.allclose(made[:, :, :, [0, -1]], x[:, :, :, [0, -1]], atol=1e-5)
    moved = 31 * (made - x)[:, 0, 8:24, 8:24].std((1, 2))
    assert 0.3 < float(moved.median()) < 2 and float(moved.max()) < 8


def test_the_same_generator_draws_the_same_and_half_precision_is_not_used() -> None:
    x = images(24)
    once, again, other = (PRIME()(x, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(once, again) and not torch.equal(once, other)
    assert once.shape == x.shape and once.min() >= 0 and once.max() <= 1
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(PRIME()(x, torch.Generator().manual_seed(1)), once)
    last = PRIME()(x.contiguous(memory_format=torch.channels_last), torch.Generator().manual_seed(1))
    assert last.is_contiguous(memory_format=torch.channels_last) and torch.equal(last, once)
    assert PRIME()(x[:, :1, :20], torch.Generator().manual_seed(1)).shape == (24, 1, 20, 32)


def test_wrong_settings_are_named() -> None:
    for wrong in ({"width": 0}, {"depth": 0}, {"cut": 2}, {"sigma": -1.0}, {"color": -1.0}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}="):
            PRIME(**wrong)
