"""What a model is given and what it gives: a copy that it may change, and logits under many names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

_RETURN = "let it return its logits, alone, as the first of a tuple, or under the name 'logits'"


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


def logits_of(out: Any) -> Tensor:
    """The logits in what a model gives; a TypeError says what it gives instead."""
    if isinstance(out, Tensor):
        return out
    held = _parts(out)
    tensors = {name: part for name, part in held.items() if isinstance(part, Tensor)}
    if "logits" in tensors:
        return tensors["logits"]
    if len(tensors) == 1 or (isinstance(out, tuple | list) and 0 in tensors):
        return next(iter(tensors.values()))
    of = f" of {', '.join(map(str, held))}" if held else ""
    raise TypeError(f"the model gives a {type(out).__name__}{of}: {_RETURN}")


def _parts(out: Any) -> dict[Any, Any]:
    """By name or by place."""
    if isinstance(out, Mapping):
        return dict(out)
    if is_dataclass(out):
        return {field.name: getattr(out, field.name) for field in fields(out)}
    if isinstance(out, tuple) and hasattr(out, "_asdict"):
        named: dict[Any, Any] = out._asdict()
        return named if "logits" in named else dict(enumerate(out))
    if isinstance(out, tuple | list):
        return dict(enumerate(out))
    return {"logits": out.logits} if hasattr(out, "logits") else {}
