"""Adapters that present any classifier as embed + head.

They cover models that are compiled, change their input in place, return logits in a dict, have one logit for two
classes, or have weights of half or double precision; scripted models need methods `embed` and `head`. `Normalized` and
`Unscaled` adapt the scale of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from poise.classifier import Classifier, both_classes, evaluating, logits_of, restoring_buffers, without_side_effects
from poise.models.heads import called_head, layers
from poise.models.resnet import Normalize
from poise.models.split import call_model, split
from poise.tokens import Input, Tokens

_FEW = 8
_SMOOTH = (
    "remove no_grad, inference_mode, detach and numpy, and replace steps without a slope, such as round, argmax, "
    "comparisons and integers"
)


def as_classifier(model: nn.Module, head: str | None) -> nn.Module:
    """The model's own embed and head if it has them, else those of `split`; `head` names its last layer.

    A model with weights of half or double precision is copied to float32.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, since an audit needs its gradients; got {_kind(model)}")
    if head is not None and not isinstance(head, str):
        raise TypeError(f"head={head!r} must be the name of a layer, not a {type(head).__name__}")
    model = getattr(model, "_orig_mod", model)  # of torch.compile: an audit needs the modules
    model = _to_float32(model) if precision_note(model) else model
    if _has_embed_and_head(model) and (head is None or head not in dict(model.named_modules())):
        return WithOwnHead(model)
    if isinstance(model, torch.jit.ScriptModule):
        raise ValueError(
            "a scripted model (torch.jit) hides its layers: audit the original Python model, or script a model with "
            "methods embed and head"
        )
    try:
        found = split(model, head, call=_logits)
    except ValueError:
        if head is not None or not layers(model):
            raise
        return WithCalledHead(model)
    layer = model.get_submodule(found.head_name)
    single = getattr(layer, "out_features", None) == 1 or getattr(layer, "out_channels", None) == 1
    return OneLogit(found) if single else found


def _kind(model: object) -> str:
    home = type(model).__module__.partition(".")[0]
    return type(model).__name__ if home == "builtins" else f"{home}.{type(model).__name__}"


def precision_note(model: nn.Module) -> str:
    """A note on weights that are not float32; "" if all are."""
    kinds = {str(p.dtype).removeprefix("torch.") for p in model.parameters() if p.is_floating_point()} - {"float32"}
    return f"the model's weights are {' and '.join(sorted(kinds))}: it was audited in float32" if kinds else ""


def _to_float32(model: nn.Module) -> nn.Module:
    """A copy in float32; in half precision, rounding would dominate the measurements."""
    try:
        return deepcopy(model).float()
    except Exception:  # any error of a model that cannot be copied
        raise ValueError(
            "the model's weights are not float32, and it cannot be copied: convert it with model.float()"
        ) from None


def _has_embed_and_head(model: nn.Module) -> bool:
    """Whether the model has embed and head; an nn.Embedding named embed does not count, since it maps single words."""
    embed = getattr(model, "embed", None)
    return callable(embed) and not isinstance(embed, nn.Embedding) and hasattr(model, "head")


def require_gradients(model: Classifier, x: Input) -> None:
    """Raise ValueError unless the logits have a gradient; a constant model passes."""
    if not isinstance(x, Tensor):
        return
    held = x[:_FEW].detach().clone().requires_grad_()
    try:
        with evaluating(model), torch.enable_grad():
            logits = model.head(model.embed(held))
    except RuntimeError as error:
        raise (ValueError(f"the model gives no gradients: {_SMOOTH}") if "numpy()" in str(error) else error) from None
    total = logits.float().square().sum()
    slope = torch.autograd.grad(total, held, allow_unused=True)[0] if total.requires_grad else None
    if slope is None:
        raise ValueError(f"the model gives no gradients: {_SMOOTH}")
    if not slope.any() and not torch.equal(logits, logits[:1].expand_as(logits)):
        raise ValueError(f"the model's gradient is 0 for all examples, although its answers differ: {_SMOOTH}")


def _logits(model: nn.Module, x: Input) -> Any:
    """The logits [B, L], also of a model that returns one logit per example as [B]."""
    try:
        out = logits_of(run_on_copy(lambda held: call_model(model, held), x))
    except TypeError as error:
        if isinstance(x, Tokens) and "unexpected keyword argument" in str(error):
            raise TypeError(f"{error}: text models are called as model(input_ids=..., attention_mask=...)") from None
        raise
    return out[:, None] if out.ndim == 1 else out


