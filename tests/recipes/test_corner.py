"""Corner measures on a model whose gradients are known."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from poise.data.synthetic_mnist import Digits, SyntheticMNIST
from poise.recipes.synthetic_mnist.corner import CornerMeasures, corner_squares


def test_squares_are_where_digits_are_pasted() -> None:
    recipe = SyntheticMNIST(corner_size=5)
    for corner in range(4):
        images = np.zeros((1, 28, 28), np.uint8)
        recipe._paste(images, np.array([corner], np.int8), np.full((1, 28, 28), 255, np.uint8))
        np.testing.assert_array_equal(images[0] > 0, corner_squares(np.array([corner]), 5)[0])
    assert not corner_squares(np.array([-1]), 5).any()


class Planted(nn.Module):
    """Logits [0, w x]: d loss / d x = p w, so utility is |w| up to a factor, and sensitivity at the embedding |v|."""

    def __init__(self, w: Tensor, v: Tensor) -> None:
        super().__init__()
        self.w, self.v = nn.Parameter(w.flatten()), nn.Parameter(v.flatten())

    def embed(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        return torch.stack([flat @ self.w, flat @ self.v], dim=1)

    def head(self, z: Tensor) -> Tensor:
        return torch.stack([torch.zeros(len(z)), z[:, 0]], dim=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embed(x))


def test_shares_and_ranks_are_those_of_the_weights() -> None:
    corner = torch.from_numpy(corner_squares(np.array([1]), 7))[0]
    generator = torch.Generator().manual_seed(0)
    w = torch.rand(28, 28, generator=generator) + 0.01
    w = torch.where(corner, 10 * w, w) * torch.where(torch.rand(28, 28, generator=generator) < 0.5, -1, 1)
    digits = Digits(
        np.zeros((3, 28, 28), np.uint8), np.array([0, 1, 1], np.uint8), np.zeros(3, np.uint8), np.full(3, 1, np.int8)
    )
    measures = CornerMeasures(SyntheticMNIST(), k=64)
    squares = torch.from_numpy(corner_squares(digits.corner, 7))[:, None]
    found = measures._measure(Planted(w, torch.zeros(28, 28)), digits, squares)
    share = float(w[corner].abs().sum() / w.abs().sum())
    assert found["corner utility"].tolist() == pytest.approx([share] * 3, rel=1e-5)
    assert found["corner sensitivity"].tolist() == pytest.approx([share] * 3, rel=1e-5)
    assert found["rank correlation"].tolist() == pytest.approx([1.0] * 3)
    top = w.abs().flatten().topk(64).indices
    assert found["corner top-k"].tolist() == pytest.approx([float(corner.flatten()[top].float().mean())] * 3)

    blind = measures._measure(Planted(w, torch.where(corner, 0.0, 1e4 / w.abs())), digits, squares)
    assert blind["corner sensitivity"].max() < 0.01 and blind["rank correlation"].max() < -0.5


def test_only_noise_on_pixels_that_the_embedding_reads_moves_it() -> None:
    """Weights on the upper half alone: the least useful pixels lie below, and moving them moves nothing."""
    upper = (torch.arange(28) < 14)[:, None].expand(28, 28)
    w, v = (torch.where(upper, torch.rand(28, 28, generator=torch.Generator().manual_seed(s)), 0.0) for s in (0, 1))
    digits = Digits(np.full((3, 28, 28), 90, np.uint8), np.zeros(3, np.uint8), np.zeros(3, np.uint8), np.zeros(3, int))
    squares = torch.zeros(3, 1, 28, 28, dtype=torch.bool)
    found = CornerMeasures(SyntheticMNIST(), k=100)._measure(Planted(w, v), digits, squares)
    still = CornerMeasures(SyntheticMNIST(), k=100, sigma=0.0)._measure(Planted(w, v), digits, squares)
    assert found["near shift"].abs().max() < 1e-6 and found["far shift"].max() > 1e-4
    assert still["far shift"].abs().max() < 1e-6
