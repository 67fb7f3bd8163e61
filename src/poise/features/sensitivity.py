"""Contextual feature sensitivity (Definition 2), of features, of tokens and of words in pieces.

    continuous   s_j = || d phi(x) / d x_j ||               the norm of a column of the Jacobian
    discrete     s_j = || phi(x) - phi(x without j) ||
    words        s_w = || phi(x) - phi(x without w) ||      all pieces of a word are removed together
                 g_w = || d phi / d (the vectors of w's pieces) ||, the Frobenius norm of the Jacobian

phi is the embedding by default; `at` selects another output: "output" (the logits), or any layer of the model. Random
probes v ~ N(0, I) estimate a norm: the expectation of || v^T J ||^2 is its square.

Also how well two orders of an example's features agree, such as sensitivity and utility:

    Spearman   the correlation of ranks; equal values share the mean of their ranks
    overlap    | Top_k(u) and Top_k(s) | / k

Axes: B examples, *D features of one example, N their number, T tokens, W words, E values of phi.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import sqrt
from typing import Any, cast

import torch
from torch import Tensor

from poise.checks import require_choice, require_whole
from poise.classifier import Classifier, _finite_rows, check_batch, evaluating, gradients, leaf, retainable, unknown_ids
from poise.features.utility import rows_within
from poise.losses import CrossEntropy
from poise.tokens import Input, Removal, Tokens, without_each


@dataclass(frozen=True, eq=False)
class Estimate:
    """A measured value and its standard error for each feature [B, *D]; an exact value has error 0."""

    value: Tensor
    standard_error: Tensor


@dataclass(frozen=True)
class JacobianSensitivity:
    """s_j = || d phi / d x_j ||, measured in eval mode; the model is left unchanged.

    probes=None is exact: E backward passes. probes=m draws v ~ N(0, I) m times, and since (v^T J)_j ~ N(0, s_j^2),

        s_j = sqrt( mean of (v^T J)_j^2 ),   standard error  s_j / sqrt(2 m).

    Examples run in chunks whose graph stays within `memory` bytes.

    >>> from poise import split
    >>> layer = torch.nn.Linear(3, 2, bias=False)
    >>> model = split(torch.nn.Sequential(layer, torch.nn.Linear(2, 2)))
    >>> s = JacobianSensitivity()(model, torch.zeros(1, 3))
    >>> torch.allclose(s[0], layer.weight.norm(dim=0))
    True
    """

    probes: int | None = None
    at: str = "embedding"
    memory: int = 2**30

    def __post_init__(self) -> None:
        if self.probes is not None:
            require_whole("probes", self.probes, least=1)
        _check_at(self.at)
        require_whole("memory", self.memory, least=1)

    def __call__(self, model: Classifier, x: Input, generator: torch.Generator | None = None) -> Tensor:
        """x [B, *D] → s [B, *D]."""
        return self.estimate(model, x, generator).value

    def estimate(self, model: Classifier, x: Input, generator: torch.Generator | None = None) -> Estimate:
        leaf(x)  # raises for Tokens
        x = cast(Tensor, x)
        check_batch(model, x)
        finite = _finite_rows(x)
        place = _place(model, self.at)
        with gradients(), retainable(), evaluating(model):
            size = rows_within(self.memory, model, place, x, self.at)
            s = torch.cat([self._norms(place, leaf(rows), generator) for rows in torch.split(x, size)])
        # A saturated network gives a finite sensitivity even when x is not finite.
        if finite is not None:
            s = s.where(finite.view(-1, *[1] * (s.ndim - 1)), torch.nan)
        relative_error = 0.0 if self.probes is None else 1 / sqrt(2 * self.probes)
        return Estimate(s, s * relative_error)

    def _norms(self, place: Callable[[Input], Tensor], x: Tensor, generator: torch.Generator | None) -> Tensor:
        z = place(x)
        square = torch.zeros_like(x, dtype=torch.promote_types(x.dtype, torch.float32))
        for projection in self._projections(z, generator):
            (row,) = torch.autograd.grad(projection, x, retain_graph=True)
            square += row.to(square.dtype) ** 2
        return (square if self.probes is None else square / self.probes).sqrt()

    def _projections(self, z: Tensor, generator: torch.Generator | None) -> Iterable[Tensor]:
        """Yield v^T z summed over examples, for every unit vector v or for random ones: its gradient is v^T J."""
        if self.probes is None:
            return (z[:, e].sum() for e in range(z.shape[1]))
        return ((z * torch.empty_like(z).normal_(generator=generator)).sum() for _ in range(self.probes))


@dataclass(frozen=True)
class RemovalSensitivity:
    """s_j = || phi(x) - phi(x without token j) ||, in eval mode; 0 for padding and special tokens."""

    how: Removal = "mask"
    at: str = "embedding"
    memory: int = 2**30

    def __post_init__(self) -> None:
        require_choice("how", self.how, "mask", "delete")
        _check_at(self.at)
        require_whole("memory", self.memory, least=1)

    def __call__(self, model: Classifier, x: Input) -> Tensor:
        """Tokens [B, T] → s [B, T]."""
        if not isinstance(x, Tokens):
            raise TypeError("RemovalSensitivity removes tokens: x must be Tokens; use JacobianSensitivity for tensors")
        check_batch(model, x)
        place = _place(model, self.at)
        with evaluating(model), torch.no_grad():
            whole = _tried(model, place, x)
            s = whole.new_zeros(x.ids.shape)
            size = rows_within(self.memory, model, place, x, self.at)
            for rows, positions, shorter in without_each(x, self.how, size):
                s[rows, positions] = torch.linalg.vector_norm(whole[rows] - place(shorter), dim=1)
        return s * x.features


def _check_at(at: str) -> None:
    if not isinstance(at, str) or not at:
        raise ValueError(f'at={at!r} must be "embedding", "output", or the name of a layer')


def _tried(model: Classifier, place: Callable[[Input], Tensor], x: Tokens) -> Tensor:
    """phi(x); raise an error that names the ids if the model does not know them."""
    try:
        return place(x)
    except IndexError as error:
        raise unknown_ids(model, x, error) from error


def _place(model: Classifier, at: str) -> Callable[[Input], Tensor]:
    """A function x → phi(x) [B, E]: the embedding, the output, or a layer of model.named_modules()."""
    if at == "embedding":
        return lambda x: model.embed(x).flatten(1)
    if at == "output":
        return lambda x: model(x).flatten(1)
    try:
        layer = model.get_submodule(at)
    except AttributeError:
        names = ", ".join(name for name, _ in model.named_modules() if name)
        raise ValueError(
            f'at={at!r} is not a layer of the model: choose "embedding", "output", or one of {names}'
        ) from None

    def run(x: Input) -> Tensor:
        seen: list[Any] = []
        with layer.register_forward_hook(lambda module, args, output: seen.append(output)):
            model(x)
        output = seen[-1] if seen else None
        first = output[0] if isinstance(output, tuple) else output
        if not isinstance(first, Tensor):
            raise ValueError(f"at={at!r}: this layer did not return a tensor in the forward pass; choose another one")
        return first.flatten(1)

    return run


def word_removal(
    model: Classifier, x: Tokens, words: Tensor, y: Tensor, *, how: Removal = "mask", memory: int = 2**30
) -> tuple[Tensor, Tensor]:
    """Sensitivity and utility [B, W], in eval mode; 0 beyond a sentence's words, and for a word without pieces.

    Utility u_w = | loss(x) - loss(x without w) | with the cross-entropy.

    words  [B, T] the number of the word that a piece belongs to, -1 for none.
    """
    check_batch(model, x, y)
    shape = len(x), max(1, int(words.max()) + 1)
    with evaluating(model), torch.no_grad():
        z, loss = model.embed(x), CrossEntropy()
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
