import pytest
import torch

from poise import CrossEntropy


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
