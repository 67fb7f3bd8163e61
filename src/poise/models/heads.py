"""The head of a model: find it, and check what the model computes after it.

    logits = T(h(z)),   and   T(h(z)) = h(T(z)) for every h that training can produce

A cast, a reshape, selecting a position and a mean over positions are such T. A temperature or a soft cap is not, even
if its effect is small at first: T must be the identity bit by bit, or else linear with T(1) = 1 and without learned
parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from poise.classifier import logits_of
from poise.tokens import Input

HEAD_NAMES = ("fc", "classifier", "head", "heads", "score", "linear", "output", "logits", "last_linear", "output_layer")
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def find_head(model: nn.Module) -> str:
    """The name of the head. Choose the first that applies:

    1. what timm's `get_classifier()` returns;
    2. the last linear layer under a well-known name, or at the end of a Sequential;
    3. the only linear layer;
    4. the head of the only child module.

    If there is no Linear layer, look for 1x1 convolutions in the same way.
    """
    get_classifier = getattr(model, "get_classifier", None)
    if callable(get_classifier):
        return _name_of(model, get_classifier())
    named = [name for name, _ in model.named_children() if name in HEAD_NAMES]
    if isinstance(model, nn.Sequential):
        named = [name for name, child in model.named_children() if [*child.parameters()]][-1:]
    linear, pointwise = layers_of(model, _is_linear), layers_of(model, _is_pointwise)
    for layers in (linear, pointwise):
        inside = [name for name in layers if len(named) == 1 and (name + ".").startswith(named[0] + ".")]
        if inside:
            return inside[-1]
    only = list(linear or pointwise)
    if not named and len(only) == 1:
        return only[0]
    children = [name for name, child in model.named_children() if [*child.parameters()]]
    if not named and len(children) == 1 and only:
        return f"{children[0]}.{find_head(model.get_submodule(children[0]))}"
    raise ValueError(f"no layer is clearly the head of this {type(model).__name__}. {head_candidates(model)}")


def _name_of(model: nn.Module, module: Any) -> str:
    for name, candidate in model.named_modules():
        if candidate is module and name:
            return str(name)
    raise ValueError(
        f"get_classifier() did not return a layer of this {type(model).__name__}. {head_candidates(model)}"
    )


def known_head(model: nn.Module, head: str) -> str:
    if head not in dict(model.named_modules()) or not head:
        raise ValueError(f"this {type(model).__name__} has no layer {head!r}. {head_candidates(model)}")
    return head


def layers_of(model: nn.Module, kind: Callable[[nn.Module], bool]) -> dict[str, Any]:
    """The layers of a kind, by name. An adapter counts as one layer; the layers inside it are left out."""
    found = {name: module for name, module in model.named_modules() if kind(module) and name}
    adapters = tuple(f"{name}." for name, module in found.items() if inner_layer(module) is not module)
    return {name: module for name, module in found.items() if not name.startswith(adapters)}


def inner_layer(module: nn.Module) -> Any:
    """The layer that an adapter of peft wraps; any other module itself."""
    return getattr(module, "base_layer", module)


def _is_linear(module: nn.Module) -> bool:
    return isinstance(inner_layer(module), nn.Linear)


def _is_pointwise(module: nn.Module) -> bool:
    """A 1x1 convolution: a linear layer at every position, which commutes with a mean over positions."""
    return isinstance(module, CONVOLUTIONS) and {*module.kernel_size, *module.stride} == {1}


def head_candidates(model: nn.Module) -> str:
    linear, pointwise = layers_of(model, _is_linear), layers_of(model, _is_pointwise)
    plain = {name: inner_layer(layer) for name, layer in linear.items()}
    rows = [f"{name} ({layer.in_features} → {layer.out_features})" for name, layer in plain.items()]
    if not rows:
        rows = [f"{name} (1x1, {layer.in_channels} → {layer.out_channels})" for name, layer in pointwise.items()]
    if not rows:
        return "It has no Linear layer: name the module that returns the logits, with head=NAME"
    advice = "Name one of them, or the module that returns the logits, with head=NAME"
    return f"Linear layers, last ones first: {', '.join(rows[::-1][:8])}. {advice}"


def called_head(run: Run, model: nn.Module, x: Input) -> str:
    """The name of the layer whose output the model returns for x, found by passes with each layer, the last one first.

    ValueError with the reason if there is none, as in an ensemble.
    """
    reasons = []
    for name, layer in reversed(_all_layers(model).items()):
        reason = why_not_last(run, model, inner_layer(layer), x, observed(run, inner_layer(layer), x))
        if not reason:
            return name
        reasons += [] if reason.startswith(_NOT_CALLED) else [f": {name!r} is not its last layer: {reason}"]
    why = reasons[0] if reasons else f". {head_candidates(model)}"
    raise ValueError(f"no layer is clearly the head of this {type(model).__name__}{why}")


def layers(model: nn.Module) -> list[Any]:
    """All layers that could be a head."""
    return [inner_layer(layer) for layer in _all_layers(model).values()]


def _all_layers(model: nn.Module) -> dict[str, Any]:
    return {**layers_of(model, _is_pointwise), **layers_of(model, _is_linear)}


_NOT_CALLED = "the model does not call it"
_ENDS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda logits: logits.softmax(-1),
    "log_softmax": lambda logits: logits.log_softmax(-1),
    "sigmoid": torch.sigmoid,
}
Run = Callable[[Input], Any]


@dataclass(frozen=True, eq=False)
class Pass:
    """One pass through a model, with the outputs of its head.

    learned  parameters that reach the logits without going through the head.
    used     whether the logits depend on the head's output.
    """

    outputs: list[Tensor]
    whole: Any
    learned: list[Tensor]
    used: bool

    @property
    def logits(self) -> Tensor:
        return logits_of(self.whole).detach()


def observed(run: Run, head: nn.Module, x: Input, change: Callable[[Tensor], Tensor] = torch.clone) -> Pass:
    """Run the model and record the head's outputs; `change` replaces each of them on the way."""
    outputs: list[Tensor] = []
    leaves: list[Tensor] = []

    def hook(module: nn.Module, given: Any, output: Any) -> Any:
        if not isinstance(output, Tensor):
            return output
        outputs.append(output.detach().clone())
        leaves.append(change(output.detach()).requires_grad_(output.is_floating_point()))
        return leaves[-1].clone()  # the model may change it in place

    with torch.enable_grad(), head.register_forward_hook(hook):
        whole = run(x.clone())  # clone, in case x is an inference tensor
    found = _behind(logits_of(whole))
    learned = [leaf for leaf in found if not any(leaf is own for own in leaves)]
    return Pass(outputs, whole, learned, len(learned) < len(found))


