"""Sensitivity against closed forms and torch.func.jacrev, agreement against SciPy."""

import numpy as np
import pytest
import torch
from scipy.stats import rankdata, spearmanr
from torch import Tensor, nn
from toys import BagOfWords, ConvNet, Linear, Smooth, same_state, sentences, state_of

from poise import CrossEntropy, JacobianSensitivity, LeNet, RemovalSensitivity, RemovalUtility, Tokens, Transformer
from poise.features.sensitivity import ranks, spearman, word_gradient, word_removal
from poise.features.utility import rows_within


def test_linear_embedding_has_the_norms_of_its_columns() -> None:
    model, x = Linear(6).double(), torch.rand(4, 6, dtype=torch.float64)
    expected = model.body.weight.norm(dim=0).expand(4, 6)
    torch.testing.assert_close(JacobianSensitivity()(model, x), expected.detach())


@pytest.mark.parametrize("at", ["embedding", "output", "conv"])
def test_agrees_with_jacrev_at_any_layer(at: str) -> None:
    model, x = ConvNet().double().eval(), torch.rand(3, 3, 4, 4, dtype=torch.float64)
    phi = {"embedding": model.embed, "output": model, "conv": model.conv}[at]
    s = JacobianSensitivity(at=at)(model, x)
    for i in range(3):
        jacobian = torch.func.jacrev(lambda one: phi(one[None]).flatten())(x[i])  # [E, *D]
        torch.testing.assert_close(s[i], jacobian.norm(dim=0).detach())


def test_chunks_give_the_same_and_stay_within_the_budget() -> None:
    model, x = LeNet(10).double(), torch.rand(5, 1, 28, 28, dtype=torch.float64)
    sizes = []
    model.conv1.register_forward_hook(lambda module, args, output: sizes.append(len(output)))
    whole = JacobianSensitivity()(model, x)
    size_of_one = rows_within(2**30, model, model.embed, x, "embedding")
    budget = 2 * (2**30 // size_of_one) + 10
    sizes.clear()
    torch.testing.assert_close(JacobianSensitivity(memory=budget)(model, x), whole)
    assert sizes == [2, 2, 1]


def test_the_weight_of_a_graph_is_what_autograd_keeps() -> None:
    """tanh(W x): autograd keeps x (6 values) for W, and the tanh (4 values), 8 bytes each; and z is handed back."""
    model, x = Smooth(6).double(), torch.rand(3, 6, dtype=torch.float64)
    rows = rows_within(10_000_000, model, model.embed, x, "embedding")
    assert 10_000_000 // rows in range((6 + 4) * 8, (6 + 4 + 4) * 8 + 1)


def test_probes_estimate_within_their_standard_error() -> None:
    model, x = Smooth(30, width=20).double(), torch.rand(10, 30, dtype=torch.float64)
    exact = JacobianSensitivity()(model, x)
    estimate = JacobianSensitivity(probes=200).estimate(model, x, torch.Generator().manual_seed(1))
    torch.testing.assert_close(estimate.standard_error, estimate.value / 20)
    z_scores = (estimate.value - exact) / estimate.standard_error
    assert z_scores.std().item() == pytest.approx(1.0, abs=0.15)
    assert z_scores.abs().max() < 5


def test_probes_are_unbiased_for_the_squared_norm() -> None:
    model, x = Smooth(5).double(), torch.rand(1, 5, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    squares = JacobianSensitivity(probes=1)(model, x.expand(30_000, 5), generator) ** 2
    expected = JacobianSensitivity()(model, x)[0] ** 2
    torch.testing.assert_close(squares.mean(0), expected, rtol=0.04, atol=0)


def test_exact_has_no_error_and_probes_are_reproducible() -> None:
    model, x = Smooth(5), torch.rand(3, 5)
    assert (JacobianSensitivity().estimate(model, x).standard_error == 0).all()
    draw = lambda seed: JacobianSensitivity(probes=3)(model, x, torch.Generator().manual_seed(seed))  # noqa: E731
    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))


