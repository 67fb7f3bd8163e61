"""The divergence against its definition; what goes through the network together, and what does not."""

import copy
import math
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from toys import ConvNet, Smooth

from poise import (
    FCL,
    XE,
    AugMix,
    CrossEntropy,
    Gaussian,
    GradientUtility,
    InfoNCE,
    JensenShannon,
    Ramp,
    TopBottom,
    split,
)
from poise.objectives.jensen_shannon import divergence
from poise.objectives.objective import weight_of, with_weight


@dataclass(frozen=True)
class Darker:
    """A mixture that needs no luck: the first half of what it is given a third darker, the other half two thirds."""

    def __call__(self, x: torch.Tensor, generator: torch.Generator | None = None) -> torch.Tensor:
        one, other = x.chunk(2)
        return torch.cat([one * 2 / 3, other / 3])


AROUND_FCL = JensenShannon(
    FCL(GradientUtility(), TopBottom(8), Gaussian(0.5), InfoNCE(0.5), weight=Ramp(0.1, start=10)), Darker()
)


def images(batch: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand(batch, 3, 6, 6, generator=torch.Generator().manual_seed(5)), torch.arange(batch) % 3


def test_the_divergence_is_its_definition() -> None:
    logits = torch.randn(3, 5, 4, dtype=torch.float64)
    for example in range(5):
        rows = [[math.exp(v) for v in logits[version, example].tolist()] for version in range(3)]
        p = [[value / sum(row) for value in row] for row in rows]
        mean = [sum(row[c] for row in p) / 3 for c in range(4)]
        expected = sum(row[c] * math.log(row[c] / mean[c]) for row in p for c in range(4)) / 3
        assert float(divergence(logits)[example]) == pytest.approx(expected, rel=1e-9)
    assert float(divergence(logits[:1].expand(3, -1, -1)).abs().max()) < 1e-12


def test_predictions_that_share_nothing_are_log_3_apart() -> None:
    far = 200 * torch.eye(3)[:, None]  # [V, 1, L]
    assert float(divergence(far)) == pytest.approx(math.log(3))
    assert divergence(far.bfloat16()).dtype == torch.float32


def test_around_xe_it_is_the_sum_of_both() -> None:
    model, (x, y) = Smooth(108), images()
    loss = JensenShannon(XE(), Darker(), strength=5.0)(model, x, y)
    logits = torch.stack([model(x), model(x * 2 / 3), model(x / 3)])
    torch.testing.assert_close(loss.total, CrossEntropy()(logits[0], y).mean() + 5 * divergence(logits).mean())
    torch.testing.assert_close(loss.parts["js"], divergence(logits).mean().detach())
    loss.total.backward()
    ours = model.body.weight.grad.clone()
    model.zero_grad()
    (
        CrossEntropy()(model(x), y).mean()
        + 5 * divergence(torch.stack([model(x), model(x * 2 / 3), model(x / 3)])).mean()
    ).backward()
    torch.testing.assert_close(ours, model.body.weight.grad)


def test_all_versions_share_their_batch_statistics_and_the_views_of_fcl_do_not() -> None:
    model, (x, y) = ConvNet(num_classes=3), images()
    AROUND_FCL(model, x, y, step=10)
    model.modes.clear()
    together = copy.deepcopy(model)
    AROUND_FCL(model, x, y, step=10)
    assert model.modes == [(True, 18), (False, 12)]  # x and two mixtures; then near and far
    together.embed(torch.cat([x, x * 2 / 3, x / 3]))
    torch.testing.assert_close(model.norm.running_mean, together.norm.running_mean)


def test_utility_is_that_of_x_alone() -> None:
    """Without batch norm nothing ties the versions together: the contrast is that of FCL by itself."""
    model, (x, y) = Smooth(108), images()
    draws = lambda: torch.Generator().manual_seed(3)  # noqa: E731
    alone = AROUND_FCL.objective(model, x, y, 10, generator=draws())
    around = AROUND_FCL(model, x, y, 10, generator=draws())
    torch.testing.assert_close(around.parts["contrast"], alone.parts["contrast"])
    torch.testing.assert_close(around.logits, alone.logits)


def test_before_the_switch_it_is_augmix_and_the_parts_keep_their_order() -> None:
    model, (x, y) = Smooth(108), images()
    before, after = AROUND_FCL(model, x, y, 9), AROUND_FCL(model, x, y, 10)
    torch.testing.assert_close(before.total, JensenShannon(XE(), Darker())(model, x, y).total)
    assert list(after.parts)[:2] == list(before.parts) == ["xe", "js"]  # one column each in the engine's log


def test_the_weight_is_that_of_the_inner_objective() -> None:
    assert weight_of(AROUND_FCL) == Ramp(0.1, start=10) and weight_of(JensenShannon(XE(), Darker())) == 1.0
    assert with_weight(AROUND_FCL, Ramp(3.0)).objective.weight == Ramp(3.0)
    assert with_weight(JensenShannon(XE(), Darker()), Ramp(3.0)) == JensenShannon(XE(), Darker())


def test_wrong_settings_are_named() -> None:
    with pytest.raises(ValueError, match="strength=-1 must be a finite number of 0 or more"):
        JensenShannon(XE(), AugMix(), strength=-1)


def test_a_single_logit_stands_for_two_classes() -> None:
    x, y = torch.rand(6, 3, 6, 6), torch.arange(6) % 2
    one = nn.Sequential(nn.Flatten(), nn.Linear(108, 1))
    two = nn.Sequential(nn.Flatten(), nn.Linear(108, 2))
    with torch.no_grad():
        two[1].weight.copy_(torch.cat([torch.zeros(1, 108), one[1].weight]))
        two[1].bias.copy_(torch.cat([torch.zeros(1), one[1].bias]))
    objective = JensenShannon(XE(), Darker())
    found, expected = (objective(split(model, "1"), x, y).parts["js"] for model in (one, two))
    assert expected > 0
    torch.testing.assert_close(found, expected)


def test_mixtures_of_another_shape_are_named() -> None:
    x, y = torch.rand(6, 3, 6, 6), torch.arange(6) % 2
    with pytest.raises(ValueError, match=r"mix returned \[2, 3, 6, 6\] for images \[12, 3, 6, 6\]"):
        JensenShannon(XE(), lambda x, generator: x[:2])(Smooth(108), x, y)
