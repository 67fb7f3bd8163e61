"""Eq. 6 and Eq. 9 against nested loops, known values and pytorch-metric-learning."""

from math import exp, log, sqrt

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pytorch_metric_learning.losses import NTXentLoss
from torch import Tensor

from poise import InfoNCE, Margin


def cosine(a: list[float], b: list[float]) -> float:
    return sum(p * q for p, q in zip(a, b, strict=True)) / sqrt(sum(p * p for p in a) * sum(q * q for q in b))


def eq6(z: Tensor, near: Tensor, far: Tensor | None, tau: float, keep: list[bool]) -> list[float]:
    """Equation 6, example by example, in plain Python."""
    losses = []
    for i in range(len(z)):
        positive = exp(cosine(z[i].tolist(), near[i].tolist()) / tau)
        negatives = [exp(cosine(z[i].tolist(), z[j].tolist()) / tau) for j in range(len(z)) if j != i]
        if far is not None and keep[i]:
            negatives.append(exp(cosine(z[i].tolist(), far[i].tolist()) / tau))
        losses.append(-log(positive / (positive + sum(negatives))))
    return losses


def eq9(z: Tensor, near: Tensor, far: Tensor, gamma: float, keep: list[bool]) -> list[float]:
    """Equation 9 with the Euclidean distance, in plain Python."""
    distance = lambda a, b: sqrt(sum((p - q) ** 2 for p, q in zip(a.tolist(), b.tolist(), strict=True)))  # noqa: E731
    return [
        distance(z[i], near[i]) ** 2 + (max(0.0, gamma - distance(z[i], far[i])) ** 2 if keep[i] else 0.0)
        for i in range(len(z))
    ]


def three(batch: int = 5, width: int = 4, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(torch.randn(3, batch, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)))


@given(st.integers(1, 6), st.sampled_from([2.0, 0.5, 0.1]), st.integers(0, 2**31), st.booleans(), st.data())
def test_infonce_is_equation_6(batch: int, tau: float, seed: int, with_far: bool, data: st.DataObject) -> None:
    z, near, far = three(batch, seed=seed)
    keep = data.draw(st.lists(st.booleans(), min_size=batch, max_size=batch))
    far = far if with_far else None
    got = InfoNCE(tau, "sum")(z, near, far, keep=torch.tensor(keep))
    assert got.item() == pytest.approx(sum(eq6(z, near, far, tau, keep)))


def test_equal_embeddings_give_the_log_of_the_number_of_candidates() -> None:
    z = torch.ones(6, 3)
    assert InfoNCE(0.1)(z, z, z).item() == pytest.approx(log(1 + 6))
    assert InfoNCE(0.1)(z, z).item() == pytest.approx(log(1 + 5))


def test_agrees_with_pytorch_metric_learning() -> None:
    """Its NTXentLoss with explicit pairs: anchors 0..B-1, near B..2B-1, far 2B..3B-1."""
    batch, (z, near, far) = 6, three(6)
    own = torch.arange(batch)
    anchors = torch.cat([own.repeat_interleave(batch - 1), own])
    others = torch.cat([torch.tensor([j for i in range(batch) for j in range(batch) if j != i]), own + 2 * batch])
    peer = NTXentLoss(temperature=0.5)
    expected = peer(torch.cat([z, near, far]), indices_tuple=(own, own + batch, anchors, others))
    torch.testing.assert_close(InfoNCE(0.5)(z, near, far), expected)


def test_a_dropped_far_view_leaves_the_denominator() -> None:
    z, near, far = three()
    torch.testing.assert_close(InfoNCE(0.5)(z, near, far, keep=torch.zeros(5, dtype=torch.bool)), InfoNCE(0.5)(z, near))


@pytest.mark.parametrize("contrast", [InfoNCE(0.5), Margin()])
def test_mean_is_sum_over_batch_and_absent_examples_count_in_it(contrast) -> None:
    z, near, far = three()
    summed = type(contrast)(**{**vars(contrast), "reduction": "sum"})
    torch.testing.assert_close(contrast(z, near, far) * 5, summed(z, near, far))
    part = torch.tensor([True, False, True, True, False])
    alone = [type(contrast)(**vars(summed))(z, near, far, taking_part=torch.arange(5) == i) for i in range(5)]
    torch.testing.assert_close(contrast(z, near, far, taking_part=part) * 5, alone[0] + alone[2] + alone[3])


@given(st.integers(0, 2**31), st.floats(0.01, 100))
def test_infonce_knows_directions_only(seed: int, scale: float) -> None:
    z, near, far = three(seed=seed)
    torch.testing.assert_close(InfoNCE(0.2)(z * scale, near / scale, far), InfoNCE(0.2)(z, near, far))


@given(st.permutations(range(5)))
def test_the_order_of_the_batch_does_not_matter(order: list[int]) -> None:
    z, near, far = three()
    for contrast in (InfoNCE(0.2), Margin()):
        torch.testing.assert_close(contrast(z[order], near[order], far[order]), contrast(z, near, far))


