"""Chunks under a memory budget: how many examples fit, found by weighing the graph of one."""

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
    """How many examples like those of x one `run` may hold for its graph to stay within `budget` bytes; at least 1.

    `what` names the computation: its weight per example is measured once per model and example shape.
    """
    known = _weighed.setdefault(model, {})
    key = (what, shape_of(x)[1:], torch.is_autocast_enabled(), x.dtype if isinstance(x, Tensor) else None)
    if key not in known:
        known[key] = _bytes_of_graph(model, run, x[:1])
    return max(1, budget // max(1, known[key]))


def _bytes_of_graph(model: Classifier, run: Callable[[Input], Tensor], x: Input) -> int:
    """The bytes that one forward keeps for its backward, weights left out: they are kept once for all examples."""
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, int] = {}

    def weigh(saved: Tensor) -> Tensor:
        storage = saved.untyped_storage()
        if storage.data_ptr() not in weights and not isinstance(saved, nn.Parameter):
            kept[storage.data_ptr()] = storage.nbytes()
        return saved.detach()  # with its graph it would hold the node that holds it, and neither would ever go

    with gradients(), saved_tensors_hooks(weigh, lambda saved: saved):
        result = run(x.clone() if isinstance(x, Tokens) else x.detach().clone().requires_grad_())
    return sum(kept.values()) + result.numel() * result.element_size()
