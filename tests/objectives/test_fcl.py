"""Algorithm 1: what it computes, what it costs, what it leaves alone."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from toys import BagOfWords, ConvNet, Linear, Smooth, sentences, state_of

from poise import (
    FCL,
    XE,
    Constant,
    CrossEntropy,
    Gaussian,
    GivenUtility,
    GradientUtility,
    InfoNCE,
    Margin,
    MixedUtility,
    Ramp,
    RemovalUtility,
    Remove,
    TopBottom,
    TopBottomFraction,
)


def fcl(**changes) -> FCL:
    standard = FCL(GradientUtility(), TopBottom(3), Gaussian(0.5), InfoNCE(0.1), weight=0.5)
    return replace(standard, **changes)


def batch(size: int = 6, *shape: int) -> tuple[Tensor, Tensor]:
    return torch.rand(size, *(shape or (8,))), torch.arange(size) % 3


def algorithm_1(model: nn.Module, x: Tensor, y: Tensor, objective: FCL, seed: int) -> Tensor:
    """The algorithm the plain way: a utility pass of its own, then three more forwards, in eval mode throughout."""
    image = x.clone().requires_grad_()
    CrossEntropy()(model(image), y).sum().backward()
    model.zero_grad()
    u = image.grad.abs()
    generator = torch.Generator().manual_seed(seed)
    low, high = objective.select(u, None, generator)
    near = x + torch.randn(x.shape, generator=generator) * objective.perturb.sigma * low
    far = x + torch.randn(x.shape, generator=generator) * objective.perturb.sigma * high
    contrast = objective.contrast(model.embed(x), model.embed(near), model.embed(far))
    return CrossEntropy()(model(x), y).mean() + objective.weight * contrast


def test_is_algorithm_1() -> None:
    model, (x, y), objective = Smooth(8), batch(), fcl()
    expected = algorithm_1(model, x, y, objective, seed=3)
    expected.backward()
    grads = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    loss = objective(model, x, y, generator=torch.Generator().manual_seed(3))
    loss.total.backward()
    torch.testing.assert_close(loss.total, expected)
    for p, grad in zip(model.parameters(), grads, strict=True):
        torch.testing.assert_close(p.grad, grad)


def test_parts_add_up_and_logits_are_those_of_x() -> None:
    model, (x, y) = Smooth(8), batch()
    loss = fcl()(model, x, y)
    torch.testing.assert_close(loss.total.detach(), loss.parts["xe"] + loss.parts["weight"] * loss.parts["contrast"])
    torch.testing.assert_close(loss.logits, model(x).detach())
    assert not loss.logits.requires_grad


@pytest.mark.parametrize("weight", [0.0, Ramp(1.0, start=5), Constant(0.0)])
def test_weight_zero_is_exactly_xe_with_one_forward(weight) -> None:
    model, (x, y) = Smooth(8), batch()
    XE()(model, x, y).total.backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model.calls = 0
    loss = fcl(weight=weight)(model, x, y, step=4)
    loss.total.backward()
    assert model.calls == 1
    assert loss.parts.keys() == {"xe"}
    assert all(torch.equal(p.grad, grad) for p, grad in zip(model.parameters(), expected, strict=True))
    assert torch.equal(loss.total, XE()(model, x, y).total)


@pytest.mark.parametrize(
    ("changes", "rows"),
    [
        ({}, [(True, 6), (False, 12)]),
        ({"statistics": "batch"}, [(True, 6), (True, 6), (True, 6)]),
        ({"statistics": "moving"}, [(True, 6), (True, 6), (True, 6)]),
        ({"utility": GradientUtility(own_forward=True)}, [(True, 6), (False, 6), (False, 12)]),
    ],
)
def test_every_view_is_embedded_once(changes, rows) -> None:
    """(batch norm in train mode?, examples) for every call of embed: x, near and far, and no more after the first step,
    which looks at the model once."""
    model, (x, y) = ConvNet(num_classes=3), batch(6, 3, 5, 5)
    fcl(**changes)(model, x, y)
    model.modes.clear()
    fcl(**changes)(model, x, y)
    assert model.modes == rows


@pytest.mark.parametrize(("utility", "needed"), [(GradientUtility(), True), (GivenUtility(), False)])
def test_the_input_gathers_a_gradient_only_where_the_utility_needs_it(utility, needed: bool) -> None:
    model, (x, y) = Smooth(8), batch()
    seen = []
    model.body.register_forward_hook(lambda module, args, out: seen.append(args[0].requires_grad))
    fcl(utility=utility)(model, x, y, given=torch.rand(6, 8))
    assert seen == [needed, False]


def test_utility_gives_parameters_no_gradient() -> None:
    """With a contrast of weight almost 0, gradients are those of XE: nothing came from the utility's backward."""
    model, (x, y) = Smooth(8).double(), batch()
    x = x.double()
    XE()(model, x, y).total.backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    fcl(weight=1e-300)(model, x, y).total.backward()
    for p, grad in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(p.grad, grad)


