"""The interface of classifiers: an embedding phi and a discriminator h, f(x) = h(phi(x)) (section 2.1).

Any nn.Module with `embed` and `head` is a Classifier; `poise.split` makes one of any other model. This module runs
classifiers for the objectives and measures: it checks the batch, finds the logits in the output, and restores every
state that a pass changes.

Axes: B examples, E embedding, L classes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Protocol
from weakref import WeakSet

import torch
import torch._functorch.config
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from poise.losses import CrossEntropy, ExampleLoss, LogitAdjusted, traced
from poise.tokens import Input, Tokens, device_of, shape_of

_RETURN = "it must return its logits: alone, first in a tuple, or under the name 'logits'"


def logits_of(out: Any) -> Tensor:
    """The logits in a model's output: alone, first in a tuple, or under the name 'logits'; else TypeError."""
    if isinstance(out, Tensor):
        return out
    held = _parts(out)
    tensors = {name: part for name, part in held.items() if isinstance(part, Tensor)}
    if "logits" in tensors:
        return tensors["logits"]
    if len(tensors) == 1 or (isinstance(out, tuple | list) and 0 in tensors):
        return next(iter(tensors.values()))
    of = f" of {', '.join(map(str, held))}" if held else ""
    raise TypeError(f"the model returned a {type(out).__name__}{of}: {_RETURN}")


def both_classes(logits: Tensor) -> Tensor:
    """[B, L]. One logit per example, [B, 1] or [B], is the log-odds of class 1; a logit of 0 is added for class 0."""
    if logits.ndim == 1 and logits.is_floating_point():  # integers would be classes
        logits = logits[:, None]
    return F.pad(logits, (1, 0)) if logits.ndim == 2 and logits.shape[1] == 1 else logits


def _parts(out: Any) -> dict[Any, Any]:
    """The parts of an output, by name or by position."""
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


_SQUEEZED = "keep the batch axis even for one example, with flatten(1) instead of squeeze()"


