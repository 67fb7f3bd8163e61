"""Which layer is the head: found by its name, its place or a model's own word, and listed where that is in doubt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

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
