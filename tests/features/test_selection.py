"""Top-k and bottom-k as properties: of any utility, any mask of valid features, any k."""

from fractions import Fraction
from math import ceil

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from poise import AtRandom, AtRandomFraction, TopBottom, TopBottomFraction
from poise.features import selection
from poise.features.selection import _order_by_keys


@st.composite
def utilities(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor]:
    """Utilities with many ties, and which of them are valid."""
    batch, num_features = draw(st.integers(1, 4)), draw(st.integers(2, 12))
    values = draw(
        st.lists(st.sampled_from([0.0, 1e-30, 1.0, 2.0]), min_size=batch * num_features, max_size=batch * num_features)
    )
    valid = draw(st.lists(st.booleans(), min_size=batch * num_features, max_size=batch * num_features))
    return torch.tensor(values).view(batch, -1), torch.tensor(valid).view(batch, -1)


def check_row(u: list[float], valid: list[bool], low: list[bool], high: list[bool], k: int) -> None:
    inside = [j for j in range(len(u)) if valid[j]]
    if len(inside) < 2 * k:
        assert not any(low)
        assert not any(high)
        return
    assert sum(low) == sum(high) == k
    assert not any(a and b for a, b in zip(low, high, strict=True))
    assert all(valid[j] for j in range(len(u)) if low[j] or high[j])
    ordered = sorted(u[j] for j in inside)
    assert sorted(u[j] for j in range(len(u)) if low[j]) == ordered[:k]
    assert sorted(u[j] for j in range(len(u)) if high[j]) == ordered[-k:]


@given(utilities(), st.integers(1, 6))
def test_top_and_bottom_by_count(case: tuple[torch.Tensor, torch.Tensor], k: int) -> None:
    u, valid = case
    if 2 * k > u.shape[1]:
        with pytest.raises(ValueError, match=f"k={k} needs 2k <= {u.shape[1]} features"):
            TopBottom(k)(u)
    for mask in (valid, None)[: 1 if 2 * k > u.shape[1] else 2]:
        low, high = TopBottom(k)(u, mask)
        where = torch.ones_like(valid) if mask is None else mask
        for row in zip(u.tolist(), where.tolist(), low.tolist(), high.tolist(), strict=True):
            check_row(*row, k)


@given(utilities(), st.sampled_from([0.1, 0.2, 0.3, 0.5, 1 / 3]))
def test_top_and_bottom_by_fraction(case: tuple[torch.Tensor, torch.Tensor], fraction: float) -> None:
    u, valid = case
    for mask in (valid, None):
        low, high = TopBottomFraction(fraction)(u, mask)
        where = torch.ones_like(valid) if mask is None else mask
        for row in zip(u.tolist(), where.tolist(), low.tolist(), high.tolist(), strict=True):
            check_row(*row, max(1, ceil(Fraction(str(round(fraction, 9))) * sum(row[1]))))


