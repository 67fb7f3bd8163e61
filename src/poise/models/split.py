"""split: any classifier as embed + head, without copying or changing it.

    h    the last linear layer or 1x1 convolution, given by its name or found
    phi  the same modules with h taken out: a shell of the modules on the way to h shares everything else

Names are those of `model.named_modules()`: "fc" in torchvision's ResNet, "classifier.6" in its VGG.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from poise.classifier import evaluating
from poise.tokens import Input, Tokens

Call: TypeAlias = Callable[[nn.Module, Any], Any]

_ENDS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda logits: logits.softmax(-1),
    "log_softmax": lambda logits: logits.log_softmax(-1),
    "sigmoid": torch.sigmoid,
}
HEAD_NAMES = ("fc", "classifier", "head", "heads", "score", "linear", "output", "logits", "last_linear", "output_layer")


def call_model(model: nn.Module, x: Input) -> Any:
    """How a model is called: with the tensor, or with input_ids and attention_mask, as Hugging Face names them."""
    if isinstance(x, Tokens):
        return model(input_ids=x.ids, attention_mask=x.mask.long())
    return model(x)


def split(model: nn.Module, head: str | None = None, call: Call = call_model) -> SplitClassifier:
    """See `model` as embed + head. Weights are shared and its state_dict stays as it is.

    head  the name of the layer that makes the logits; None finds it where there is no doubt.
    call  how to run the model on an input, for models with a signature of their own.

    The first `embed` checks on two examples that head(embed(x)) is what the model itself gives.
    """
    if hasattr(model, "_orig_mod"):
        raise ValueError("split the model first and compile its embed after: split.embed = torch.compile(split.embed)")
    return SplitClassifier(model, _find_head(model) if head is None else _known(model, head), call)


class SplitClassifier(nn.Module):
    """embed + head of a model that stays the user's own: `self.model` is that very module."""

    def __init__(self, model: nn.Module, head_name: str, call: Call = call_model) -> None:
        super().__init__()
        self.model = model
        self.head_name = head_name
        self.call = call
        self._checked = False
        self._build()

    @property
    def head(self) -> Callable[[Tensor], Tensor]:
        """The layer itself; a 1x1 convolution, as some networks have it, works on vectors."""
        layer = self.model.get_submodule(self.head_name)
        return (lambda z: layer(z[:, :, None, None]).flatten(1)) if isinstance(layer, nn.Conv2d) else layer

    def embed(self, x: Input) -> Tensor:
        """z: what reaches the head."""
        if not torch.compiler.is_compiling():
            self.check_head(x)
        return self._embed(x)

    def check_head(self, x: Input) -> None:
        """Once: head(embed(x)) is what the model gives. Objectives ask for it too, in case embed is compiled."""
        if not self._checked:
            self._check(x)

    def forward(self, x: Input) -> Tensor:
        return _tensor(self.call(self.model, x))

    def _embed(self, x: Input) -> Tensor:
        if not torch.compiler.is_compiling() and self._children != self._children_now():
            self._build()
        for shell, original in self._shells:
            if shell.training != original.training:
                shell.training = original.training
        return _tensor(self.call(self._shells[0][0], x))

    def _build(self) -> None:
        self._shells = _shells(self.model, self.head_name)
        self._children = self._children_now()

    def _children_now(self) -> list[dict[str, nn.Module | None]]:
        """What the shells were made of: another module in one of these places makes them stale."""
        return [dict(original._modules) for _, original in self._shells]

    @torch.no_grad()
    def _check(self, x: Input) -> None:
        with evaluating(self):
            expected, got = self.forward(x[:2]).float(), self._try(x[:2])
        slack = 1e-3 * expected.nan_to_num(0, 0, 0).abs().max().item()
        if got is None or got.shape != expected.shape or not got.allclose(expected, atol=slack, equal_nan=True):
            raise ValueError(f"{self.head_name!r} is not the model's last layer: {self._why(x[:2], expected)}")
        self._checked = True

    def _why(self, x: Input, expected: Tensor) -> str:
        """What comes after the head, where it is a softmax or the like; else which layers there are."""
        held: list[Tensor] = []
        whole: list[Any] = []
        head = self.model.get_submodule(self.head_name)
        with (
            head.register_forward_hook(lambda *passed: held.append(passed[2])),
            self.model.register_forward_hook(lambda *passed: whole.append(passed[2])),
            evaluating(self),
        ):
            self.forward(x)
        for name, after in _ENDS.items():
            if held and held[-1].shape == expected.shape and after(held[-1].float()).allclose(expected, atol=1e-4):
                return f"the model takes the {name} of what it gives. Let the model return its logits, without {name}"
        if whole and isinstance(whole[-1], tuple | list):
            return (
                "what it gives is not the first of what the model gives. Let the model return its logits, or them first"
            )
        if {*_layers(self.model, _is_linear), *_layers(self.model, _is_pointwise)} == {self.head_name}:
            return (
                "more comes after it. Give the model methods embed and head, of which head(embed(x)) is what it gives"
            )
        return f"what it gives is not what the model gives. {_candidates(self.model)}"

    def _try(self, x: Input) -> Tensor | None:
        """head(embed(x)); None where the shapes of a wrong head do not fit."""
        try:
            out: Tensor = self.head(self._embed(x))
        except RuntimeError:
            return None
        return out.float()