class Classifier(Protocol):
    """f = h(phi): `embed` is phi, `head` is h."""

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
    """One pass through a classifier with its graph, so that a utility need not run the model again.

    scaler  the torch.amp.GradScaler of a float16 run, which scales the loss before gradients are taken.
    given   the utility [B, *D] that the user passes with this batch.
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
    """One forward pass; checks that the batch fits the model and that the loss gives one number per example.

    exact_head  run the head in the precision of the weights even under autocast, for differences of losses.
    """
    check_batch(model, x, y)
    if y is None:
        raise TypeError("y must be a tensor of labels, not None")
    checked = isinstance(loss, CrossEntropy | LogitAdjusted)
    if checked:
        y = _labels(y)
        _check_classes(model, y)
    finite = _finite_rows(x) if isinstance(x, Tensor) and x.is_floating_point() else None
    with retainable():
        z = _embedded(model, x)
        logits: Tensor = _full_precision_head(model, z) if exact_head else model.head(z)
    if logits.device != y.device:
        raise ValueError(f"y is on {y.device}, but the logits are on {logits.device}: move y to that device")
    if logits.ndim == 0 or len(logits) != len(y):
        raise ValueError(f"the model returned logits {list(logits.shape)} for {len(y)} examples: {_SQUEEZED}")
    if checked and y.ndim == 2 and y.shape != both_classes(logits).shape:
        raise ValueError(
            f"y has probabilities {list(y.shape)}, must have the shape of the logits, {list(logits.shape)}"
        )
    losses = loss(logits, y)
    if losses.shape != (len(y),):
        raise ValueError(
            f"loss must return one number per example, [{len(y)}], not {list(losses.shape)}: use reduction='none'"
        )
    if finite is not None:
        losses = losses.where(finite, torch.nan)
    return Forward(x, z, logits, losses, scaler, given)


def _full_precision_head(model: Classifier, z: Tensor) -> Tensor:
    parameters = getattr(model.head, "parameters", model.parameters)()
    weight = next((p for p in parameters if p.is_floating_point()), z)
    with torch.autocast(z.device.type, enabled=False):
        logits: Tensor = model.head(z.to(weight.dtype))
    return logits


def _embedded(model: Classifier, x: Input) -> Tensor:
    """embed(x); raise if x requires a gradient and the model blocks it."""
    try:
        z = model.embed(x)
    except IndexError as error:
        raise unknown_ids(model, x, error) from error
    except RuntimeError as error:
        raise wrong_kind(x, error) from error
    if isinstance(x, Tensor) and x.requires_grad and torch.is_grad_enabled() and not z.requires_grad:
        raise ValueError("the model gives no gradients to x: remove no_grad, inference_mode and detach from it")
    return z


def check_batch(model: Classifier, x: Input, y: Tensor | None = None) -> None:
    """Raise for a batch that the model does not accept. Checks shapes, dtypes and devices, but not values.

    On a model's first batch, also checks that head(embed(x)) equals its output.
    """
    check_model(model)
    check_input(model, x)
    if y is not None and not isinstance(y, Tensor):
        raise TypeError(f"y must be a tensor of labels, not a {_kind_of(y)}: use torch.as_tensor(y)")
    if y is not None and (y.ndim == 0 or len(y) != len(x)):
        raise ValueError(f"y has shape {list(y.shape)}, must have one label for each of the {len(x)} examples of x")
    check_head(model, x)


def check_model(model: Classifier) -> None:
    """TypeError unless the model is an object with embed and head."""
    if isinstance(model, type) or not hasattr(model, "embed") or not hasattr(model, "head"):
        if isinstance(model, type):
            name = model.__name__
            raise TypeError(f"model must be an object, not the class {name}: use poise.split({name}(...))")
        raise TypeError(f"model is a {type(model).__name__} without embed and head: use poise.split(model)")


def check_kind(x: Input) -> None:
    """TypeError unless x is a tensor or Tokens."""
    if not isinstance(x, Tensor | Tokens):
        array = ": use torch.from_numpy(x)" if type(x).__module__ == "numpy" else ""
        raise TypeError(f"x must be a tensor, or poise.Tokens for text, not a {_kind_of(x)}{array}")


def check_input(model: Classifier | nn.Module, x: Input) -> None:
    """Raise for an input of the wrong type, shape, device or dtype."""
    check_kind(x)
    if not shape_of(x) or shape_of(x)[0] == 0:
        raise ValueError(f"x has shape {list(shape_of(x))}, must have at least one example")
    weight = next((p for p in model.parameters() if p.is_floating_point()), None)
    if weight is None:
        return
    if weight.is_meta:
        raise ValueError(
            "the model's weights are on the meta device, without values: load them; or, if accelerate offloaded them, "
            "restore them with accelerate.hooks.remove_hook_from_module(model, recurse=True)"
        )
    if weight.device != device_of(x):
        raise ValueError(f"x is on {device_of(x)}, but the model is on {weight.device}: move one of them")
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.dtype == weight.dtype or _autocasting(x):
        return
    if all(p.dtype != x.dtype for p in model.parameters()):  # a model with several dtypes may cast x itself
        raise TypeError(f"x is {x.dtype}, the model's weights are {weight.dtype}: convert x, or use torch.autocast")


def _kind_of(value: object) -> str:
    module = type(value).__module__.split(".")[0]
    return type(value).__name__ if module == "builtins" else f"{module}.{type(value).__name__}"


def _labels(y: Tensor) -> Tensor:
    """Labels as cross-entropy takes them: classes [B] in any integer dtype, or probabilities [B, L]."""
    whole = not y.is_floating_point()
    if whole and y.ndim == 1:
        return y.long()
    if whole or y.ndim != 2:
        one_hot = whole and y.ndim == 2 and y.shape[1] > 1
        what = "convert one-hot rows with y.argmax(1)" if one_hot else "convert y"
        what = "drop the last axis with y.flatten()" if y.ndim == 2 and y.shape[1] == 1 else what
        raise ValueError(
            f"y is {y.dtype} {list(y.shape)}: labels must be whole numbers [{len(y)}], or probabilities "
            f"[{len(y)}, classes]; {what}"
        )
    return y


def _check_classes(model: Classifier, y: Tensor) -> None:
    """Raise for labels that a linear head does not have, before a pass updates batch-norm statistics.

    On the CPU only; on other devices, and with other heads, the loss checks the labels.
    """
    head = getattr(model, "last_layer", model.head)
    if y.device.type != "cpu" or not isinstance(head, nn.Linear) or traced(y):
        return
    classes = max(head.out_features, 2)
    if y.ndim == 2 and y.shape[1] != classes:
        raise ValueError(f"y has probabilities {list(y.shape)}, but the model has {classes} classes")
    if y.ndim == 1:
        low, high = (int(end) for end in y.aminmax())
        if low < 0 or high >= classes:
            wrong = low if low < 0 else high
            raise ValueError(f"label {wrong} is out of range: the model has {classes} classes")


def wrong_kind(x: Input, error: RuntimeError) -> Exception:
    """The error to raise when a model fails: a clearer one if the dtype of x or a requires_grad is the cause."""
    if isinstance(x, Tensor) and not x.is_floating_point():
        advice = ": convert images with x.float() / 255" if x.dtype == torch.uint8 else ""
        return TypeError(f"x is {x.dtype}, which this model does not accept{advice} ({error})")
    if "change requires_grad flags" in str(error):
        return ValueError(
            "the model sets requires_grad on what it computes from x, so x cannot have a gradient in train mode: use "
            "GradientUtility(own_forward=True), or freeze its first layers, as Wav2Vec2's freeze_feature_encoder() does"
        )
    return error


def as_device(device: torch.device | str) -> torch.device:
    """The device of this name; ValueError if this machine does not have it."""
    if not isinstance(device, str | torch.device | int) or isinstance(device, bool):
        raise TypeError(f"device={device!r} must be a name such as 'cpu' or 'cuda', not a {type(device).__name__}")
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device={device!r} is not available: {str(error).splitlines()[0]}") from None


def unknown_ids(model: Classifier | nn.Module, x: Input, error: IndexError) -> Exception:
    """The error to raise for a failed table lookup: a clearer one if the ids or positions exceed the model's tables."""
    if not isinstance(x, Tokens) or x.ids.device.type != "cpu":
        return error
    tables = [module.num_embeddings for module in model.modules() if isinstance(module, nn.Embedding)]
    known = f"tables of {', '.join(map(str, tables))} rows" if tables else "smaller tables"
    return ValueError(
        f"x has ids from {int(x.ids.min())} to {int(x.ids.max())} at {x.ids.shape[1]} positions, but the model has "
        f"{known} for ids and positions: use the tokenizer of this model"
    )


