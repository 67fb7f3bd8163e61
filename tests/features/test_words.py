"""Words in pieces: closed forms of a bag of words, and one removal at a time."""

import pytest
import torch
from torch import Tensor, nn
from toys import BagOfWords, same_state, sentences, state_of

from poise import CrossEntropy, RemovalSensitivity, RemovalUtility, Tokens, Transformer
from poise.features.words import word_gradient, word_removal

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


class Linear(nn.Module):
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
    model, (x, words) = Linear(), example()
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