@pytest.mark.parametrize("how", ["mask", "delete"])
def test_removal_from_a_bag_of_words_moves_by_the_word(how) -> None:
    model, x = BagOfWords().double(), sentences([5, 3, 7], special=True)
    expected = model.words(x.ids).norm(dim=2) * x.features
    torch.testing.assert_close(RemovalSensitivity(how)(model, x), expected.detach())
    torch.testing.assert_close(RemovalSensitivity(how, memory=1)(model, x), expected.detach())


def test_removal_at_the_output() -> None:
    model, x = BagOfWords().double(), sentences([5, 3])
    expected = model.head(model.words(x.ids)).norm(dim=2) * x.features
    torch.testing.assert_close(RemovalSensitivity(at="output")(model, x), expected.detach())


def test_removal_uses_no_dropout_and_changes_nothing() -> None:
    model, x = Transformer(2, vocabulary=20, width=16, heads=2, dropout=0.5), sentences([6, 4])
    before = state_of(model)
    torch.testing.assert_close(RemovalSensitivity()(model, x), RemovalSensitivity()(model, x))
    assert same_state(before, state_of(model))


def test_positions_matter_to_deletion_in_a_transformer() -> None:
    model, x = Transformer(2, vocabulary=20, width=16, heads=2).eval(), sentences([6, 6])
    assert not torch.allclose(RemovalSensitivity("mask")(model, x), RemovalSensitivity("delete")(model, x))


@pytest.mark.parametrize("sensitivity", [JacobianSensitivity(), JacobianSensitivity(probes=2, at="conv")])
def test_measuring_changes_nothing(sensitivity: JacobianSensitivity) -> None:
    model, x = ConvNet(dropout=0.5), torch.rand(4, 3, 5, 5)
    model(x).sum().backward()
    before = state_of(model)
    with torch.no_grad():
        s = sensitivity(model, x)
    assert same_state(before, state_of(model))
    assert not s.requires_grad
    assert not x.requires_grad
    assert not model.conv._forward_hooks


def test_wrong_input_and_settings_are_named() -> None:
    with pytest.raises(TypeError, match="x are Tokens"):
        JacobianSensitivity()(BagOfWords(), sentences([3]))
    with pytest.raises(TypeError, match="x must be Tokens"):
        RemovalSensitivity()(Linear(3), torch.rand(1, 3))
    with pytest.raises(ValueError, match=r"at='nowhere'.*one of conv, norm, dropout, head"):
        JacobianSensitivity(at="nowhere")(ConvNet(), torch.rand(1, 3, 4, 4))
    with pytest.raises(ValueError, match="probes=0"):
        JacobianSensitivity(probes=0)
    with pytest.raises(ValueError, match="must have at least one example"):
        JacobianSensitivity()(Linear(3), torch.rand(0, 3))


class Saturated(Linear):
    """phi(x) = W x, where NaN and infinity count as numbers: nothing in what comes out tells of them."""

    def embed(self, x: torch.Tensor) -> torch.Tensor:
        return super().embed(x.nan_to_num(1.0))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("probes", [None, 2])
def test_an_example_that_is_not_finite_is_named(value: float, probes: int | None) -> None:
    model, x = Saturated(6), torch.rand(3, 6)
    x[1, 2] = value
    with pytest.raises(ValueError, match="x must be finite, but example 1"):
        JacobianSensitivity(probes)(model, x)
    assert model.calls == 0


@pytest.mark.parametrize("probes", [0, True, 1.5])
def test_probes_are_a_whole_number(probes: object) -> None:
    with pytest.raises(ValueError, match=f"probes={probes} must be a whole number of 1 or more"):
        JacobianSensitivity(probes)


@pytest.mark.parametrize("levels", [3, 1000])
def test_it_is_spearmans(levels: int) -> None:
    generator = torch.Generator().manual_seed(levels)
    u, s = torch.randint(levels, (2, 5, 1, 6, 7), generator=generator).float()
    expected = [spearmanr(one.flatten(), other.flatten()).statistic for one, other in zip(u, s, strict=True)]
    np.testing.assert_allclose(spearman(u, s), expected, rtol=1e-12)
    np.testing.assert_allclose(ranks(u.flatten(1)) + 1, [rankdata(row) for row in u.flatten(1)])


