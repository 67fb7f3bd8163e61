"""Utility against closed forms, nested loops and captum."""

import pytest
import torch
from captum.attr import FeatureAblation, Saliency
from torch import Tensor, nn
from toys import BagOfWords, ConvNet, Linear, Smooth, same_state, sentences, state_of

from poise import FCL, CrossEntropy, Gaussian, GradientUtility, InfoNCE, RemovalUtility, Tokens, TopBottom


def squared_error(logits: Tensor, y: Tensor) -> Tensor:
    return (logits[:, 0] - y).square()


def test_linear_network_has_a_closed_form() -> None:
    """d loss / d x = W^T V^T (softmax - onehot)."""
    model, x, y = Linear(6).double(), torch.rand(5, 6, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1])
    error = model(x).softmax(1) - torch.nn.functional.one_hot(y, 3)
    expected = (error @ model.head.weight @ model.body.weight).abs()
    torch.testing.assert_close(GradientUtility()(model, x, y), expected.detach())


@pytest.mark.parametrize("shape", [(7,), (2, 3), (3, 4, 5), (1, 2, 2, 2)])
def test_any_input_shape_against_one_example_at_a_time(shape: tuple[int, ...]) -> None:
    model = Smooth(torch.Size(shape).numel()).double()
    x, y = torch.rand(4, *shape, dtype=torch.float64), torch.tensor([0, 1, 2, 0])
    u = GradientUtility()(model, x, y)
    assert u.shape == x.shape
    for i in range(4):
        one = x[i : i + 1].clone().requires_grad_()
        CrossEntropy()(model(one), y[i : i + 1]).backward()
        torch.testing.assert_close(u[i], one.grad[0].abs())


def test_any_loss() -> None:
    """(f_0 - y)^2 has the gradient 2 (f_0 - y) V_0 W."""
    model, x, y = Linear(6).double(), torch.rand(4, 6, dtype=torch.float64), torch.rand(4, dtype=torch.float64)
    expected = (2 * (model(x)[:, :1] - y[:, None]) * (model.head.weight[0] @ model.body.weight)).abs()
    torch.testing.assert_close(GradientUtility()(model, x, y, loss=squared_error), expected.detach())


def test_agrees_with_captum_saliency_of_the_loss() -> None:
    model, x, y = ConvNet().eval(), torch.rand(5, 3, 6, 6), torch.tensor([0, 1, 2, 3, 0])
    saliency = Saliency(lambda rows: CrossEntropy()(model(rows), y)).attribute(x.clone().requires_grad_(), abs=True)
    torch.testing.assert_close(GradientUtility()(model, x, y), saliency)


def test_the_batch_size_does_not_scale_utility() -> None:
    model, x, y = Smooth(6), torch.rand(8, 6), torch.zeros(8, dtype=torch.long)
    torch.testing.assert_close(GradientUtility()(model, x, y)[:2], GradientUtility()(model, x[:2], y[:2]))


