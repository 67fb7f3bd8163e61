"""The logits in what a model gives: alone, first of a tuple, or under their name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor

_RETURN = "let it return its logits, alone, as the first of a tuple, or under the name 'logits'"


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


def both_classes(logits: Tensor) -> Tensor:
    """[B, L]. One logit per example, [B, 1] or [B], is the log-odds of class 1: the 0 of class 0 goes before it."""
    if logits.ndim == 1 and logits.is_floating_point():  # whole numbers would be classes
        logits = logits[:, None]
    return F.pad(logits, (1, 0)) if logits.ndim == 2 and logits.shape[1] == 1 else logits


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