def test_only_the_order_counts() -> None:
    u = torch.rand(4, 50, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(spearman(u, u.exp() * 7), torch.ones(4, dtype=torch.float64))
    assert torch.allclose(spearman(u, -(u**3)), -torch.ones(4, dtype=torch.float64))
    assert spearman(u, torch.zeros_like(u)).isnan().all()


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match="one and other must have the same shape"):
        spearman(torch.rand(2, 3), torch.rand(2, 4))


Y = torch.tensor([0, 1, 2])


def example() -> tuple[Tokens, Tensor]:
    """Three sentences of 5, 3 and 2 words, some of several pieces; the second has a word without any."""
    x = sentences([9, 6, 4], special=True)
    words = torch.tensor([[-1, 0, 0, 1, 2, 3, 3, 4, -1], [-1, 0, 2, 2, 2, -1, -1, -1, -1], [-1, 0, 1, -1, *[-1] * 5]])
    return x, words


def test_a_bag_of_words_moves_by_the_sum_of_a_words_pieces() -> None:
    model, (x, words) = BagOfWords().double(), example()
    s, u = word_removal(model, x, words, Y)
    z, whole = model.embed(x), CrossEntropy()(model(x), Y)
    assert s.shape == u.shape == (3, 5)
    for i in range(3):
        for w in range(5):
            gone = model.words.weight[x.ids[i, words[i] == w]].sum(0)
            assert s[i, w].item() == pytest.approx(gone.norm().item())
            shorter = CrossEntropy()(model.head(z[i] - gone)[None], Y[i : i + 1])
            assert u[i, w].item() == pytest.approx((whole[i] - shorter).abs().item(), abs=1e-12)
    assert s[1, 1] == 0 and s[1, 2] > 0 and (s[2, 2:] == 0).all()


@pytest.mark.parametrize("how", ["mask", "delete"])
def test_words_of_one_piece_are_tokens_and_chunks_change_nothing(how) -> None:
    model, x = (
        Transformer(3, 20, width=8, heads=2, feed_forward=8, dropout=0.5).double(),
        sentences([7, 5, 3], special=True),
    )
    places = torch.arange(x.ids.shape[1]) - 1
    s, u = word_removal(model, x, places.expand_as(x.ids).where(x.features, -1), Y, how=how, memory=1)
    torch.testing.assert_close(s, RemovalSensitivity(how)(model, x)[:, 1:-1])
    torch.testing.assert_close(u, RemovalUtility(how)(model, x, Y)[:, 1:-1])


class Encoder(nn.Module):
    """phi = the sum over present tokens of A_t vector_t, with a matrix for every position."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.head = nn.Embedding(20, 4), nn.Linear(6, 3)
        self.maps = nn.Parameter(torch.randn(9, 6, 4))

    def encode(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return torch.einsum("ted,btd->be", self.maps, vectors * mask[:, :, None])

    def embed(self, x: Tokens) -> Tensor:
        return self.encode(self.token(x.ids), x.mask)


def test_the_gradients_norm_is_that_of_the_matrices() -> None:
    """The estimate of a squared norm F has standard deviation at most F * sqrt(2 / probes)."""
    model, (x, words) = Encoder(), example()
    before = state_of(model)
    g = word_gradient(model, x, words, probes=1000, generator=torch.Generator().manual_seed(0))
    assert same_state(before, state_of(model))
    for i in range(3):
        for w in range(5):
            expected = model.maps[words[i] == w].square().sum().sqrt().item()
            assert g[i, w].item() == pytest.approx(expected, rel=0.1)


def test_measuring_a_transformer_leaves_it_as_it_was() -> None:
    model, (x, words) = Transformer(3, 20, width=8, heads=2, feed_forward=8, dropout=0.5), example()
    before = state_of(model)
    first, second = ((*word_removal(model, x, words, Y), word_gradient(model, x, words, 2)) for _ in range(2))
    assert torch.equal(first[0], second[0]) and torch.equal(first[1], second[1]) and first[2].shape == (3, 5)
    assert same_state(before, state_of(model))
