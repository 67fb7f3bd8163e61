"""Agreement of sensitivity and utility: ranks, and how well two orders of an example's features agree.

    Spearman   the correlation of ranks; equal values share the mean of their ranks
    overlap    | Top_k(u) and Top_k(s) | / k

Axes: B examples, N features of one example.
"""

from __future__ import annotations

import torch
from torch import Tensor


def ranks(rows: Tensor) -> Tensor:
    """[B, N] → ranks starting at 0, ties averaged, in float64."""
    ordered, order = rows.sort(dim=1)
    if not bool((ordered[:, 1:] == ordered[:, :-1]).any()):
        places = torch.arange(rows.shape[1], dtype=torch.float64, device=rows.device).expand(rows.shape)
        return torch.empty_like(places).scatter_(1, order, places)
    below = torch.searchsorted(ordered.contiguous(), rows.contiguous())
    through = torch.searchsorted(ordered.contiguous(), rows.contiguous(), right=True)
    return (below + through - 1).double() / 2


def spearman(one: Tensor, other: Tensor, valid: Tensor | None = None) -> Tensor:
    """[B] rank correlations of [B, *D] with [B, *D]; nan if either is constant or fewer than 3 features are valid."""
    if one.shape != other.shape:
        raise ValueError(f"one and other must have the same shape, got {list(one.shape)} and {list(other.shape)}")
    left, right = one.flatten(1), other.flatten(1)
    if valid is None:
        return correlation(ranks(left), ranks(right))
    found = [
        spearman(a[None, keep], b[None, keep]) if int(keep.sum()) > 2 else left.new_full((1,), torch.nan).double()
        for a, b, keep in zip(left, right, valid.flatten(1), strict=True)
    ]
    return torch.cat(found)


def overlap(one: Tensor, other: Tensor) -> Tensor:
    """[B] the share of the first choice [B, *D] that the second also has; nan if nothing is chosen."""
    left, right = one.flatten(1), other.flatten(1)
    return (left & right).sum(1).double() / left.sum(1)


def correlation(left: Tensor, right: Tensor) -> Tensor:
    """[B] the correlation of each pair of rows [B, N]; nan if either row is constant."""
    left, right = left - left.mean(1, keepdim=True), right - right.mean(1, keepdim=True)
    spread = left.norm(dim=1) * right.norm(dim=1)
    return torch.where(spread > 0, (left * right).sum(1) / spread, torch.nan)
