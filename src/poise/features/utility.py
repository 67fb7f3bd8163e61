"""Contextual feature utility (Definition 1).

    continuous   u_j = | d loss / d x_j |
    discrete     u_j = | loss(x) - loss(x without j) |

Axes: B examples, *D features of one example (any number of axes), T tokens.

Chunks within a memory budget: measure the graph of one example to see how many fit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Protocol, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from poise.checks import require_choice, require_switch, require_whole
from poise.classifier import Classifier, Forward, check_model, evaluating, gradient_of, gradients, leaf, run
from poise.losses import CrossEntropy, ExampleLoss
from poise.tokens import Input, Removal, Tokens, shape_of, without_each

_weighed: WeakKeyDictionary[Classifier, dict[Hashable, int]] = WeakKeyDictionary()


def rows_within(budget: int, model: Classifier, run: Callable[[Input], Tensor], x: Input, what: str) -> int:
    """The number of examples like x that `run` can process with a graph of at most `budget` bytes; at least 1.

    `what` names the computation: its memory per example is measured once per model and example shape.
    """
    known = _weighed.setdefault(model, {})
    key = (what, shape_of(x)[1:], torch.is_autocast_enabled(), x.dtype if isinstance(x, Tensor) else None)
    if key not in known:
        known[key] = _bytes_of_graph(model, run, x[:1])
    return max(1, budget // max(1, known[key]))


def _bytes_of_graph(model: Classifier, run: Callable[[Input], Tensor], x: Input) -> int:
    """The bytes that one forward pass saves for its backward pass, without the weights, which all examples share."""
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, int] = {}

    def weigh(saved: Tensor) -> Tensor:
        storage = saved.untyped_storage()
        if storage.data_ptr() not in weights and not isinstance(saved, nn.Parameter):
            kept[storage.data_ptr()] = storage.nbytes()
        return saved.detach()  # keeping its graph would make a reference cycle with the node that saved it

    with gradients(), saved_tensors_hooks(weigh, lambda saved: saved):
        result = run(x.clone() if isinstance(x, Tokens) else x.detach().clone().requires_grad_())
    return sum(kept.values()) + result.numel() * result.element_size()


class Utility(Protocol):
    """One non-negative number per feature of x: [B, *D] for a tensor, [B, T] for Tokens.

    loss     any loss that gives one number per example.
    forward  the objective's own pass through the model, if it has run one; x is a leaf of its graph if `uses_forward`
             is True.
    """

    @property
    def uses_forward(self) -> bool: ...

    def check(self, x: Input) -> None:
        """Raise if this utility does not support inputs like x."""

    def __call__(
        self, model: Classifier, x: Input, y: Tensor, *, loss: ExampleLoss = ..., forward: Forward | None = None
    ) -> Tensor: ...


@dataclass(frozen=True)
class GradientUtility:
    """u_j = | d loss / d x_j |, each example's own loss.

    Called alone, it runs the model once, in eval mode, and leaves the model unchanged. Inside an objective it takes the
    gradient of the objective's training pass, which saves a forward pass; there, the batch statistics of batch norm let
    examples leak into each other's gradient. `own_forward=True` runs a separate eval-mode pass instead.

    >>> from poise import LeNet
    >>> GradientUtility()(LeNet(num_classes=10), torch.rand(2, 1, 28, 28), torch.tensor([3, 7])).shape
    torch.Size([2, 1, 28, 28])
    """

    own_forward: bool = False

    def __post_init__(self) -> None:
        require_switch("own_forward", self.own_forward)

    @property
    def uses_forward(self) -> bool:
        return not self.own_forward

    def check(self, x: Input) -> None:
        leaf(x)

    def __call__(
        self,
        model: Classifier,
        x: Input,
        y: Tensor,
        *,
        loss: ExampleLoss = CrossEntropy(),
        forward: Forward | None = None,
    ) -> Tensor:
        if forward is not None and self.uses_forward and forward.losses.requires_grad:
            return _input_gradient(forward, retain_graph=True).abs()
        check_model(model)
        scaler = None if forward is None else forward.scaler
        with gradients(), evaluating(model):
            return _input_gradient(run(model, leaf(x), y, loss, scaler=scaler), retain_graph=False).abs()


@dataclass(frozen=True)
class RemovalUtility:
    """u_j = | loss(x) - loss(x without token j) |; 0 for padding and special tokens.

    Both losses are computed in eval mode: dropout would change the loss more than one token does. Under autocast the
    head keeps the precision of the weights: logits with 8 bits cannot distinguish the least useful tokens. The B * T
    shorter sentences run in chunks whose graph would stay within `memory` bytes; no graph is kept.
    """

    how: Removal = "mask"
    memory: int = 2**30

    def __post_init__(self) -> None:
        require_choice("how", self.how, "mask", "delete")
        require_whole("memory", self.memory, least=1)

    @property
    def uses_forward(self) -> bool:
        return False

    def check(self, x: Input) -> None:
        if not isinstance(x, Tokens):
            raise TypeError("RemovalUtility removes tokens: x must be Tokens; use GradientUtility for float tensors")

    def __call__(
        self,
        model: Classifier,
        x: Input,
        y: Tensor,
        *,
        loss: ExampleLoss = CrossEntropy(),
        forward: Forward | None = None,
    ) -> Tensor:
        check_model(model)
        self.check(x)
        x = cast(Tokens, x)
        with evaluating(model), torch.no_grad():
            whole = run(model, x, y, loss, exact_head=True).losses
            u = whole.new_zeros(x.ids.shape)
            size = rows_within(self.memory, model, model.embed, x, "embedding")
            for rows, positions, shorter in without_each(x, self.how, size):
                left = run(model, shorter, y[rows], loss, exact_head=True).losses
                u[rows, positions] = (whole[rows] - left).abs()
        return u * x.features


def _input_gradient(forward: Forward, retain_graph: bool) -> Tensor:
    """d (sum of losses) / d x in float32 or better; parameters get no gradient.

    A float16 graph represents only numbers from 6e-8 to 65504. With a scaler, this differentiates the scaled mean loss,
    as the training step does. Without a scaler, it differentiates the losses times 2^8, and again times 2^-8 for values
    that overflow; each example has its own loss, so the batch size does not matter.
    """
    total = forward.losses.sum()
    if forward.scaler is not None and forward.scaler.is_enabled():
        scale = forward.scaler.scale(torch.ones((), device=total.device)) / len(forward.losses)
        return _unscaled_gradient(forward, total, scale, retain_graph)
    if not _in_float16(forward):
        return _unscaled_gradient(forward, total, 1.0, retain_graph)
    fine = _unscaled_gradient(forward, total, 2.0**8, retain_graph=True)
    coarse = _unscaled_gradient(forward, total, 2.0**-8, retain_graph)
    return fine.where(fine.isfinite(), coarse)


def _unscaled_gradient(forward: Forward, total: Tensor, scale: float | Tensor, retain_graph: bool) -> Tensor:
    (gradient,) = gradient_of(total * scale, [cast(Tensor, forward.x)], retain_graph)
    if gradient is None:
        raise ValueError("the loss does not depend on x")
    unscaled: Tensor = gradient.to(torch.promote_types(gradient.dtype, torch.float32)) / scale
    return unscaled


def _in_float16(forward: Forward) -> bool:
    device = forward.z.device.type
    halves = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) == torch.float16
    return halves or torch.float16 in (forward.z.dtype, forward.logits.dtype, getattr(forward.x, "dtype", None))
