import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from poise import FCL, XE, CrossEntropy, LogitAdjusted, balanced_contrast
from poise.losses import ExampleLoss


def test_cross_entropy_is_minus_log_probability() -> None:
    logits, y = torch.randn(5, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 3, 3])
    expected = -logits.softmax(1)[torch.arange(5), y].log()
    torch.testing.assert_close(CrossEntropy()(logits, y), expected)


def test_soft_labels_and_smoothing() -> None:
    logits, y = torch.randn(5, 4), torch.tensor([0, 1, 2, 3, 3])
    soft = torch.full((5, 4), 0.1 / 4)
    soft[torch.arange(5), y] += 0.9
    torch.testing.assert_close(CrossEntropy(label_smoothing=0.1)(logits, y), CrossEntropy()(logits, soft))


def test_soft_labels_are_smoothed_too() -> None:
    logits, y = torch.randn(5, 4), torch.rand(5, 4).softmax(1)
    smooth = 0.9 * y + 0.1 / 4
    expected = -(smooth * logits.log_softmax(1)).sum(1)
    torch.testing.assert_close(CrossEntropy(label_smoothing=0.1)(logits, y), expected)


def test_half_logits_are_computed_in_float32() -> None:
    assert (
        CrossEntropy()(torch.randn(3, 4, dtype=torch.bfloat16), torch.zeros(3, dtype=torch.long)).dtype == torch.float32
    )


@pytest.mark.parametrize("label", [4, -1])
def test_a_label_out_of_range_is_named(label: int) -> None:
    with pytest.raises(ValueError, match=f"label {label} is out of range: the model has 4 classes"):
        CrossEntropy()(torch.randn(2, 4), torch.tensor([0, label]))