_checked: WeakSet[nn.Module] = WeakSet()


def check_head(model: Classifier | nn.Module, x: Input) -> None:
    """Check, once per model, that head(embed(x)) equals its output. A model with its own `check_head` checks itself."""
    own = getattr(model, "check_head", None)
    if own is not None:
        own(x)
    elif isinstance(model, nn.Module) and model not in _checked and may_look() and _head_matches(model, x):
        _checked.add(model)


def may_look() -> bool:
    """Whether tensor values may be read: not while a graph is traced or captured, nor under vmap."""
    if torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    return not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())


@contextmanager
def without_side_effects(
    model: Classifier | nn.Module, x: Input, mode: Callable[[Any], AbstractContextManager[None]] | None = None
) -> Iterator[None]:
    """The model in eval mode, or in another `mode`, without gradients. Random states are restored.

    Compiled parts run uncompiled: passes on two examples would trigger a recompilation.
    """
    place = device_of(x)
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng([place] if place.type == "cuda" else []))
        if "torch._dynamo" in sys.modules:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context((mode or evaluating)(model))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.no_grad())
        yield


@contextmanager
def restoring_buffers(model: Classifier | nn.Module) -> Iterator[None]:
    """Restore the model's buffers and the random states afterwards, so that successive passes draw the same numbers."""
    modules = [module for module in model.modules() if not isinstance(module, torch.jit.ScriptModule)]
    owned = [(module._buffers, dict(module._buffers)) for module in modules]
    clones = {id(b): b.clone() for _, own in owned for b in own.values() if b is not None and not is_lazy(b)}
    place = next((p.device for p in model.parameters()), torch.device("cpu"))
    try:
        for buffers, own in owned:
            buffers.update({name: clones.get(id(b), b) for name, b in own.items()})
        with torch.random.fork_rng([place] if place.type == "cuda" else []):
            yield
    finally:
        for buffers, own in owned:
            buffers.update(own)