def _behind(logits: Tensor) -> list[Tensor]:
    """The leaves of the graph of the logits."""
    found: list[Tensor] = []
    left, seen = [logits.grad_fn], set()
    while left:
        node = left.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            found.append(variable)
        left += [following for following, _ in node.next_functions]
    return found


def why_not_last(run: Run, model: nn.Module, head: nn.Module, x: Input, first: Pass) -> str:
    """Why the head is not the last layer, as the end of a sentence; "" if it is."""
    if not first.outputs:
        return f"{_NOT_CALLED}. Call it in forward instead of using its weight, or name the layer that forward calls"
    for name, after in _ENDS.items():
        last = first.outputs[-1].float()
        if last.shape == first.logits.shape and after(last).allclose(first.logits.float(), atol=1e-4):
            return f"the model applies {name} to its output. Let the model return its logits, without {name}"
    names = [name for name, p in model.named_parameters() if any(p is other for other in first.learned)]
    if any(layer.weight is p for layer in layers(model) for p in first.learned):
        return f"the model's output also comes from other layers. {head_candidates(model)}"
    if first.learned and not first.used:
        return "its output is not the first output of the model. Let the model return its logits alone or first"
    if first.learned:
        what = repr(names[0]) if names else "a parameter"
        return f"the model applies {what}, which is learned, after it. {OWN}"
    if not _identical(first) and not _linear(run, head, x, first):
        return f"the model changes its output. {OWN}"
    return ""


OWN = "Give the model methods embed and head such that head(embed(x)) equals its output"


def _identical(first: Pass) -> bool:
    """Whether the model returns the head's output bit by bit, in any shape or dtype."""
    (output, *others), logits = first.outputs, first.logits
    if others or output.numel() != logits.numel():
        return False
    output = output.to(logits.dtype).reshape(logits.shape)
    return bool(((output == logits) | (output.isnan() & logits.isnan())).all())


def _linear(run: Run, head: nn.Module, x: Input, first: Pass) -> bool:
    """Whether T(-256 h) = -256 T(h) and T(1) = 1: true for a mean, false for a sum, a soft cap or a maximum."""
    scaled = observed(run, head, x, lambda output: -256 * output).logits.double()
    ones = observed(run, head, x, torch.ones_like).logits.double()
    expected = -256 * first.logits.double()
    slack = 1e-5 if first.logits.dtype in (torch.float32, torch.float64) else 1e-2
    near = scaled.allclose(
        expected, rtol=0, atol=slack * expected.nan_to_num(0, 0, 0).abs().max().item(), equal_nan=True
    )
    return near and ones.allclose(torch.ones_like(ones), rtol=0, atol=slack)
