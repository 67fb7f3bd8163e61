"""Any classifier as embed + head, for an audit: also compiled, with logits in a dict, or one logit for two classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from poise.auditing.wrappers import OneLogit
from poise.models.split import call_model, split
from poise.tokens import Input


def as_classifier(model: nn.Module, head: str | None) -> nn.Module:
    """The model itself if it has embed and head, else split; `head` names its last layer."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"the model is a {type(model).__name__}: it must be a torch.nn.Module")
    model = getattr(model, "_orig_mod", model)  # of torch.compile: an audit needs the modules
    if hasattr(model, "embed") and hasattr(model, "head"):
        return model
    found = split(model, head, call=_logits)
    layer = model.get_submodule(found.head_name)
    return OneLogit(found) if getattr(layer, "out_features", None) == 1 else found


def _logits(model: nn.Module, x: Input) -> Any:
    """[B, L], also of a model that gives {"logits": ...}, or one logit per example as [B]."""
    out = call_model(model, x)
    out = out.get("logits", out) if isinstance(out, Mapping) else out
    return out[:, None] if getattr(out, "ndim", None) == 1 else out