def _head_matches(model: Any, x: Input) -> bool:
    """Whether head(embed(x)) was compared with the model's output; ValueError if they differ.

    The comparison runs on two examples, or on all if the model does not accept two of them. A model that cannot be
    called as a whole passes if embed and head run.
    """
    with without_side_effects(model, x):
        for some in (x[:2], x):
            whole, made = (_logits_or_none(model, run, some) for run in (model, lambda x: model.head(model.embed(x))))
            if whole is not None and (made is None or not alike(made, whole)):
                raise ValueError(
                    f"head(embed(x)) differs from the output of this {type(model).__name__}: embed must return the "
                    "input of head; or name the last layer, poise.split(model, head=...)"
                )
            if made is not None:
                return True
    return False


def _logits_or_none(model: Any, run: Any, x: Input) -> Tensor | None:
    try:
        with restoring_buffers(model):
            return logits_of(run(x))
    except Exception:  # the real pass will raise the error again
        return None


def alike(made: Tensor, whole: Tensor, precision: torch.dtype = torch.float32) -> bool:
    """Equal up to the rounding of two passes, one of which had this precision."""
    share = 3e-2 if precision in (torch.float16, torch.bfloat16) else 1e-3
    slack = share * whole.float().nan_to_num(0, 0, 0).abs().max().item()
    return made.shape == whole.shape and made.float().allclose(whole.float(), atol=slack, equal_nan=True)


def _finite_rows(x: Tensor) -> Tensor | None:
    """[B] which examples are finite; None if all are known to be.

    On the CPU, raise for one that is not. On other devices, where reading a value would stall the device, the caller
    turns its loss into NaN: a saturated network would hide the error and return NaN gradients.
    """
    host = x.device.type == "cpu" and not torch.compiler.is_compiling()
    if host and x.detach().sum().isfinite():  # one pass over x; a sum that overflows needs the next one
        return None
    finite = x.detach().reshape(len(x), -1).isfinite().all(1)
    if host and not finite.all():
        raise ValueError(f"x must be finite, but example {int((~finite).nonzero()[0])} has a value that is not finite")
    return finite


def leaf(x: Input) -> Tensor:
    """A tensor with the values of x that collects its own gradient; x is left unchanged."""
    check_kind(x)
    if isinstance(x, Tokens):
        raise TypeError(
            "x are Tokens, which have no gradient: use RemovalUtility or RemovalSensitivity, or pass floats"
        )
    if not x.is_floating_point():
        raise TypeError(f"x is {x.dtype}, but a gradient needs floats: convert images with x.float() / 255")
    return (x.clone() if x.is_inference() else x.detach()).requires_grad_()


@contextmanager
def retainable() -> Iterator[None]:
    """Let a compiled graph that is built and first used inside be used again.

    By default, torch.compile lets the backward pass overwrite the buffers of the forward pass. Wrap both passes.
    """
    with torch._functorch.config.patch(donated_buffer=False):
        yield


_BACKWARD_FAULTS = {
    "use_reentrant": "the model uses checkpoints with use_reentrant=True, which block this gradient: set "
    "use_reentrant=False",
    "cudnn RNN backward": "cuDNN's recurrent layers have no backward pass in eval mode: set the objective's "
    'statistics="batch", or run under torch.backends.cudnn.flags(enabled=False)',
}


def gradient_of(total: Tensor, inputs: Sequence[Tensor], retain_graph: bool = False) -> tuple[Tensor | None, ...]:
    """d total / d inputs, None for inputs that total does not depend on; .grad is not changed."""
    try:
        with retainable():
            return torch.autograd.grad(total, inputs, retain_graph=retain_graph, allow_unused=True)
    except RuntimeError as error:
        sentence = next((words for sign, words in _BACKWARD_FAULTS.items() if sign in str(error)), None)
        raise (error if sentence is None else ValueError(sentence)) from None


@contextmanager
def gradients() -> Iterator[None]:
    """Enable gradients, even under no_grad or inference_mode."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


@contextmanager
def evaluating(model: Classifier | nn.Module) -> Iterator[None]:
    """The model in eval mode: running statistics are used but not updated, and dropout is off. Restores each mode."""
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
    """The model in its current mode, without updates of the running statistics of its batch norms."""
    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, nn.modules.batchnorm._NormBase) and module.training and module.track_running_stats:
                module.track_running_stats = False
                stack.callback(setattr, module, "track_running_stats", True)
        yield


def _autocasting(x: Tensor) -> bool:
    return torch.is_autocast_enabled(x.device.type)