@pytest.mark.parametrize("statistics", ["running", "batch"])
def test_running_statistics_move_as_in_xe(statistics) -> None:
    (x, y), models = batch(6, 3, 5, 5), [ConvNet(num_classes=3) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    XE()(models[0], x, y)
    fcl(statistics=statistics)(models[1], x, y)
    assert torch.equal(models[0].norm.running_mean, models[1].norm.running_mean)
    assert torch.equal(models[0].norm.running_var, models[1].norm.running_var)
    assert models[1].norm.num_batches_tracked == 1
    assert state_of(models[1])["modes"] == state_of(models[0])["modes"]


def test_moving_statistics_see_every_view() -> None:
    """x, near and far, in this order: what a loop does that embeds all three in train mode."""
    (x, y), models = batch(6, 3, 5, 5), [ConvNet(num_classes=3) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    fcl(statistics="moving", perturb=Gaussian(0.0))(models[0], x, y)
    for _ in range(3):
        models[1].embed(x)
    torch.testing.assert_close(models[0].norm.running_mean, models[1].norm.running_mean)
    torch.testing.assert_close(models[0].norm.running_var, models[1].norm.running_var)
    assert models[0].norm.num_batches_tracked == 3


def test_dropout_is_off_in_views_on_running_statistics() -> None:
    model, (x, y) = ConvNet(num_classes=3, dropout=0.9), batch(6, 3, 5, 5)
    fcl()(model, x, y)
    seen = []
    model.dropout.register_forward_hook(lambda module, args, out: seen.append(torch.equal(args[0], out)))
    fcl()(model, x, y)
    assert seen == [False, True]


def test_the_caller_s_input_is_left_alone() -> None:
    model, (x, y) = Smooth(8), batch()
    before = x.clone()
    fcl()(model, x, y).total.backward()
    assert torch.equal(x, before)
    assert not x.requires_grad
    assert x.grad is None


def test_a_generator_makes_a_step_reproducible() -> None:
    model, (x, y) = Smooth(8), batch()
    total = lambda seed: fcl()(model, x, y, generator=torch.Generator().manual_seed(seed)).total.item()  # noqa: E731
    assert total(1) == total(1) != total(2)


def test_a_loss_without_a_graph_for_validation() -> None:
    model, (x, y) = Smooth(8), batch()
    with torch.no_grad():
        loss = fcl()(model, x, y, generator=torch.Generator().manual_seed(0))
    with_graph = fcl()(model, x, y, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(loss.total, with_graph.total.detach())


@pytest.mark.parametrize("how", ["mask", "delete"])
def test_tokens(how) -> None:
    model, x, y = BagOfWords(), sentences([8, 5, 9, 7], special=True), torch.tensor([0, 1, 2, 0])
    objective = fcl(utility=RemovalUtility(how), select=TopBottomFraction(0.1), perturb=Remove(how))
    loss = objective(model, x, y)
    loss.total.backward()
    assert loss.parts["contrast"] > 0
    assert model.words.weight.grad.abs().sum() > 0


def test_a_sentence_too_short_to_choose_from_drops_out() -> None:
    """One feature cannot be both least and most useful."""
    model, y = BagOfWords(), torch.tensor([0, 1, 2])
    for select in (TopBottomFraction(0.1), TopBottom(3)):
        short = fcl(utility=RemovalUtility(), select=select, perturb=Remove(), weight=1.0)
        assert short(model, sentences([1, 1, 1]), y).parts["contrast"] == 0
    objective = fcl(utility=RemovalUtility(), select=TopBottomFraction(0.1), perturb=Remove(), weight=1.0)
    x = sentences([1, 1, 6])
    loss = objective(model, x, y)
    z, contrast = model.embed(x), InfoNCE(0.1, "sum")
    alone = objective(model, x, y).parts["contrast"] * 3
    u = RemovalUtility()(model, x, y)
    low, high = TopBottomFraction(0.1)(u, x.features)
    only = torch.tensor([False, False, True])
    expected = contrast(z, model.embed(x.without(low)), model.embed(x.without(high)), taking_part=only)
    torch.testing.assert_close(alone, expected.detach())
    assert loss.total.isfinite()


def test_far_view_is_dropped_where_utility_vanishes() -> None:
    model, (x, y) = Smooth(8), batch()
    given = torch.rand(6, 8)
    given[2] = 1e-13
    keeps: list[Tensor] = []

    class Spy(InfoNCE):
        def __call__(self, z, near, far=None, *, keep=None, taking_part=None):
            keeps.append(keep)
            return super().__call__(z, near, far, keep=keep, taking_part=taking_part)

    fcl(utility=GivenUtility(), contrast=Spy(0.1))(model, x, y, given=given)
    assert keeps[0].tolist() == [True, True, False, True, True, True]
    fcl(utility=GivenUtility(), contrast=Spy(0.1), drop_below=1e-14)(model, x, y, given=given)
    assert keeps[1].all()


def test_all_zero_utility_is_plain_contrast_with_random_features() -> None:
    model, (x, y) = Smooth(8), batch()
    loss = fcl(utility=GivenUtility())(model, x, y, given=torch.zeros(6, 8))
    assert loss.total.isfinite()


def test_a_batch_without_removable_tokens_has_no_contrast() -> None:
    x = sentences([2, 2], special=True)
    loss = fcl(utility=RemovalUtility(), select=TopBottomFraction(0.1), perturb=Remove())(
        BagOfWords(), x, torch.tensor([0, 1])
    )
    assert loss.parts["contrast"] == 0


def test_what_is_given_for_padding_does_not_count() -> None:
    model, x, y = BagOfWords(), sentences([8, 5, 6]), torch.tensor([0, 1, 2])
    given = torch.rand(3, 8)
    junk = given.where(x.mask, torch.tensor(torch.nan))
    objective = fcl(utility=GivenUtility(), perturb=Remove(), select=TopBottom(2))
    losses = [objective(model, x, y, given=u, generator=torch.Generator().manual_seed(0)).total for u in (given, junk)]
    assert torch.equal(*losses)


def test_an_input_with_a_graph_of_its_own_keeps_it() -> None:
    """What made x is trained through it, with the contrast as without."""
    model, (raw, y) = Smooth(8), batch()
    maker = nn.Linear(8, 8)
    fcl(weight=1e-30)(model, maker(raw), y).total.backward()
    with_contrast = maker.weight.grad.clone()
    maker.zero_grad()
    XE()(model, maker(raw), y).total.backward()
    torch.testing.assert_close(with_contrast, maker.weight.grad)


@pytest.mark.parametrize(
    "utility", [GradientUtility(), GradientUtility(own_forward=True), MixedUtility((GradientUtility(True),), (1.0,))]
)
def test_the_utility_is_that_of_the_objective_s_loss(utility) -> None:
    """A loss that reads feature 0 alone makes it the most useful one, whatever the network does with the others."""

    class Reader(Linear):
        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.embed(x))

    model = Reader(8, width=8, num_classes=8)
    model.body.weight.data, model.head.weight.data = torch.eye(8), torch.eye(8)
    chosen: list[Tensor] = []

    class Spy(Gaussian):
        def __call__(self, x, chosen_now=None, generator=None):
            chosen.append(chosen_now)
            return super().__call__(x, chosen_now, generator)

    first = lambda logits, y: logits[:, 0].square()  # noqa: E731
    fcl(utility=utility, select=TopBottom(1), perturb=Spy(0.1), loss=first)(
        model, torch.rand(4, 8) + 0.1, torch.zeros(4).long()
    )
    assert chosen[1][:, 0].all()


def test_own_and_external_utility_together() -> None:
    model, (x, y) = Smooth(8), batch()
    mixed = MixedUtility((GradientUtility(), GivenUtility()), (0.5, 0.5))
    loss = fcl(utility=mixed)(model, x, y, given=torch.rand(6, 8))
    assert model.calls == 2  # the gradient came from the objective's pass
    assert loss.total.isfinite()


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_an_input_that_is_not_finite_is_named(value: float, weight: float) -> None:
    model, (x, y) = Smooth(8), batch()
    x[2, 0] = value
    with pytest.raises(ValueError, match="x must be finite, but example 2"):
        fcl(weight=weight)(model, x, y)


@pytest.mark.parametrize("layer", ["head", "body"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_make_the_total_nan(layer: str, value: float) -> None:
    """Nothing is hidden: GradScaler and anomaly detection see a loss or an embedding that is not finite."""
    model, (x, y) = Linear(8), batch()
    model.get_submodule(layer).weight.data[0, 0] = value
    assert not fcl()(model, x, y).total.isfinite()


def test_a_batch_of_one() -> None:
    model, (x, y) = Smooth(8), batch(1)
    assert fcl()(model, x, y).parts["contrast"] > 0


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_a_recipe_that_cannot_work_fails_at_the_first_step(weight: float) -> None:
    model, (x, y) = Smooth(8), batch()
    with pytest.raises(ValueError, match="k=5 needs 2k <= 8 features"):
        fcl(select=TopBottom(5), weight=weight)(model, x, y)
    with pytest.raises(TypeError, match="x must be Tokens"):
        fcl(perturb=Remove(), weight=weight)(model, x, y)
    with pytest.raises(TypeError, match=r"torch.uint8"):
        fcl(weight=weight)(model, (x * 255).byte(), y)
    with pytest.raises(TypeError, match="x are Tokens"):
        fcl(weight=weight)(BagOfWords(), sentences([5]), torch.tensor([0]))


@pytest.mark.parametrize(
    "build",
    [
        lambda: fcl(statistics="eval"),
        lambda: InfoNCE(0.1, reduction="none"),
        lambda: Margin(distance="cosine"),
        lambda: Remove("masked"),
        lambda: RemovalUtility("masked"),
    ],
)
def test_a_word_that_is_no_choice_is_refused(build) -> None:
    with pytest.raises(ValueError, match="must be one of"):
        build()


def test_repr_is_the_recipe() -> None:
    objective = fcl(contrast=Margin(), weight=Ramp(1e-3, start=800, length=800))
    names = {c.__name__: c for c in (FCL, GradientUtility, TopBottom, Gaussian, Margin, Ramp, CrossEntropy)}
    assert eval(repr(objective), names) == objective


def test_any_loss_and_shape() -> None:
    def squared_error(logits: Tensor, y: Tensor) -> Tensor:
        return (logits[:, 0] - y).square()

    model, x = Linear(24), torch.rand(5, 2, 3, 4)
    loss = fcl(loss=squared_error)(model, x, torch.rand(5))
    loss.total.backward()
    assert loss.total.isfinite()
