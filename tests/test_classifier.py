import pytest
import torch
from torch import nn
from toys import ConvNet, Linear, same_state, state_of

from poise import XE, CrossEntropy
from poise.classifier import evaluating, leaf, run, untracked


def test_evaluating_restores_each_module_s_mode() -> None:
    model = ConvNet()
    model.norm.eval()
    before = state_of(model)
    with evaluating(model):
        assert not any(module.training for module in model.modules())
    assert same_state(before, state_of(model))


def test_modes_come_back_after_an_error() -> None:
    model = ConvNet()
    before = state_of(model)
    for context in (evaluating, untracked):
        with pytest.raises(KeyError), context(model):
            raise KeyError
    assert same_state(before, state_of(model))


def test_untracked_uses_batch_statistics_and_leaves_running_ones() -> None:
    model, x = ConvNet(), torch.rand(6, 3, 5, 5)
    expected = model.embed(x).detach()
    before = state_of(model)
    with untracked(model):
        torch.testing.assert_close(model.embed(x).detach(), expected)
    assert same_state(before, state_of(model))


def test_leaf_leaves_the_input_alone() -> None:
    x = torch.rand(2, 3)
    assert leaf(x).requires_grad
    assert not x.requires_grad


@pytest.mark.parametrize(
    ("x", "y", "error", "message"),
    [
        (torch.rand(0, 5), torch.zeros(0, dtype=torch.long), ValueError, "must have at least one example"),
        (torch.rand(3, 5), torch.zeros(2, dtype=torch.long), ValueError, "y has shape .* 3 examples"),
        (
            torch.rand(3, 5, dtype=torch.float64),
            torch.zeros(3, dtype=torch.long),
            TypeError,
            "weights are torch.float32",
        ),
        (
            torch.rand(3, 5, device="meta"),
            torch.zeros(3, dtype=torch.long),
            ValueError,
            "x is on meta, but the model is on",
        ),
        (torch.rand(3, 5), torch.zeros(3, dtype=torch.long, device="meta"), ValueError, "y is on meta, but the logits"),
        (torch.rand(3, 5), torch.full((3,), 9), ValueError, "label 9 is out of range"),
    ],
)
def test_a_batch_that_does_not_fit_gets_one_clear_error(x, y, error, message) -> None:
    with pytest.raises(error, match=message):
        XE()(Linear(5), x, y)


def test_a_float32_batch_for_a_half_model_is_named() -> None:
    with pytest.raises(TypeError, match=r"x is torch.float32, the model's weights are torch.float16"):
        XE()(Linear(5).half(), torch.rand(3, 5), torch.zeros(3, dtype=torch.long))


def test_a_reduced_loss_is_refused() -> None:
    with pytest.raises(ValueError, match=r"one number per example, \[3\], not \[\]"):
        run(Linear(5), torch.rand(3, 5), torch.zeros(3, dtype=torch.long), nn.CrossEntropyLoss())


def test_run_hands_on_all_of_one_pass() -> None:
    model, x, y = Linear(5), torch.rand(3, 5), torch.tensor([0, 1, 2])
    forward = run(model, x, y, CrossEntropy())
    assert model.calls == 1
    torch.testing.assert_close(forward.logits, model.head(forward.z))
    torch.testing.assert_close(forward.losses, CrossEntropy()(forward.logits, y))


def test_one_number_per_example_is_an_input_too() -> None:
    class Single(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(1, 3)

        def embed(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, None]

    assert XE()(Single(), torch.rand(4), torch.tensor([0, 1, 2, 0])).total.isfinite()
