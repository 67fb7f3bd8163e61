"""What is compiled for a GPU: a model's embed by torch, its narrow convolutions by kernels of our own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import nn

from poise.training.kernels.narrow import narrow
from poise.training.plan import Plan


def compiles(model: nn.Module, plan: Plan, device: torch.device) -> bool:
    """Whether the plan has a model compiled on a device; an embed that is a module has names in checkpoints to keep."""
    return plan.compile and device.type == "cuda" and hasattr(model, "embed") and "embed" not in model._modules


@contextmanager
def compiled(model: nn.Module) -> Iterator[None]:
    """The model's embed compiled inside; its own comes back."""
    own = vars(model).get("embed")
    with narrow(model), _many_passes():
        # Every pass has one batch size: shapes left open, after the second size, would cost speed.
        model.embed = torch.compile(model.embed, dynamic=False)  # type: ignore[assignment, arg-type]
        try:
            yield
        finally:
            del model.embed
            if own is not None:
                model.embed = own


@contextmanager
def uncompiled(model: nn.Module) -> Iterator[None]:
    """The model's own embed: to compile it for other modes and sizes would take longer than it saves."""
    embed = model.__dict__.pop("embed", None)
    try:
        yield
    finally:
        if embed is not None:
            model.__dict__["embed"] = embed


def _many_passes() -> AbstractContextManager[None]:
    """A process may meet more kinds of pass than the eight that torch keeps: the ninth would silently run eager."""
    import torch._dynamo

    patched: AbstractContextManager[None] = torch._dynamo.config.patch(recompile_limit=64)
    return patched
