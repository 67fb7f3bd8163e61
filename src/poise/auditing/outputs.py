"""What a model is given: a copy that it may change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def on_a_copy(run: Callable[[Any], Any], x: Any) -> Any:
    """run(x), on a copy of x: a model may change its input in place, if gradients see that."""
    held = x.clone()
    out = run(held)
    if isinstance(held, Tensor) and held.requires_grad and held.grad_fn is not None:
        unseen = held.grad_fn.name() == "CloneBackward0" and not torch.equal(held.detach(), x.detach())
        if unseen:
            raise ValueError(
                "the model changes its input in place under no_grad or by .data, which gradients do not see: let it "
                "make a new tensor"
            )
    return out