def run_on_copy(run: Callable[[Any], Any], x: Any) -> Any:
    """run(x) on a copy of x, since a model may change its input in place; raise ValueError if autograd misses this."""
    held = x.clone()
    out = run(held)
    if isinstance(held, Tensor) and held.requires_grad and held.grad_fn is not None:
        unseen = held.grad_fn.name() == "CloneBackward0" and not torch.equal(held.detach(), x.detach())
        if unseen:
            raise ValueError(
                "the model changes its input in place under no_grad or by .data, which autograd does not record: let "
                "it create a new tensor"
            )
    return out


class WithCalledHead(nn.Module):
    """A classifier whose head is found when it gets its first examples: the layer whose output it returns for them."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self._found: tuple[nn.Module, ...] = ()  # a tuple keeps nn.Module from registering it twice

    def check_head(self, x: Any) -> None:
        """Find the head."""
        if not self._found:
            with without_side_effects(self.inner, x):
                name = called_head(self._run, self.inner, x[:2])
            self._found = (as_classifier(self.inner, name),)

    def head(self, z: Tensor) -> Tensor:
        found: Any = self._found[0]
        logits: Tensor = found.head(z)
        return logits

    def embed(self, x: Any) -> Tensor:
        self.check_head(x)
        found: Any = self._found[0]
        z: Tensor = found.embed(x)
        return z

    def forward(self, x: Any) -> Tensor:
        return self.head(self.embed(x))

    def _run(self, x: Any) -> Any:
        with restoring_buffers(self.inner):
            return _logits(self.inner, x)


class WithOwnHead(nn.Module):
    """A classifier with its own embed and head. It gets copies of x; head(embed(x)) must equal its output."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner: Any = inner
        self._checked = False

    def head(self, z: Tensor) -> Tensor:
        return both_classes(logits_of(self.inner.head(z.clone())))

    def embed(self, x: Any) -> Tensor:
        self.check_head(x)
        z: Tensor = run_on_copy(self.inner.embed, x)
        return z

    def check_head(self, x: Any) -> None:
        if not self._checked:
            self._check(x[:2])

    def forward(self, x: Any) -> Tensor:
        return both_classes(logits_of(run_on_copy(self.inner, x)))

    def get_submodule(self, target: str) -> nn.Module:
        """Find a layer by its name in the user's model."""
        found: nn.Module = self.inner.get_submodule(target)
        return found

    @torch.no_grad()
    def _check(self, x: Any) -> None:
        with evaluating(self):
            got = self._try(x)
            try:
                whole = self(x).float()
            except NotImplementedError:  # the model has no forward
                whole = got = self.head(run_on_copy(self.inner.embed, x)).float()
        slack = 1e-3 * whole.nan_to_num(0, 0, 0).abs().max().item()
        if got is None or got.shape != whole.shape or not got.allclose(whole, atol=slack, equal_nan=True):
            name = type(self.inner).__name__
            raise ValueError(
                f"head(embed(x)) differs from the output of this {name}: its embed must return the input of its head. "
                "Otherwise name its last layer, with head=NAME"
            )
        self._checked = True

    def _try(self, x: Any) -> Tensor | None:
        """head(embed(x)); None if their shapes do not match."""
        try:
            return self.head(run_on_copy(self.inner.embed, x)).float()
        except RuntimeError:
            return None


class OneLogit(nn.Module):
    """A classifier with two logits, around one that returns the logit z of class 1: (0, z) has the same odds."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner: Any = inner

    def head(self, z: Tensor) -> Tensor:
        return both_classes(self.inner.head(z))

    def embed(self, x: Any) -> Tensor:
        z: Tensor = self.inner.embed(x)
        return z

    def forward(self, x: Any) -> Tensor:
        return self.head(self.embed(x))


class Normalized(nn.Module):
    """A classifier for images in [0, 1], around one that expects normalized images."""

    def __init__(self, inner: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.normalize = Normalize(mean, std)
        self.inner: Any = inner

    @property
    def head(self) -> Callable[[Tensor], Tensor]:
        found: Callable[[Tensor], Tensor] = self.inner.head
        return found

    def embed(self, x: Tensor) -> Tensor:
        z: Tensor = self.inner.embed(self.normalize(x))
        return z

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.inner(self.normalize(x))
        return logits


class Unscaled(nn.Module):
    """A classifier for a standardized table, around one that expects the original columns; mean, deviation [F]."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, inner: nn.Module, mean: Tensor, deviation: Tensor) -> None:
        super().__init__()
        self.inner: Any = inner
        self.register_buffer("mean", mean, persistent=False)
        self.register_buffer("deviation", deviation, persistent=False)

    @property
    def head(self) -> Callable[[Tensor], Tensor]:
        found: Callable[[Tensor], Tensor] = self.inner.head
        return found

    def embed(self, x: Tensor) -> Tensor:
        z: Tensor = self.inner.embed(x * self.deviation + self.mean)
        return z

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.inner(x * self.deviation + self.mean)
        return logits
