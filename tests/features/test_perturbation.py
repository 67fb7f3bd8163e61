import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from toys import sentences

from poise import Gaussian, Remove


@given(st.integers(0, 2**31), st.floats(0, 3), st.booleans())
def test_features_not_chosen_stay_bit_by_bit(seed: int, sigma: float, clip: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3, 2, 4, generator=generator)
    x[0, 0, 0], x[0, 0, 1], x[0, 0, 2] = -0.0, torch.inf, torch.nan
    chosen = torch.rand(x.shape, generator=generator) < 0.5
    moved = Gaussian(sigma, (0, 1) if clip else None)(x, chosen, generator)
    assert torch.equal(moved.view(torch.int32)[~chosen], x.view(torch.int32)[~chosen])
    if clip:
        inside = moved[chosen & ~x.isnan()]
        assert ((inside >= 0) & (inside <= 1)).all()


def test_noise_is_normal_with_the_given_deviation() -> None:
    x = torch.zeros(200_000)[None]
    moved = Gaussian(0.5)(x, torch.ones_like(x, dtype=torch.bool), torch.Generator().manual_seed(0))
    assert moved.mean().item() == pytest.approx(0, abs=0.005)
    assert moved.std().item() == pytest.approx(0.5, abs=0.005)
    assert (moved.abs() > 1.0).float().mean().item() == pytest.approx(0.0455, abs=0.003)


def test_no_choice_moves_everything_and_the_input_stays() -> None:
    x = torch.rand(2, 3)
    before = x.clone()
    assert (Gaussian(0.5)(x) != x).all()
    assert torch.equal(x, before)


def test_a_generator_makes_noise_reproducible() -> None:
    x, chosen = torch.rand(2, 3), torch.ones(2, 3, dtype=torch.bool)
    draw = lambda seed: Gaussian(0.5)(x, chosen, torch.Generator().manual_seed(seed))  # noqa: E731
    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))


def test_memory_format_and_dtype_stay() -> None:
    x = torch.rand(2, 3, 4, 4, dtype=torch.float64).to(memory_format=torch.channels_last)
    moved = Gaussian(0.5)(x, torch.rand(x.shape) < 0.5)
    assert moved.is_contiguous(memory_format=torch.channels_last)
    assert moved.dtype == torch.float64


def test_removal_takes_the_chosen_tokens() -> None:
    x = sentences([5, 3])
    chosen = torch.zeros_like(x.mask)
    chosen[0, 1] = chosen[1, 0] = True
    assert torch.equal(Remove()(x, chosen).mask, x.mask & ~chosen)
    assert Remove("delete")(x, chosen).ids[0, :4].tolist() == [x.ids[0, 0].item(), *x.ids[0, 2:].tolist()]


def test_wrong_input_and_settings_are_named() -> None:
    with pytest.raises(TypeError, match="use Remove"):
        Gaussian(0.5)(sentences([3]))
    with pytest.raises(TypeError, match=r"torch.uint8, but Gaussian noise needs floats"):
        Gaussian(0.5)(torch.zeros(2, 3, dtype=torch.uint8))
    with pytest.raises(TypeError, match="x must be Tokens"):
        Remove()(torch.rand(2, 3), torch.ones(2, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match="sigma=-1"):
        Gaussian(-1)
    with pytest.raises(ValueError, match="lowest, highest"):
        Gaussian(1, (1, 0))
