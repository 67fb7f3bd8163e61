"""What comes after the head of a model: nothing, or what a linear layer may change places with.

    logits = T(h(z)),   and   T(h(z)) = h(T(z)) for every h that training may make of it

A cast, another shape, the choice of a place, a mean over places are such T. A temperature or a soft cap is none, though
it may be near one at first: T must be the identity bit by bit, or else linear with T(1) = 1, and nothing learned.

Which layer is the head: found by its name, its place or a model's own word, and listed where that is in doubt.
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
    """timm's own word; or the last linear layer under a well-known name or at a Sequential's end; or the only one; or
    what is found in the one module that all else is in. Where there is none, the same of 1x1 convolutions."""
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
    raise ValueError(f"no layer is clearly the head of this {type(model).__name__}. {candidates(model)}")


def _name_of(model: nn.Module, module: Any) -> str:
    for name, candidate in model.named_modules():
        if candidate is module and name:
            return str(name)
    raise ValueError(f"get_classifier() gave no layer of this {type(model).__name__}. {candidates(model)}")


def known_head(model: nn.Module, head: str) -> str:
    if head not in dict(model.named_modules()) or not head:
        raise ValueError(f"this {type(model).__name__} has no layer {head!r}. {candidates(model)}")
    return head


def layers_of(model: nn.Module, kind: Callable[[nn.Module], bool]) -> dict[str, Any]:
    """Of an adapter the whole alone, not the layers that it adds up."""
    found = {name: module for name, module in model.named_modules() if kind(module) and name}
    adapters = tuple(f"{name}." for name, module in found.items() if inner_layer(module) is not module)
    return {name: module for name, module in found.items() if not name.startswith(adapters)}


def inner_layer(module: nn.Module) -> Any:
    """The layer that an adapter of peft stands around; any other module is its own."""
    return getattr(module, "base_layer", module)


def _is_linear(module: nn.Module) -> bool:
    return isinstance(inner_layer(module), nn.Linear)


def _is_pointwise(module: nn.Module) -> bool:
    """A 1x1 convolution: a linear layer at every place, which goes through a mean over places."""
    return isinstance(module, CONVOLUTIONS) and {*module.kernel_size, *module.stride} == {1}


def candidates(model: nn.Module) -> str:
    linear, pointwise = layers_of(model, _is_linear), layers_of(model, _is_pointwise)
    plain = {name: inner_layer(layer) for name, layer in linear.items()}
    rows = [f"{name} ({layer.in_features} → {layer.out_features})" for name, layer in plain.items()]
    if not rows:
        rows = [f"{name} (1x1, {layer.in_channels} → {layer.out_channels})" for name, layer in pointwise.items()]
    if not rows:
        return "It has no linear layer: name the module that makes its logits, split(model, head=...)"
    advice = "Name one, or the module that makes the logits: split(model, head=...)"
    return f"Linear layers, last ones first: {', '.join(rows[::-1][:8])}. {advice}"


def layers(model: nn.Module) -> list[Any]:
    """All that could be a head."""
    found = {**layers_of(model, _is_linear), **layers_of(model, _is_pointwise)}
    return [inner_layer(layer) for layer in found.values()]


_ENDS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda logits: logits.softmax(-1),
    "log_softmax": lambda logits: logits.log_softmax(-1),
    "sigmoid": torch.sigmoid,
}
Run = Callable[[Input], Any]


@dataclass(frozen=True, eq=False)
class Pass:
    """One pass through a model, with what its head gave.

    learned  parameters that the logits get other than through the head.
    used     the logits come from what the head gave.
    """

    outputs: list[Tensor]
    whole: Any
    learned: list[Tensor]
    used: bool

    @property
    def logits(self) -> Tensor:
        return logits_of(self.whole).detach()


def observed(run: Run, head: nn.Module, x: Input, change: Callable[[Tensor], Tensor] = torch.clone) -> Pass:
    """Run the model, with what its head gives changed on the way."""
    outputs: list[Tensor] = []
    leaves: list[Tensor] = []

    def hook(module: nn.Module, given: Any, output: Any) -> Any:
        if not isinstance(output, Tensor):
            return output
        outputs.append(output.detach().clone())
        leaves.append(change(output.detach()).requires_grad_(output.is_floating_point()))
        return leaves[-1].clone()  # which the model may change in place

    with torch.enable_grad(), head.register_forward_hook(hook):
        whole = run(x.clone())  # no inference tensor
    found = _behind(logits_of(whole))
    learned = [leaf for leaf in found if not any(leaf is own for own in leaves)]
    return Pass(outputs, whole, learned, len(learned) < len(found))


def _behind(logits: Tensor) -> list[Tensor]:
    """The leaves of its graph."""
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


def fault(run: Run, model: nn.Module, head: nn.Module, x: Input, first: Pass) -> str:
    """What is wrong with what comes after the head, as the end of a sentence; "" where nothing is."""
    if not first.outputs:
        return (
            "the model does not call it. Let its forward call the layer, not use its weight; or name the layer "
            "that it calls"
        )
    for name, after in _ENDS.items():
        last = first.outputs[-1].float()
        if last.shape == first.logits.shape and after(last).allclose(first.logits.float(), atol=1e-4):
            return f"the model takes the {name} of what it gives. Let the model return its logits, without {name}"
    names = [name for name, p in model.named_parameters() if any(p is other for other in first.learned)]
    if any(layer.weight is p for layer in layers(model) for p in first.learned):
        return f"what it gives is not what the model gives. {candidates(model)}"
    if first.learned and not first.used:
        return "what it gives is not the first of what the model gives. Let the model return its logits, or them first"
    if first.learned:
        what = repr(names[0]) if names else "something"
        return f"{what} is learned and comes after it. {OWN}"
    if not _identical(first) and not _linear(run, head, x, first):
        return f"more comes after it. {OWN}"
    return ""


OWN = "Give the model methods embed and head, of which head(embed(x)) is what it gives"


def _identical(first: Pass) -> bool:
    """The head's output is what the model gives, bit by bit, in another shape or kind."""
    (output, *others), logits = first.outputs, first.logits
    if others or output.numel() != logits.numel():
        return False
    output = output.to(logits.dtype).reshape(logits.shape)
    return bool(((output == logits) | (output.isnan() & logits.isnan())).all())


def _linear(run: Run, head: nn.Module, x: Input, first: Pass) -> bool:
    """T(-256 h) = -256 T(h) and T(1) = 1: what a mean keeps, and a sum, a soft cap or a maximum does not."""
    scaled = observed(run, head, x, lambda output: -256 * output).logits.double()
    ones = observed(run, head, x, torch.ones_like).logits.double()
    expected = -256 * first.logits.double()
    slack = 1e-5 if first.logits.dtype in (torch.float32, torch.float64) else 1e-2
    near = scaled.allclose(
        expected, rtol=0, atol=slack * expected.nan_to_num(0, 0, 0).abs().max().item(), equal_nan=True
    )
    return near and ones.allclose(torch.ones_like(ones), rtol=0, atol=slack)