@pytest.mark.parametrize("grad_mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_measuring_changes_nothing(grad_mode) -> None:
    model = ConvNet(dropout=0.5)
    model.norm.train()
    x, y = torch.rand(4, 3, 5, 5), torch.tensor([0, 1, 2, 3])
    model(x).sum().backward()
    model.conv.weight.requires_grad_(False)
    before, image = state_of(model), x.clone()
    with grad_mode():
        u = GradientUtility()(model, x, y)
    assert same_state(before, state_of(model))
    assert torch.equal(x, image)
    assert not x.requires_grad
    assert x.grad is None
    assert not u.requires_grad


def test_alone_it_does_not_leak_between_examples() -> None:
    model, x, y = ConvNet(), torch.rand(4, 3, 5, 5), torch.tensor([0, 1, 2, 3])
    torch.testing.assert_close(GradientUtility()(model, x, y)[:1], GradientUtility()(model, x[:1], y[:1]))


def test_batch_statistics_leak_and_an_own_forward_does_not() -> None:
    """The loss of example 0 moves with the pixels of example 1 through batch norm, in train mode only."""
    model = ConvNet()
    x, y = torch.rand(4, 3, 5, 5), torch.tensor([0, 1, 2, 3])
    changed = x.clone()
    changed[1] = 1 - changed[1]

    def utility_of_first(utility: GradientUtility, images: Tensor) -> Tensor:
        seen: list[Tensor] = []

        def select(u: Tensor, valid: Tensor | None, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
            seen.append(u)
            return TopBottom(3)(u, valid, generator)

        select.check = TopBottom(3).check  # type: ignore[attr-defined]
        FCL(utility, select, Gaussian(0.1), InfoNCE(0.1), 1.0)(model, images, y)  # type: ignore[arg-type]
        return seen[0][0]

    model.norm.momentum = 0.0
    leaking = GradientUtility()
    assert not torch.allclose(utility_of_first(leaking, x), utility_of_first(leaking, changed))
    own = GradientUtility(own_forward=True)
    torch.testing.assert_close(utility_of_first(own, x), utility_of_first(own, changed))


def test_removal_from_a_bag_of_words_has_a_closed_form() -> None:
    model, x, y = BagOfWords().double(), sentences([5, 3, 7], special=True), torch.tensor([0, 1, 2])
    u = RemovalUtility()(model, x, y)
    z = model.embed(x)
    for i, j in x.features.nonzero().tolist():
        shorter = model.head(z[i] - model.words.weight[x.ids[i, j]])
        expected = CrossEntropy()(model.head(z[i])[None], y[i : i + 1]) - CrossEntropy()(shorter[None], y[i : i + 1])
        assert u[i, j].item() == pytest.approx(abs(expected.item()))
    assert (u[~x.features] == 0).all()


def test_removal_agrees_with_captum_feature_ablation() -> None:
    model, x, y = BagOfWords(), sentences([6, 6, 6]), torch.tensor([0, 1, 2])
    forward = lambda mask: CrossEntropy()(model(Tokens(x.ids, mask.bool())), y)  # noqa: E731
    ablation = FeatureAblation(forward).attribute(x.mask.float(), baselines=0.0)
    torch.testing.assert_close(RemovalUtility()(model, x, y), ablation.abs())


@pytest.mark.parametrize("how", ["mask", "delete"])
def test_removal_in_chunks_is_removal_at_once(how) -> None:
    model, x, y = BagOfWords().double(), sentences([5, 3, 7]), torch.tensor([0, 1, 2])
    chunked = RemovalUtility(how, memory=1)(model, x, y)
    torch.testing.assert_close(chunked, RemovalUtility(how)(model, x, y))


def test_removal_skips_padding() -> None:
    model, x = BagOfWords(), sentences([5, 3, 7], special=True)
    RemovalUtility(memory=1)(model, x, torch.tensor([0, 1, 2]))
    assert model.rows == 3 + 1 + 3 + 1 + 5  # whole sentences, one to weigh the graph, then one per feature


def test_removal_uses_no_dropout_and_changes_nothing() -> None:
    class Dropped(BagOfWords):
        def embed(self, x: Tokens) -> Tensor:
            return nn.functional.dropout(super().embed(x), 0.5, self.training)

    model, x, y = Dropped(), sentences([5, 3, 7]), torch.tensor([0, 1, 2])
    before = state_of(model)
    torch.testing.assert_close(RemovalUtility()(model, x, y), RemovalUtility()(model, x, y))
    assert same_state(before, state_of(model))


@pytest.mark.parametrize("grad_mode", [torch.no_grad, torch.inference_mode])
def test_removal_works_where_gradients_are_off(grad_mode) -> None:
    with grad_mode():
        model, x, y = BagOfWords(), sentences([5, 3]), torch.tensor([0, 1])
        u = RemovalUtility()(model, x, y)
    assert u.shape == (2, 5)


def test_removal_is_of_any_loss() -> None:
    model, x = BagOfWords(), sentences([4, 3])
    u = RemovalUtility()(model, x, torch.zeros(2), loss=lambda logits, y: logits[:, 0])
    expected = model.head(model.words(x.ids))[..., 0].abs() * x.mask
    torch.testing.assert_close(u, expected.detach(), rtol=1e-4, atol=1e-5)


def test_wrong_kinds_of_input() -> None:
    with pytest.raises(TypeError, match=r"x are Tokens, .*use RemovalUtility"):
        GradientUtility()(BagOfWords(), sentences([3]), torch.tensor([0]))
    with pytest.raises(TypeError, match="x must be Tokens; use GradientUtility"):
        RemovalUtility()(Linear(3), torch.rand(1, 3), torch.tensor([0]))
    with pytest.raises(TypeError, match=r"torch.uint8, but a gradient needs floats"):
        GradientUtility()(Linear(3), torch.zeros(1, 3, dtype=torch.uint8), torch.tensor([0]))


def test_appendix_a_utility_is_class_sensitivity_over_probability() -> None:
    """u = |d f_y / d x| / f_y, where f are the probabilities."""
    model, x, y = Smooth(6).double(), torch.rand(5, 6, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1])
    probability = lambda one: model(one[None]).softmax(1)[0]  # noqa: E731
    for i in range(5):
        jacobian = torch.func.jacrev(probability)(x[i])  # [L, D]
        expected = jacobian[y[i]].abs() / probability(x[i])[y[i]]
        torch.testing.assert_close(GradientUtility()(model, x, y)[i], expected.detach())