def test_one_kernel_gives_the_same_as_single_operations() -> None:
    """Triton's kernel, interpreted on the CPU by a process of its own."""
    pytest.importorskip("triton")
    code = """
import torch
from poise.losses import _FromMargin
from poise.margin_kernel import losses_and_slopes
logits, y = torch.linspace(-80, 80, 21)[:, None] * torch.tensor([0.0, 1.0, 0.9]), torch.arange(21)[:, None] % 3
for ours, theirs in zip(losses_and_slopes(logits, y), _FromMargin.forward(logits, y)):
    torch.testing.assert_close(ours, theirs, rtol=2e-5, atol=1e-37)
"""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def judged(logits: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Loss and gradient by float64, from the margin: at 80, log(softmax) itself loses 19 digits of it."""
    exact = logits.detach().double().requires_grad_()
    own = exact.gather(1, y[:, None])
    others = exact.masked_fill(torch.zeros_like(exact, dtype=torch.bool).scatter(1, y[:, None], True), -torch.inf)
    losses = torch.nn.functional.softplus(others.logsumexp(1) - own[:, 0], threshold=100)
    (gradient,) = torch.autograd.grad(losses.sum(), exact)
    return losses.detach(), gradient


def sure_and_wrong(classes: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits whose margins run from -80 to 80, with classes that come near each other, and the labels."""
    margins = torch.linspace(-80, 80, 161)
    y = torch.randint(classes, (len(margins),))
    logits = torch.randn(len(margins), classes).mul(3).scatter(1, y[:, None], 0.0)
    others = logits.scatter(1, y[:, None], -torch.inf).logsumexp(1)
    return logits.scatter(1, y[:, None], (others - margins)[:, None]) + 2 * torch.randn(len(margins), 1), y


def assert_exact(got: torch.Tensor, expected: torch.Tensor) -> None:
    """As far as float32 goes: an ulp of 80 is 8e-6, and e^x turns it into that share; below 1e-38 steps are 1.4e-45."""
    torch.testing.assert_close(got.double(), expected, rtol=2e-5, atol=1.5e-45)


@pytest.mark.parametrize("form", ["plain", "compiled", "vmapped"])
def test_loss_and_gradient_are_exact_however_sure_the_model_is(form: str) -> None:
    logits, y = sure_and_wrong()

    if form != "vmapped":
        loss: ExampleLoss = CrossEntropy()
        loss = torch.compile(loss, backend="aot_eager", fullgraph=True) if form == "compiled" else loss
        leaf = logits.clone().requires_grad_()
        losses = loss(leaf, y)
        (gradient,) = torch.autograd.grad(losses.sum(), leaf)
    else:
        of_all = torch.func.vmap(torch.func.grad_and_value(lambda logits, y: CrossEntropy()(logits, y).sum()))
        gradient, losses = of_all(logits[:, None], y[:, None])
        gradient = gradient[:, 0]
    expected, expected_gradient = judged(logits, y)
    assert_exact(losses, expected)
    assert_exact(gradient, expected_gradient)


def test_gradients_reach_weights_exactly_behind_the_logits() -> None:
    _, y = sure_and_wrong()
    features, weight = torch.eye(161), sure_and_wrong()[0]
    leaf = weight.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(CrossEntropy()(features @ leaf, y).sum(), leaf)
    assert_exact(gradient, judged(weight, y)[1])


def test_gradients_of_gradients_and_forward_mode_are_right() -> None:
    logits, y = torch.randn(6, 4, dtype=torch.float64, requires_grad=True), torch.randint(4, (6,))
    loss = CrossEntropy()
    assert torch.autograd.gradcheck(lambda logits: loss(logits, y), logits, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda logits: loss(logits, y), logits)


def test_curvature_is_exact_where_the_model_is_sure() -> None:
    """v' H v = sum_{c != y} p_c (v_c - v_y)^2, as far as products of the p_c vanish."""
    logits, y = sure_and_wrong()
    logits, y = logits[:60], y[:60]  # margins of -80 to -21
    leaf, v = logits.clone().requires_grad_(), torch.randn_like(logits)
    (slopes,) = torch.autograd.grad(CrossEntropy()(leaf, y).sum(), leaf, create_graph=True)
    (product,) = torch.autograd.grad((slopes * v).sum(), leaf)
    p = logits.double().softmax(1)
    expected = (p * (v - v.gather(1, y[:, None])).double().square()).sum(1)
    torch.testing.assert_close((product * v).sum(1).double(), expected, rtol=1e-4, atol=0.0)


def test_a_single_logit_is_the_log_odds_of_class_1() -> None:
    logits, y = torch.tensor([[-70.0], [-3.0], [0.5], [80.0], [-80.0]]), torch.tensor([0, 1, 1, 1, 1])
    leaf = logits.clone().requires_grad_()
    losses = CrossEntropy()(leaf, y)
    (gradient,) = torch.autograd.grad(losses.sum(), leaf)
    signed = torch.where(y == 1, -logits[:, 0], logits[:, 0]).double()
    assert_exact(losses, torch.nn.functional.softplus(signed, threshold=100))
    assert_exact(gradient[:, 0].abs(), signed.sigmoid())
    with pytest.raises(ValueError, match="label 2 is out of range: the model has 2 classes"):
        CrossEntropy()(logits, y + 1)


def test_classes_that_a_model_excludes_have_no_gradient() -> None:
    logits = torch.tensor([[1.0, 2.0, -torch.inf], [0.0, -torch.inf, -torch.inf]], requires_grad=True)
    losses = CrossEntropy()(logits, torch.tensor([0, 0]))
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    torch.testing.assert_close(losses.detach(), torch.tensor([1.3132617, 0.0]))
    torch.testing.assert_close(gradient, torch.tensor([[-0.7310586, 0.7310586, 0.0], [0.0, 0.0, 0.0]]))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64, torch.bool])
def test_labels_are_integers_of_any_kind(dtype: torch.dtype) -> None:
    logits, y = torch.randn(4, 3), torch.tensor([0, 1, 1, 0])
    assert CrossEntropy()(logits, y.to(dtype)).equal(CrossEntropy()(logits, y))


@pytest.mark.parametrize(
    "y",
    [
        torch.tensor([[0], [1]]),
        torch.tensor([0.0, 1.0]),
        torch.eye(3, dtype=torch.long)[:2],
        torch.rand(2, 4),
        torch.tensor(0),
    ],
)
def test_labels_of_another_shape_are_refused(y: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"y must be classes, integers \[2\], or probabilities"):
        CrossEntropy()(torch.randn(2, 3), y)


