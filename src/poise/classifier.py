"""The contract: a classifier is an embedding phi and a discriminator h, f(x) = h(phi(x)) (section 2.1).

Anything with `embed` and `head` that is an nn.Module is a Classifier; `poise.split` makes one of any model.

Axes: B examples, E embedding, L classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch._functorch.config
from torch import Tensor, nn

from poise.losses import ExampleLoss
from poise.tokens import Input, Tokens, device_of, shape_of


class Classifier(Protocol):
    """f = h after phi: `embed` is phi, `head` is h."""

    training: bool

    def embed(self, x: Any, /) -> Tensor:
        """z = phi(x)  [B, E]."""

    @property
    def head(self) -> Any:
        """h: a module or method that maps z [B, E] to logits [B, L]."""

    def __call__(self, x: Any, /) -> Tensor:
        """f(x) = h(phi(x))  [B, L]."""

    def modules(self) -> Iterator[nn.Module]: ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]: ...

    def get_submodule(self, target: str) -> nn.Module: ...


@dataclass(frozen=True, eq=False)
class Forward:
    """One pass through a classifier, with its graph: whoever is handed it need not run it again.

    scaler  the torch.amp.GradScaler of a float16 run, which scales the loss before gradients are taken.
    given   the utility [B, *D] that the user brings with this batch.
    """

    x: Input
    z: Tensor  # [B, E]
    logits: Tensor  # [B, L]
    losses: Tensor  # [B]
    scaler: Any = None
    given: Tensor | None = None


def run(
    model: Classifier,
    x: Input,
    y: Tensor,
    loss: ExampleLoss,
    *,
    scaler: Any = None,
    given: Tensor | None = None,
    exact_head: bool = False,
) -> Forward:
    """One forward pass, checked: the batch fits the model and the loss gives one number per example.

    exact_head  the head runs in the precision of the weights under autocast too, for differences of losses.
    """
    check_batch(model, x, y)
    finite = _finite_rows(x) if isinstance(x, Tensor) and x.is_floating_point() else None
    with retainable():
        z = model.embed(x)
        logits: Tensor = _exactly(model, z) if exact_head else model.head(z)
    if logits.device != y.device:
        raise ValueError(f"y is on {y.device}, the logits are on {logits.device}: move y there")
    losses = loss(logits, y)
    if losses.shape != (len(y),):
        raise ValueError(
            f"the loss must give one number per example, [{len(y)}], not {list(losses.shape)}: no reduction"
        )
    if finite is not None:
        losses = losses.where(finite, torch.nan)
    return Forward(x, z, logits, losses, scaler, given)


def _exactly(model: Classifier, z: Tensor) -> Tensor:
    weight = next((p for p in model.parameters() if p.is_floating_point()), z)
    with torch.autocast(z.device.type, enabled=False):
        logits: Tensor = model.head(z.to(weight.dtype))
    return logits


def check_batch(model: Classifier, x: Input, y: Tensor | None = None) -> None:
    """Raise for a batch that the model cannot take. Looks at shapes, kinds and places only, never at values."""
    if not shape_of(x) or shape_of(x)[0] == 0:
        raise ValueError(f"the batch is empty: x has shape {list(shape_of(x))}")
    if y is not None and (y.ndim == 0 or len(y) != len(x)):
        raise ValueError(f"x has {len(x)} examples, y has shape {list(y.shape)}")
    if not hasattr(model, "embed") or not hasattr(model, "head"):
        raise TypeError(f"a {type(model).__name__} has no embed and head: use poise.split(model)")
    check_head = getattr(model, "check_head", None)
    if check_head is not None:
        check_head(x)
    weight = next((p for p in model.parameters() if p.is_floating_point()), None)
    if weight is None:
        return
    if weight.device != device_of(x):
        raise ValueError(f"x is on {device_of(x)}, the model is on {weight.device}: move one of them")
    if isinstance(x, Tensor) and x.is_floating_point() and x.dtype != weight.dtype and not _autocasting(x):
        raise TypeError(f"x is {x.dtype}, the model's weights are {weight.dtype}: convert x, or use torch.autocast")


def _finite_rows(x: Tensor) -> Tensor:
    """[B] which examples are finite. On the CPU one that is not raises; elsewhere, where looking would stall the
    device, its loss becomes NaN: a network that saturates would hide it and give NaN gradients."""
    finite = x.detach().reshape(len(x), -1).isfinite().all(1)
    if x.device.type == "cpu" and not torch.compiler.is_compiling() and not finite.all():
        raise ValueError(f"x has a value that is not finite in example {int((~finite).nonzero()[0])}")
    return finite


def leaf(x: Input) -> Tensor:
    """A tensor with the values of x that gathers a gradient of its own, so that x is left alone."""
    if isinstance(x, Tokens):
        raise TypeError("Tokens have no gradient: use RemovalUtility or RemovalSensitivity")
    if not x.is_floating_point():
        raise TypeError(f"x is {x.dtype}, but a gradient needs floats: convert images with x.float() / 255")
    return (x.clone() if x.is_inference() else x.detach()).requires_grad_()


@contextmanager
def retainable() -> Iterator[None]:
    """A compiled graph that is built inside, and used inside for the first time, may be used again: by default
    torch.compile lets a backward pass overwrite what the forward pass kept. Needed around both."""
    with torch._functorch.config.patch(donated_buffer=False):
        yield


@contextmanager
def gradients() -> Iterator[None]:
    """Gradients flow inside, whatever the caller has switched off."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


@contextmanager
def evaluating(model: Classifier | nn.Module) -> Iterator[None]:
    """The model in eval mode: running statistics, used and left alone; no dropout. Each module's mode comes back."""
    training = [module for module in model.modules() if module.training]
    try:
        for module in training:
            module.training = False
        yield
    finally:
        for module in training:
            module.training = True


@contextmanager
def untracked(model: Classifier) -> Iterator[None]:
    """The model in the mode it is in, with the running statistics of its batch norms left alone."""
    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, nn.modules.batchnorm._NormBase) and module.training and module.track_running_stats:
                module.track_running_stats = False
                stack.callback(setattr, module, "track_running_stats", True)
        yield


def _autocasting(x: Tensor) -> bool:
    return torch.is_autocast_enabled(x.device.type)
