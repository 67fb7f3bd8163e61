"""PixMix: its two ways of mixing against their formulas, its fractals, and the distribution of its draws."""

import pytest
import torch
from smooth_pictures import pictures

from poise import PixMix
from poise.data.pixmix import add, fractals, multiply

CPU = torch.device("cpu")


def test_images_are_added_and_multiplied_as_published() -> None:
    for x, y, a, b in ((0.2, 0.9, 0.7, 0.2), (0.6, 0.3, 1.3, -0.4), (1.0, 0.01, 1.8, -0.9)):
        values = [torch.tensor(value) for value in (x, y, a, b)]
        assert float(add(*values)) == pytest.approx(((2 * x - 1) * a + (2 * y - 1) * b + 1) / 2, rel=1e-5)
        assert float(multiply(*values)) == pytest.approx((2 * x) ** a * (2 * y) ** b / 2, rel=1e-5)
    nothing = torch.zeros(1)
    assert not multiply(nothing, nothing, torch.tensor(1.2), torch.tensor(-1.0)).isnan().any()


def test_fractals_are_the_same_everywhere_and_all_different() -> None:
    some = fractals(40, 36, CPU)
    assert some.shape == (40, 3, 36, 36) and some.min() >= 0 and some.max() <= 1
    fractals.cache_clear()
    assert torch.equal(fractals(40, 36, CPU), some)
    spread = some.flatten(1).std(1)
    assert float(spread.min()) > 0.02  # none is plain
    gaps = torch.cdist(some.flatten(1), some.flatten(1)) + 99 * torch.eye(40)
    assert float(gaps.min()) > 1
    assert fractals(3, 100, CPU).shape == (3, 3, 100, 100)


def test_the_weights_are_of_the_published_distributions() -> None:
    """a and b are Beta(3, 1) and Beta(1, 3), or beyond 1 and below 0, as often; read off two plain images, added."""
    generator, mixed = torch.Generator().manual_seed(0), []
    first, second = torch.full((8000, 1, 1, 1), 0.55), torch.full((8000, 1, 1, 1), 0.5)
    for _ in range(2):
        mixed.append(PixMix(beta=3.0)._mixed(first, second, generator))
    made = torch.cat(mixed).flatten().double()
    # With y = 1/2 the second image is neutral: added, m = (0.1 a + 1) / 2; multiplied, m = 1.1^a / 2.
    a = torch.distributions.Beta(3.0, 1.0).sample((80000,)).double()
    a = torch.cat([a, 1 + torch.distributions.Beta(1.0, 3.0).sample((80000,)).double()])
    expected = torch.cat([(0.1 * a + 1) / 2, 1.1**a / 2])
    for share in (0.05, 0.25, 0.5, 0.75, 0.95):
        assert float(made.quantile(share)) == pytest.approx(float(expected.quantile(share)), abs=6e-4)


def test_a_fifth_of_the_images_is_not_mixed_and_half_of_those_not_augmented() -> None:
    """1 / 5 have no round; of these, half are the image itself and half an operation, which may leave it alone."""
    x = (pictures(5)[4:5, :, ::4, ::4].float() / 255).expand(3000, -1, -1, -1)
    made = PixMix(fractals=4)(x, torch.Generator().manual_seed(0))
    same = float((made - x).abs().flatten(1).amax(1).lt(1e-6).double().mean())
    assert 0.09 < same < 0.16


def test_the_same_generator_draws_the_same_and_the_result_stays_in_range() -> None:
    x = pictures().float() / 255
    mix = PixMix(fractals=16)
    once, again, other = (mix(x, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(once, again) and not torch.equal(once, other)
    assert once.shape == x.shape and once.min() >= 0 and once.max() <= 1 and not once.isnan().any()
    last = mix(x.contiguous(memory_format=torch.channels_last), torch.Generator().manual_seed(1))
    assert last.is_contiguous(memory_format=torch.channels_last) and torch.equal(last, once)
    assert mix(x[:, :1, :20], torch.Generator().manual_seed(1)).shape == (len(x), 1, 20, 32)


def test_wrong_settings_are_named() -> None:
    for wrong in ({"rounds": -1}, {"beta": 0.0}, {"severity": 11.0}, {"fractals": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}="):
            PixMix(**wrong)