def test_a_list_of_labels_and_a_wrong_share_are_refused() -> None:
    with pytest.raises(TypeError, match="y must be a tensor"):
        CrossEntropy()(torch.randn(2, 3), [0, 1])  # type: ignore[arg-type]
    for share in (-0.1, 1.5, float("nan")):
        with pytest.raises(
            ValueError, match=r"label_smoothing=.* must be a finite number of 0 or more and of 1 or less"
        ):
            CrossEntropy(label_smoothing=share)


@pytest.mark.parametrize("form", ["plain", "compiled", "functional"])
def test_classes_that_are_excluded_and_logits_that_overflow(form: str) -> None:
    """As torch has it: a class alone has no loss and no gradient; an infinite logit of the label is NaN."""
    loss: ExampleLoss = torch.compile(CrossEntropy(), backend="aot_eager") if form == "compiled" else CrossEntropy()
    y = torch.tensor([0])

    def value_and_gradient(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if form == "functional":
            gradient, value = torch.func.grad_and_value(lambda f: loss(f, y).sum())(logits)
            return value, gradient
        leaf = logits.clone().requires_grad_()
        value = loss(leaf, y).sum()
        return value.detach(), torch.autograd.grad(value, leaf)[0]

    value, gradient = value_and_gradient(torch.tensor([[0.0, -torch.inf, -torch.inf]]))
    assert value == 0 and torch.equal(gradient, torch.zeros(1, 3))
    value, gradient = value_and_gradient(torch.tensor([[1.0, 2.0, -torch.inf]]))
    torch.testing.assert_close(value, torch.tensor(1.3132617))
    torch.testing.assert_close(gradient, torch.tensor([[-0.7310586, 0.7310586, 0.0]]))
    assert value_and_gradient(torch.tensor([[torch.inf, 0.0]]))[0].isnan()


COUNTS = (5000, 5000, 50, 3, 120)


def judged_adjusted(logits: torch.Tensor, y: torch.Tensor, tau: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The same judge, for logits that are adjusted in float64."""
    prior = torch.tensor(COUNTS, dtype=torch.float64) / sum(COUNTS)
    return judged(logits.double() + tau * prior.log(), y)


@pytest.mark.parametrize("tau", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("form", ["plain", "compiled", "vmapped"])
def test_adjusted_logits_are_exact_however_sure_the_model_is(form: str, tau: float) -> None:
    logits, y = sure_and_wrong()
    loss: ExampleLoss = LogitAdjusted(COUNTS, tau)
    if form == "vmapped":
        of_all = torch.func.vmap(torch.func.grad_and_value(lambda logits, y: loss(logits, y).sum()))
        gradient, losses = of_all(logits[:, None], y[:, None])
        gradient = gradient[:, 0]
    else:
        loss = torch.compile(loss, backend="aot_eager", fullgraph=True) if form == "compiled" else loss
        leaf = logits.clone().requires_grad_()
        losses = loss(leaf, y)
        (gradient,) = torch.autograd.grad(losses.sum(), leaf)
    expected, expected_gradient = judged_adjusted(logits, y, tau)
    torch.testing.assert_close(losses.double(), expected, rtol=4e-5, atol=1.5e-45)
    torch.testing.assert_close(gradient.double(), expected_gradient, rtol=4e-5, atol=1.5e-45)


def test_gradients_of_gradients_of_adjusted_logits_are_right() -> None:
    logits, y = torch.randn(6, 5, dtype=torch.float64, requires_grad=True), torch.randint(5, (6,))
    loss = LogitAdjusted(COUNTS)
    assert torch.autograd.gradcheck(lambda logits: loss(logits, y), logits, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda logits: loss(logits, y), logits)


def test_a_transform_of_torch_func_leaves_nothing_behind() -> None:
    loss, y = LogitAdjusted((7, 11, 13)), torch.tensor([0, 2])
    inside = torch.func.grad(lambda logits: loss(logits, y).sum())(torch.zeros(2, 3))
    leaf = torch.zeros(2, 3, requires_grad=True)
    (outside,) = torch.autograd.grad(loss(leaf, y).sum(), leaf)
    torch.testing.assert_close(inside, outside)


def test_a_constant_model_is_best_where_it_says_nothing() -> None:
    """With adjusted logits, equal logits are the minimum over data of these frequencies; without, the log prior is."""
    y = torch.arange(3).repeat_interleave(torch.tensor([60, 30, 10]))
    logits = torch.zeros(1, 3, requires_grad=True)
    (adjusted,) = torch.autograd.grad(LogitAdjusted((60, 30, 10))(logits.expand(100, 3), y).mean(), logits)
    (plain,) = torch.autograd.grad(CrossEntropy()(logits.expand(100, 3), y).mean(), logits)
    torch.testing.assert_close(adjusted, torch.zeros(1, 3), atol=1e-6, rtol=0)
    torch.testing.assert_close(plain, torch.tensor([[1 / 3 - 0.6, 1 / 3 - 0.3, 1 / 3 - 0.1]]))


def test_adjusted_single_logits_soft_labels_and_halves() -> None:
    loss, prior = LogitAdjusted((90, 10)), torch.tensor([0.9, 0.1]).log()
    single, y = torch.tensor([[-2.0], [3.0]]), torch.tensor([0, 1])
    both = torch.cat([torch.zeros(2, 1), single], 1)
    torch.testing.assert_close(loss(single, y), CrossEntropy()(both + prior, y))
    soft = torch.tensor([[0.3, 0.7], [1.0, 0.0]])
    torch.testing.assert_close(loss(both, soft), CrossEntropy()(both + prior, soft))
    assert loss(both.bfloat16(), y).dtype == torch.float32


@pytest.mark.parametrize(
    "counts", [[3, 1], torch.tensor([3, 1]), torch.tensor([3.0, 1.0]).numpy(), (0.75, 0.25)], ids=repr
)
def test_counts_are_numbers_of_any_kind_and_part_of_the_recipe(counts: object) -> None:
    loss = LogitAdjusted(counts)  # type: ignore[arg-type]
    assert eval(repr(loss)) == loss and hash(loss) == hash(eval(repr(loss)))
    torch.testing.assert_close(loss(torch.zeros(1, 2), torch.tensor([1])), -torch.tensor([0.25]).log())


@pytest.mark.parametrize(
    ("counts", "error", "words"),
    [
        ((5, 0), ValueError, r"counts\[1\] is 0, but a class without examples has no prior"),
        ((5, -1), ValueError, r"counts\[1\]=-1 must be a finite number"),
        ((5, float("nan")), ValueError, r"counts\[1\]=nan must be a finite number"),
        ((5, "many"), TypeError, r"counts\[1\]='many' must be a number"),
        ((5,), ValueError, r"counts=\(5,\) must have a number for each of two classes"),
        (5, TypeError, "counts=5 must be a list"),
        ("55", TypeError, "counts='55' must be a list"),
    ],
)
def test_counts_that_cannot_be_are_refused(counts: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        LogitAdjusted(counts)  # type: ignore[arg-type]
    with pytest.raises(error, match=words):
        balanced_contrast(counts)


def test_counts_of_other_classes_than_the_model_has_are_refused() -> None:
    with pytest.raises(ValueError, match=r"counts are those of 3 classes, but the logits are \[2, 4\]"):
        LogitAdjusted((1, 2, 3))(torch.zeros(2, 4), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="tau=-1 must be a finite number of 0 or more"):
        LogitAdjusted((1, 2), tau=-1)
    with pytest.raises(ValueError, match="label 3 is out of range: the model has 3 classes"):
        LogitAdjusted((1, 2, 3))(torch.zeros(2, 3), torch.tensor([0, 3]))


def test_the_defaults_are_an_objective() -> None:
    assert isinstance(balanced_contrast((5, 5)), FCL) and FCL().weight == 1e-3
    assert XE(LogitAdjusted((1, 2))) == XE(LogitAdjusted((1, 2)))
