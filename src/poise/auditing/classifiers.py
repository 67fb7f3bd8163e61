"""Any classifier as embed + head, for an audit: compiled, in half precision, one that changes its input in place, gives
its logits in a dict, or one logit for two classes; scripted, if it has embed and head."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import nn

from poise.auditing.outputs import on_a_copy
from poise.auditing.wrappers import OneLogit, Own
from poise.models.split import call_model, split
from poise.outputs import logits_of
from poise.tokens import Input


def as_classifier(model: nn.Module, head: str | None) -> nn.Module:
    """The model's own embed and head if it has them, else split; `head` names its last layer.

    Weights of half or double precision are audited in float32, in a copy of the model.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"the model is a {type(model).__name__}: it must be a torch.nn.Module")
    if head is not None and not isinstance(head, str):
        raise TypeError(f"head={head!r} must be the name of a layer, not a {type(head).__name__}")
    model = getattr(model, "_orig_mod", model)  # of torch.compile: an audit needs the modules
    model = _in_single(model) if precision_note(model) else model
    if _has_own(model) and (head is None or head not in dict(model.named_modules())):
        return Own(model)
    if isinstance(model, torch.jit.ScriptModule):
        raise ValueError(
            "a scripted model (torch.jit) hides its layers: audit the Python model that it was made from, or script "
            "one with methods embed and head"
        )
    found = split(model, head, call=_logits)
    layer = model.get_submodule(found.head_name)
    single = getattr(layer, "out_features", None) == 1 or getattr(layer, "out_channels", None) == 1
    return OneLogit(found) if single else found


def precision_note(model: nn.Module) -> str:
    """What is said of weights that are not float32; "" where all are."""
    kinds = {str(p.dtype).removeprefix("torch.") for p in model.parameters() if p.is_floating_point()} - {"float32"}
    return f"the model's weights are {' and '.join(sorted(kinds))}: it was audited in float32" if kinds else ""


def _in_single(model: nn.Module) -> nn.Module:
    """A copy in float32: half a precision would measure its own rounding."""
    try:
        return deepcopy(model).float()
    except Exception:  # whatever a model raises that cannot be copied
        raise ValueError("the model's weights are not float32, and it cannot be copied: give it as float32") from None


def _has_own(model: nn.Module) -> bool:
    """Whether it has embed and head; a table of word vectors that is called so is no embedding of a sentence."""
    embed = getattr(model, "embed", None)
    return callable(embed) and not isinstance(embed, nn.Embedding) and hasattr(model, "head")


def _logits(model: nn.Module, x: Input) -> Any:
    """[B, L], also of a model that gives one logit per example as [B]."""
    out = logits_of(on_a_copy(lambda held: call_model(model, held), x))
    return out[:, None] if out.ndim == 1 else out