def _shells(model: nn.Module, head_name: str) -> list[tuple[nn.Module, nn.Module]]:
    """(shell, original) for every module on the way to the head, the model first; the head's place is empty.

    A shell has its own table of children and shares its original's parameters and buffers, also when they move.
    """
    pairs = []
    original, parent = model, None
    *way, last = head_name.split(".")
    for name in [*way, last]:
        shell = copy(original)
        shell._modules = dict(original._modules)
        if parent is not None:
            parent[0]._modules[parent[1]] = shell
        pairs.append((shell, original))
        parent = (shell, name)
        original = original.get_submodule(name)
    pairs[-1][0]._modules[last] = nn.Identity()
    return pairs


def _find_head(model: nn.Module) -> str:
    """timm's own word; or the last linear layer under a well-known name or at a Sequential's end; or the only one.

    Where there is none, the same of 1x1 convolutions."""
    get_classifier = getattr(model, "get_classifier", None)
    if callable(get_classifier):
        return _name_of(model, get_classifier())
    named = [name for name, _ in model.named_children() if name in HEAD_NAMES]
    if isinstance(model, nn.Sequential):
        named = [name for name, child in model.named_children() if [*child.parameters()]][-1:]
    linear, pointwise = _layers(model, _is_linear), _layers(model, _is_pointwise)
    for layers in (linear, pointwise):
        inside = [name for name in layers if len(named) == 1 and (name + ".").startswith(named[0] + ".")]
        if inside:
            return inside[-1]
    only = list(linear or pointwise)
    if not named and len(only) == 1:
        return only[0]
    raise ValueError(f"no layer is clearly the head of this {type(model).__name__}. {_candidates(model)}")


def _name_of(model: nn.Module, module: Any) -> str:
    for name, candidate in model.named_modules():
        if candidate is module and name:
            return str(name)
    raise ValueError(f"get_classifier() gave no layer of this {type(model).__name__}. {_candidates(model)}")


def _known(model: nn.Module, head: str) -> str:
    if head not in dict(model.named_modules()) or not head:
        raise ValueError(f"this {type(model).__name__} has no layer {head!r}. {_candidates(model)}")
    return head


def _layers(model: nn.Module, kind: Callable[[nn.Module], bool]) -> dict[str, Any]:
    return {name: module for name, module in model.named_modules() if kind(module) and name}


def _is_linear(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear)


def _is_pointwise(module: nn.Module) -> bool:
    """A 1x1 convolution: a linear layer at every place, which goes through a mean over places."""
    return isinstance(module, nn.Conv2d) and module.kernel_size == (1, 1) and module.stride == (1, 1)


def _candidates(model: nn.Module) -> str:
    linear, pointwise = _layers(model, _is_linear), _layers(model, _is_pointwise)
    rows = [f"{name} ({layer.in_features} → {layer.out_features})" for name, layer in linear.items()]
    if not rows:
        rows = [f"{name} (1x1, {layer.in_channels} → {layer.out_channels})" for name, layer in pointwise.items()]
    return f"Linear layers, last ones first: {', '.join(rows[::-1][:8]) or 'none'}. Name one: split(model, head=...)"


def _tensor(output: Any) -> Tensor:
    """The logits of a model's output: itself, its .logits (Hugging Face), or the first of a tuple."""
    found = getattr(output, "logits", output)
    found = found[0] if isinstance(found, tuple) else found
    if not isinstance(found, Tensor):
        raise TypeError(f"the model gave a {type(output).__name__}; pass split(..., call=...) that returns its logits")
    return found
