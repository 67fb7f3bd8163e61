"""What comes after the head of a model: nothing, or what a linear layer may change places with.

    logits = T(h(z)),   and   T(h(z)) = h(T(z)) for every h that training may make of it

A cast, another shape, the choice of a place, a mean over places are such T. A temperature or a soft cap is none, though
it may be near one at first: T must be the identity bit by bit, or else linear with T(1) = 1, and nothing learned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from poise.models.heads import candidates, layers
from poise.outputs import logits_of
from poise.tokens import Input

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
