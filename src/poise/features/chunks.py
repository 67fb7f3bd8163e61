"""Chunks within a memory budget: measure the graph of one example to see how many fit."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from poise.classifier import Classifier, gradients
from poise.tokens import Input, Tokens, shape_of

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