def test_margin_is_equation_9() -> None:
    z, near, far = three()
    keep = [True, False, True, True, False]
    for gamma in (1.0, 3.0, 10.0):
        got = Margin(gamma, "euclidean", "sum")(z, near, far, keep=torch.tensor(keep))
        assert got.item() == pytest.approx(sum(eq9(z, near, far, gamma, keep)))
    unit = [v / v.norm(dim=1, keepdim=True) for v in (z, near, far)]
    for gamma in (0.5, 1.5, 2.5):
        got = Margin(gamma, reduction="sum")(z, near, far, keep=torch.tensor(keep))
        assert got.item() == pytest.approx(sum(eq9(*unit, gamma, keep)))


def test_margin_is_zero_when_satisfied() -> None:
    z = torch.eye(3)
    assert Margin(gamma=1.4)(z, z, z.roll(1, 0)).item() == 0
    assert Margin(gamma=1.5)(z, z, z.roll(1, 0)).item() > 0


@pytest.mark.parametrize("contrast", [InfoNCE(0.1), Margin(), Margin(distance="euclidean")])
def test_gradients_agree_with_finite_differences(contrast) -> None:
    inputs = [v.requires_grad_() for v in three(4, 3)]
    assert torch.autograd.gradcheck(contrast, inputs)


@pytest.mark.parametrize("contrast", [InfoNCE(0.1), Margin(), Margin(distance="euclidean")])
@pytest.mark.parametrize("empty", [0, 1, 2])
def test_embeddings_of_norm_zero_have_finite_loss_and_gradient(contrast, empty: int) -> None:
    inputs = [v.float() for v in three()]
    inputs[empty][1] = 0
    inputs = [v.requires_grad_() for v in inputs]
    loss = contrast(*inputs)
    loss.backward()
    assert loss.isfinite()
    assert all(v.grad.isfinite().all() and v.grad.abs().max() < 100 for v in inputs)


def test_a_batch_of_one_has_no_negatives_but_its_own_far_view() -> None:
    z, near, far = three(1)
    assert InfoNCE(0.1)(z, near).item() == 0
    assert InfoNCE(0.1)(z, near, far).item() == pytest.approx(eq6(z, near, far, 0.1, [True])[0])


def test_half_precision_is_computed_in_float32_also_under_autocast() -> None:
    z, near, far = (v.to(torch.bfloat16) for v in three(64, 32))
    expected = InfoNCE(0.1)(z.double(), near.double(), far.double())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = InfoNCE(0.1)(z, near, far)
    assert got.dtype == torch.float32
    assert got.item() == pytest.approx(expected.item(), rel=1e-5)


def test_small_temperatures_do_not_overflow() -> None:
    z, near, far = (v.float() for v in three())
    assert InfoNCE(1e-4)(z, near, far).isfinite()


def test_memory_grows_with_the_square_of_the_batch() -> None:
    """The largest tensor kept for the backward pass has B * (B + 2) numbers, not B^3."""
    kept: list[int] = []
    z, near, far = (torch.randn(64, 8, requires_grad=True) for _ in range(3))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (kept.append(t.numel()), t)[1], lambda t: t):
        InfoNCE(0.1)(z, near, far)
    assert max(kept) <= 64 * (64 + 2)


@pytest.mark.parametrize(
    "build",
    [
        lambda: InfoNCE(0.0),
        lambda: InfoNCE(-1.0),
        lambda: InfoNCE(float("inf")),
        lambda: InfoNCE(float("nan")),
        lambda: Margin(0.0),
        lambda: Margin(float("inf")),
    ],
)
def test_bad_settings_are_refused(build) -> None:
    with pytest.raises(ValueError, match="must be a finite number above 0"):
        build()


@pytest.mark.parametrize("contrast", [InfoNCE(0.5), Margin()])
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *(("near", [1, 4]), ("near", [5, 1]), ("near", [4]), ("far", [1, 4])),
        *(("keep", [5, 1]), ("keep", [1]), ("keep", [])),
        *(("taking_part", [5, 1]), ("taking_part", [1, 5]), ("taking_part", [1])),
    ],
)
def test_what_would_broadcast_is_refused_by_name(contrast, name: str, shape: list[int]) -> None:
    z, near, far = three()
    wrong = torch.ones(shape, dtype=torch.bool if name in ("keep", "taking_part") else torch.float64)
    with pytest.raises(ValueError, match=rf"{name} has shape \[{', '.join(map(str, shape))}\]"):
        contrast(**{"z": z, "near": near, "far": far, name: wrong})


@pytest.mark.parametrize("contrast", [InfoNCE(0.5), Margin()])
@pytest.mark.parametrize("name", ["keep", "taking_part"])
@pytest.mark.parametrize("wrong", [torch.ones(5), torch.ones(5, dtype=torch.long), [True] * 5])
def test_masks_are_booleans(contrast, name: str, wrong) -> None:
    z, near, far = three()
    with pytest.raises(TypeError, match=f"{name} must be a tensor of booleans"):
        contrast(z, near, far, **{name: wrong})


@pytest.mark.parametrize("name", ["z", "near", "far"])
def test_embeddings_are_floats(name: str) -> None:
    z, near, far = three()
    with pytest.raises(TypeError, match=f"{name} must be a tensor of floats, got torch.int64"):
        InfoNCE(0.5)(**{"z": z, "near": near, "far": far, name: torch.ones(5, 4, dtype=torch.long)})
