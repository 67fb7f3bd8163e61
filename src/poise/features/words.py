"""Sensitivity and utility of words that are split into pieces: all pieces of a word are removed together.

    sensitivity   s_w = || phi(x) - phi(x without w) ||      Definition 2
    utility       u_w = | loss(x) - loss(x without w) |      Definition 1
    gradient      g_w = || d phi / d (the vectors of w's pieces) ||, the Frobenius norm of the Jacobian

One pass over the shorter sentences gives the first two. Random probes v ~ N(0, I) estimate the gradient: the
expectation of || v^T J ||^2 is the squared norm.

Axes: B sentences, T positions, W words, E values of phi.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from poise.classifier import Classifier, check_batch, evaluating, gradients
from poise.features.utility import rows_within
from poise.losses import CrossEntropy, ExampleLoss
from poise.tokens import Removal, Tokens, without_each


def word_removal(
    model: Classifier,
    x: Tokens,
    words: Tensor,
    y: Tensor,
    *,
    loss: ExampleLoss = CrossEntropy(),
    how: Removal = "mask",
    memory: int = 2**30,
) -> tuple[Tensor, Tensor]:
    """Sensitivity and utility [B, W], in eval mode; 0 beyond a sentence's words, and for a word without pieces.

    words  [B, T] the number of the word that a piece belongs to, -1 for none.
    """
    check_batch(model, x, y)
    shape = len(x), max(1, int(words.max()) + 1)
    with evaluating(model), torch.no_grad():
        z = model.embed(x)
        losses = loss(model.head(z), y)
        s, u = z.new_zeros(shape), losses.new_zeros(shape)
        size = rows_within(memory, model, model.embed, x, "embedding")
        for rows, numbers, shorter in without_each(x, how, size, words):
            moved = model.embed(shorter)
            s[rows, numbers] = torch.linalg.vector_norm(z[rows] - moved, dim=1)
            u[rows, numbers] = (losses[rows] - loss(model.head(moved), y[rows])).abs()
    return s, u


def word_gradient(
    model: Any, x: Tokens, words: Tensor, probes: int = 16, generator: torch.Generator | None = None
) -> Tensor:
    """Gradient sensitivity [B, W], in eval mode, of a model with `token` (ids → vectors) and `encode` (vectors → z)."""
    check_batch(model, x)
    with gradients(), evaluating(model):
        vectors = model.token(x.ids).detach().requires_grad_()
        z = model.encode(vectors, x.mask)
        square = torch.zeros(words.shape, dtype=torch.float32, device=words.device)
        for _ in range(probes):
            probe = torch.empty_like(z).normal_(generator=generator)
            (row,) = torch.autograd.grad((z * probe).sum(), vectors, retain_graph=True)
            square += row.float().square().sum(2)
    sums = square.new_zeros(len(x), int(words.max()) + 2)  # the last column collects pieces of no word
    return sums.scatter_add(1, words.where(words >= 0, sums.shape[1] - 1), square / probes)[:, :-1].sqrt()
