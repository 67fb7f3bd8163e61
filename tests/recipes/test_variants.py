"""Variants of FCL: controls and candidates against slow readings of what they say."""

import math

import pytest
import torch

from poise import FCL, Gaussian, GradientUtility, InfoNCE, LeNet, TopBottom
from poise.classifier import leaf, run
from poise.losses import CrossEntropy
from poise.recipes.synthetic_mnist import rare_against_noise as frontier
from poise.recipes.variants import (
    Confident,
    Graded,
    GradedGaussian,
    NearOnly,
    SmoothUtility,
    Swapped,
    Uneven,
    WeightedFar,
)
from poise.schedules import Ramp


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


U = torch.rand(6, 1, 16, 16, generator=seeded())


def test_swapped_is_top_bottom_the_other_way_round() -> None:
    low, high = TopBottom(k=40)(U, generator=seeded(3))
    assert all(map(torch.equal, Swapped(k=40)(U, generator=seeded(3)), (high, low)))


def test_uneven_counts_differ() -> None:
    low, high = Uneven(near=200, far=10)(U)
    assert (low.flatten(1).sum(1) == 200).all() and (high.flatten(1).sum(1) == 10).all()
    assert all(row[mask].max() <= row[~mask].min() for row, mask in zip(U, low, strict=True))
    assert all(row[mask].min() >= row[~mask].max() for row, mask in zip(U, high, strict=True))
    with pytest.raises(ValueError, match="overlap in 256 features"):
        Uneven(near=200, far=57).check(U.shape)


def test_grades_are_ranks_and_scale_the_noise() -> None:
    near, far = Graded()(U)
    assert torch.allclose(near + far, torch.ones_like(U))
    assert (far.flatten(1).argsort(dim=1) == U.flatten(1).argsort(dim=1)).all() and far.max() == 1 and far.min() == 0
    x = torch.zeros(2000, 1, 4, 4)
    grades = torch.linspace(0, 1, 16).view(1, 1, 4, 4).expand_as(x)
    moved = GradedGaussian(0.5)(x, grades, seeded(4))
    assert torch.allclose(moved.std(0).flatten(), 0.5 * grades[0].flatten(), atol=0.03)


def embeddings() -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(3, 8, 5, generator=seeded(5)).unbind())


def test_near_only_forgets_the_far_view() -> None:
    z, near, far = embeddings()
    everyone = torch.ones(8, dtype=torch.bool)
    assert torch.equal(NearOnly(InfoNCE(0.2))(z, near, far, keep=everyone), InfoNCE(0.2)(z, near))


@pytest.mark.parametrize("times", [1.0, 100.0])
def test_the_far_view_counts_so_many_times(times: float) -> None:
    z, near, far = embeddings()
    keep = torch.tensor([True] * 6 + [False] * 2)
    taking_part = torch.tensor([False] + [True] * 7)
    found = WeightedFar(0.2, times)(z, near, far, keep=keep, taking_part=taking_part)

    def e(one: torch.Tensor, other: torch.Tensor) -> float:
        return math.exp(float(torch.nn.functional.cosine_similarity(one, other, dim=0)) / 0.2)

    total = 0.0
    for i in range(1, 8):
        pool = sum(e(z[i], z[j]) for j in range(8) if j != i) + (times * e(z[i], far[i]) if keep[i] else 0)
        total -= math.log(e(z[i], near[i]) / (e(z[i], near[i]) + pool))
    assert float(found) == pytest.approx(total / 8, rel=1e-5)


def test_smooth_utility_is_the_mean_over_copies() -> None:
    torch.manual_seed(0)
    model, x, y = LeNet(3, size=16), torch.rand(4, 1, 16, 16), torch.tensor([0, 1, 2, 0])
    plain = GradientUtility()(model, x, y)
    assert torch.allclose(SmoothUtility(copies=2, sigma=0.0)(model, x, y), plain, rtol=1e-5)
    torch.manual_seed(1)
    found = SmoothUtility(copies=2, sigma=0.3)(model, x, y)
    torch.manual_seed(1)
    copies = [GradientUtility()(model, Gaussian(0.3)(x), y) for _ in range(2)]
    assert torch.allclose(found, (plain + sum(copies)) / 3, rtol=1e-5)


def test_only_the_confident_take_part() -> None:
    torch.manual_seed(0)
    model, x, y = LeNet(3, size=16), torch.rand(6, 1, 16, 16), torch.tensor([0, 1, 2, 0, 1, 2])
    losses = run(model, x, y, CrossEntropy()).losses.detach()
    below = float(losses.sort().values[2:4].mean())
    forward = run(model, leaf(x), y, CrossEntropy())
    u = Confident(below)(model, x, y, forward=forward)
    assert (u.flatten(1).isnan().all(1) == (losses >= below)).all() and 0 < u.flatten(1).isnan().any(1).sum() < 6
    objective = FCL(Confident(1e-9), TopBottom(k=8), Gaussian(0.5), InfoNCE(0.1), Ramp(1.0))
    assert float(objective(model, x, y).parts["contrast"]) == 0


def test_every_choice_of_the_frontier_gives_a_finite_gradient() -> None:
    torch.manual_seed(0)
    x, y = torch.rand(16, 1, 28, 28), torch.randint(15, (16,))
    for choice in frontier.CHOICES.values():
        model = LeNet(15)
        choice(Ramp(0.1))(model, x, y, 5).total.backward()
        assert all(weight.grad.isfinite().all() for weight in model.parameters())
