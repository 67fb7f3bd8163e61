"""Does sensitivity follow utility? Their rank correlation over the features of each example.

    rho = Pearson( ranks of u, ranks of s ),   equal values share their mean rank

Axes: B examples, *D features of one example, N = their number.
"""

from __future__ import annotations

import torch
from torch import Tensor


def rank_correlation(u: Tensor, s: Tensor) -> Tensor:
    """Spearman's rho of u and s [B, *D], example by example [B]; NaN where one of them is the same everywhere."""
    if u.shape != s.shape:
        raise ValueError(f"u has shape {list(u.shape)}, s has {list(s.shape)}: one number per feature each")
    one, other = (_centred(ranks(values.flatten(1))) for values in (u, s))
    norms = torch.linalg.vector_norm(one, dim=1) * torch.linalg.vector_norm(other, dim=1)
    rho: Tensor = (one * other).sum(1) / norms
    return rho


def ranks(rows: Tensor) -> Tensor:
    """[B, N] → the rank of each value in its row, from 0; equal values share the mean of theirs. In float64."""
    ordered = rows.sort(dim=1).values
    first = torch.searchsorted(ordered, rows)
    behind = torch.searchsorted(ordered, rows, right=True)
    return (first + behind - 1).double() / 2


def _centred(rows: Tensor) -> Tensor:
    return rows - rows.mean(1, keepdim=True)