@given(utilities(), st.sampled_from([torch.nan, torch.inf, -torch.inf]))
def test_values_that_are_not_finite_are_chosen_once_at_most(
    case: tuple[torch.Tensor, torch.Tensor], value: float
) -> None:
    u = case[0].masked_fill(case[1], value)
    low, high = TopBottom(u.shape[1] // 2)(u)
    assert not (low & high).any()
    assert (low.sum(1) == u.shape[1] // 2).all() and (high.sum(1) == u.shape[1] // 2).all()


@pytest.mark.parametrize("fraction", ["0.1", "0.2", "0.3", "0.07", "0.14", "0.28"])
def test_a_fraction_counts_like_exact_arithmetic(fraction: str) -> None:
    for length in range(2, 400):
        low, _ = TopBottomFraction(float(fraction))(torch.rand(1, length))
        assert low.sum() == max(1, ceil(Fraction(fraction) * length))


def test_ties_have_no_order_bias() -> None:
    """All utilities equal: every feature is chosen about equally often on each side."""
    generator = torch.Generator().manual_seed(0)
    draws = [TopBottom(2)(torch.zeros(1, 10), generator=generator) for _ in range(3000)]
    for side in zip(*draws, strict=True):
        assert torch.cat(side).float().mean(0).sub(0.2).abs().max() < 0.03


@given(st.lists(st.floats(width=32), min_size=1, max_size=40))
def test_the_order_by_keys_is_that_of_torch(values: list[float]) -> None:
    rows = torch.tensor([values, values[::-1]], dtype=torch.float32)
    assert torch.equal(_order_by_keys(rows), rows.argsort(dim=1, stable=True))


@pytest.mark.parametrize("values", [torch.rand(64, 300), torch.rand(64, 300).round(decimals=1)])
def test_keys_choose_what_a_sort_chooses(values: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen() -> list[torch.Tensor]:
        return list(TopBottom(100)(values, generator=torch.Generator().manual_seed(0)))

    by_keys = chosen()
    monkeypatch.setattr(selection, "_order_by_keys", lambda rows: pytest.fail("the other way"))
    monkeypatch.setattr(selection, "_sorts_keys", lambda rows: False)
    assert all(torch.equal(one, other) for one, other in zip(by_keys, chosen(), strict=True))


def test_a_generator_makes_ties_reproducible() -> None:
    u = torch.zeros(5, 50)
    choose = lambda seed: TopBottom(5)(u, generator=torch.Generator().manual_seed(seed))[0]  # noqa: E731
    assert torch.equal(choose(3), choose(3))
    assert not torch.equal(choose(3), choose(4))


def test_padding_is_never_chosen_even_among_nan() -> None:
    u = torch.full((1, 6), torch.nan)
    valid = torch.tensor([[True, True, True, False, False, False]])
    low, high = TopBottom(1)(u, valid)
    assert not (low | high)[~valid].any()


def test_infinite_utility_is_the_most_useful() -> None:
    _, high = TopBottom(1)(torch.tensor([[1.0, torch.inf, 2.0]]), torch.tensor([[True, True, True]]))
    assert high.tolist() == [[False, True, False]]


def test_pixels_move_together_and_rank_by_norm() -> None:
    u = torch.tensor([[[[3.0, 0.0], [1.0, 4.0]], [[4.0, 6.0], [1.0, 4.0]]]])  # norms 5, 6, 1.4, 5.7
    low, high = TopBottom(1, per="pixel")(u)
    assert low.shape == u.shape
    assert low[0, 0].tolist() == low[0, 1].tolist() == [[False, False], [True, False]]
    assert high[0, 0].tolist() == high[0, 1].tolist() == [[False, True], [False, False]]


def test_a_pixel_is_valid_only_with_all_its_channels() -> None:
    valid = torch.ones(1, 2, 2, 2, dtype=torch.bool)
    valid[0, 1, 0, 0] = False
    for seed in range(20):
        low, high = TopBottom(1, per="pixel")(torch.zeros(1, 2, 2, 2), valid, torch.Generator().manual_seed(seed))
        assert not (low | high)[0, :, 0, 0].any()


def test_per_value_chooses_channels_apart() -> None:
    _, high = TopBottom(2, per="value")(torch.rand(8, 3, 4, 4))
    assert (high.sum((1, 2, 3)) == 2).all()


def test_pixels_need_channels_and_a_mask_must_fit() -> None:
    with pytest.raises(ValueError, match=r'per="pixel" needs channels'):
        TopBottom(1, per="pixel")(torch.rand(2, 5))
    with pytest.raises(ValueError, match="valid has shape"):
        TopBottom(1)(torch.rand(2, 5), torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match="k=13 needs 2k <= 25 features"):
        TopBottom(13, per="pixel")(torch.rand(2, 3, 5, 5))


@pytest.mark.parametrize(
    "build", [lambda: TopBottom(0), lambda: TopBottomFraction(0.0), lambda: TopBottomFraction(0.6)]
)
def test_bad_settings_are_refused(build) -> None:
    with pytest.raises(ValueError, match="must"):
        build()


def test_one_feature_is_too_few() -> None:
    with pytest.raises(ValueError, match="at least 2 features"):
        TopBottomFraction(0.1)(torch.rand(4, 1))


def test_a_random_choice_takes_no_heed_of_utility() -> None:
    u = torch.rand(50, 3, 8, 8)
    low, high = AtRandom(20)(u, generator=torch.Generator().manual_seed(1))
    assert (low.flatten(1).sum(1) == 20).all() and (high.flatten(1).sum(1) == 20).all() and not (low & high).any()
    top = TopBottom(20)(u)[1]
    assert 0.05 < float((top & high).sum() / high.sum()) < 0.16  # chance: 20 of 192
    with pytest.raises(ValueError, match="k=100 needs 2k <= 192"):
        AtRandom(100)(u)


def test_a_random_share_is_drawn_anew_for_every_example() -> None:
    u, valid = torch.rand(400, 12), torch.ones(400, 12, dtype=torch.bool)
    valid[:, 10:] = False
    low, high = AtRandomFraction(0.3)(u, valid, torch.Generator().manual_seed(1))
    assert (low.sum(1) == 3).all() and (high.sum(1) == 3).all() and not (low & high).any()
    assert not (low | high)[:, 10:].any()
    for side in (low, high):  # every feature as often: 5 standard deviations of 400 draws of 3 in 10
        assert (side[:, :10].sum(0) - 120).abs().max() < 5 * (400 * 0.3 * 0.7) ** 0.5
    assert torch.unique(low, dim=0).shape[0] > 100
