"""Rank correlation against SciPy, ties included."""

import numpy as np
import pytest
import torch
from scipy.stats import rankdata, spearmanr

from poise.features.sensitivity import ranks, spearman


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
