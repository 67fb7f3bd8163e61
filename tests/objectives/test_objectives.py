"""One table of objectives, and tests that hold for every row."""

import copy

import pytest
import torch
from toys import ConvNet, Smooth, state_of

from poise import (
    FCL,
    XE,
    AugMix,
    Chain,
    CLGaussian,
    CrossEntropy,
    Gaussian,
    GaussianNoise,
    GradientUtility,
    InfoNCE,
    JensenShannon,
    LogitAdjusted,
    Margin,
    PatchGaussian,
    Ramp,
    Standard,
    TopBottom,
    XEGaussian,
    balanced_contrast,
)

OBJECTIVES = {
    "XE": XE(),
    "XE, adjusted": XE(LogitAdjusted((9, 3, 2, 1))),
    "XE+Gaussian": XEGaussian(Gaussian(0.3), weight=0.1),
    "CL+Gaussian": CLGaussian(Gaussian(0.5), InfoNCE(0.5), weight=0.1),
    "FCL": FCL(GradientUtility(), TopBottom(8), Gaussian(0.5), InfoNCE(0.1), weight=0.1),
    "FCL, margin": FCL(GradientUtility(), TopBottom(8, per="pixel"), Gaussian(0.5, (0, 1)), Margin(), weight=0.1),
    "FCL, defaults": FCL(),
    "balanced": balanced_contrast((9, 3, 2, 1), weight=0.1, tau=0.5),
    "balanced, CL+Gaussian": CLGaussian(Gaussian(0.5), InfoNCE(0.5), 0.1, loss=LogitAdjusted((9, 3, 2, 1))),
}
AROUND = {
    "AugMix": JensenShannon(XE(), AugMix()),
    "AugMix+FCL": JensenShannon(OBJECTIVES["FCL"], AugMix(depth=1)),
}

every = pytest.mark.parametrize("objective", (OBJECTIVES | AROUND).values(), ids=(OBJECTIVES | AROUND).keys())
noisy = pytest.mark.parametrize("objective", list(OBJECTIVES.values())[2:], ids=list(OBJECTIVES.keys())[2:])


def images(batch: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    return torch.rand(batch, 3, 6, 6, generator=generator), torch.arange(batch) % 4


@every
def test_training_lowers_the_loss(objective) -> None:
    model, (x, y) = ConvNet(), images()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    first = objective(model, x, y).parts["xe"]
    for step in range(60):
        optimizer.zero_grad()
        objective(model, x, y, step).total.backward()
        optimizer.step()
    assert objective(model, x, y).parts["xe"] < 0.8 * first


@every
def test_repr_is_the_recipe(objective) -> None:
    import poise

    assert eval(repr(objective), {name: getattr(poise, name) for name in poise.__all__}) == objective


@every
def test_the_same_generator_gives_the_same_gradients(objective) -> None:
    grads = []
    for _ in range(2):
        torch.manual_seed(0)
        model, (x, y) = ConvNet(), images()
        objective(model, x, y, generator=torch.Generator().manual_seed(1)).total.backward()
        grads.append([p.grad for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


@noisy
def test_views_leave_running_statistics_to_the_images(objective) -> None:
    (x, y), plain = images(), ConvNet()
    other = copy.deepcopy(plain)
    XE()(plain, x, y)
    objective(other, x, y)
    before, after = state_of(plain), state_of(other)
    assert all(torch.equal(before["values"][k], after["values"][k]) for k in before["values"])
    assert before["modes"] == after["modes"]


@noisy
def test_weight_zero_is_xe(objective) -> None:
    from dataclasses import replace

    model, (x, y) = ConvNet(), images()
    switched = replace(objective, weight=Ramp(1.0, start=10))
    loss = switched(model, x, y, step=9)
    assert len(model.modes) == 1
    assert torch.equal(loss.total, XE(objective.loss)(model, x, y).total)
    assert switched(model, x, y, step=10).parts.keys() > {"xe", "weight"}


def test_xe_gaussian_is_a_second_cross_entropy() -> None:
    model, (x, y) = Smooth(108), images()
    y = y % 3
    generator = torch.Generator().manual_seed(2)
    loss = XEGaussian(Gaussian(0.3), weight=0.1)(model, x, y, generator=generator)
    noisy_x = x + 0.3 * torch.randn(x.shape, generator=torch.Generator().manual_seed(2))
    expected = CrossEntropy()(model(x), y).mean() + 0.1 * CrossEntropy()(model(noisy_x), y).mean()
    torch.testing.assert_close(loss.total, expected)


def test_xe_gaussian_uses_its_own_loss_for_both_terms() -> None:
    model, (x, _) = Smooth(108), images()
    first = lambda logits, y: logits[:, 0]  # noqa: E731
    loss = XEGaussian(Gaussian(0.0), weight=2.0, loss=first)(model, x, torch.zeros(8))
    torch.testing.assert_close(loss.total, 3 * model(x)[:, 0].mean())


def test_cl_gaussian_is_a_contrast_without_a_far_view() -> None:
    model, (x, y) = Smooth(108), images()
    y = y % 3
    loss = CLGaussian(Gaussian(0.3), InfoNCE(0.5), weight=0.1)(model, x, y, generator=torch.Generator().manual_seed(2))
    noisy_x = x + 0.3 * torch.randn(x.shape, generator=torch.Generator().manual_seed(2))
    expected = CrossEntropy()(model(x), y).mean() + 0.1 * InfoNCE(0.5)(model.embed(x), model.embed(noisy_x))
    torch.testing.assert_close(loss.total, expected)


@every
@pytest.mark.parametrize("augment", [PatchGaussian(4, 0.1), Chain((Standard(1), GaussianNoise(0.1)))])
def test_any_augmentation_goes_with_any_objective(objective, augment) -> None:
    model, (x, y) = ConvNet(), images()
    assert objective(model, augment(x), y).total.isfinite()


def test_integer_images_are_refused_by_noise() -> None:
    model, (x, y) = ConvNet(), images()
    for objective in (OBJECTIVES["XE+Gaussian"], OBJECTIVES["CL+Gaussian"]):
        with pytest.raises(TypeError, match="needs floats"):
            objective(model, (x * 255).byte(), y)
