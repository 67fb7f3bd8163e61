"""split: any classifier as embed + head, without copying or changing it.

    h    the last linear layer or 1x1 convolution, given by its name or found
    phi  the same modules with h left out, by shells that share everything else with the modules on the way to h

Names are those of `model.named_modules()`: "fc" in torchvision's ResNet, "classifier.6" in its VGG.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import signature
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from poise.choices import require_part
from poise.classifier import alike, apart, check_input, may_look, unknown_ids, unnoticed, wrong_kind
from poise.models.ending import OWN, Pass, fault, observed
from poise.models.heads import CONVOLUTIONS, find_head, known_head
from poise.models.shells import is_compiled, shell_of, way_of
from poise.outputs import logits_of
from poise.tokens import Input, Tokens

Call: TypeAlias = Callable[[nn.Module, Any], Any]


def call_model(model: nn.Module, x: Input) -> Any:
    """How a model is called: with the tensor, or with input_ids and attention_mask, as Hugging Face names them."""
    if isinstance(x, Tokens):
        return model(input_ids=_ids(model, x), attention_mask=x.mask.long(), **_positions(model, x))
    return model(x)


def _ids(model: nn.Module, x: Tokens) -> Tensor:
    """The ids of x. RoBERTa and its kin count positions by the ids that are not padding: there a hidden token, which
    the attention mask keeps from all others, must have another id, or all later tokens would move."""
    if x.gaps is None:
        return x.ids
    for module in model.modules():
        padding = getattr(module, "padding_idx", None)
        if isinstance(padding, int) and isinstance(getattr(module, "position_embeddings", None), nn.Module):
            return x.ids.masked_fill(x.gaps, 0 if padding else 1)
    return x.ids


def _positions(model: nn.Module, x: Tokens) -> dict[str, Tensor]:
    """OPT counts positions by the attention mask, so that it must be told those of a sentence with hidden tokens."""
    if x.gaps is None or not any(_counts_by_mask(type(module)) for module in model.modules()):  # type: ignore[arg-type]
        return {}
    standing = (x.mask | x.gaps).long()
    return {"position_ids": standing.cumsum(1) * standing - 1}


@cache
def _counts_by_mask(kind: Any) -> bool:
    if not issubclass(kind, nn.Embedding):
        return False
    return {"attention_mask", "position_ids"} <= signature(kind.forward).parameters.keys()


def split(model: nn.Module, head: str | None = None, call: Call = call_model) -> SplitClassifier:
    """See `model` as embed + head. Weights are shared, its state_dict stays as it is, and embed runs the model's own
    code on its own attributes: what is set later is seen, and what forward writes is there.

    head  the name of the layer that makes the logits; None finds it where there is no doubt.
    call  how to run the model on an input, for models with a signature of their own.

    The first `embed` checks on two examples that head(embed(x)) is what the model itself gives, and that training
    cannot change this: a temperature or a soft cap after the head is refused. A compiled part that holds the head runs
    as it was before it was compiled, others as they are: compile embed, split.embed = torch.compile(split.embed).
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"the model is a {type(model).__name__}: it must be a torch.nn.Module")
    require_part("call", call)
    if is_compiled(model):
        raise ValueError("split the model first and compile its embed after: split.embed = torch.compile(split.embed)")
    if isinstance(model, torch.jit.ScriptModule):
        raise ValueError("a model of torch.jit hides its layers: split the Python model that it was made from")
    return SplitClassifier(model, find_head(model) if head is None else known_head(model, head), call)


class SplitClassifier(nn.Module):
    """embed + head of a model that stays the user's own: `self.model` is that very module."""

    def __init__(self, model: nn.Module, head_name: str, call: Call = call_model) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"the model is a {type(model).__name__}: it must be a torch.nn.Module")
        super().__init__()
        self.model = model
        self.head_name = known_head(model, head_name)
        self.call = call
        self._left = self._asked = 0
        self._build()

    @property
    def head(self) -> Callable[[Tensor], Tensor]:
        """The layer itself; a 1x1 convolution, as some networks have it, works on vectors."""
        layer = self.model.get_submodule(self.head_name)
        if not isinstance(layer, CONVOLUTIONS):
            return layer
        places = [None] * len(layer.kernel_size)
        return lambda z: layer(z[:, :, *places]).flatten(1)

    def embed(self, x: Input) -> Tensor:
        """z: what reaches the head."""
        if not torch.compiler.is_compiling():
            self.check_head(x)
        return self._embed(x)

    def check_head(self, x: Input) -> None:
        """Once: head(embed(x)) is what the model gives. Objectives ask for it too, in case embed is compiled.

        It is looked at again when a module on the way to the head is another one; and at the 2nd, 4th, 8th ... time, in
        case the model does something else by then."""
        if self._way != way_of(self.model, self.head_name.split(".")):
            self._build()
        if self._left == 0 and may_look():
            check_input(self, x)
            self._check(x)
            self._asked = self._left = 2 * self._asked or 1
        self._left -= self._left > 0

    def forward(self, x: Input) -> Tensor:
        return _with_classes(_logits(self.call(self.model, x)))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_shell", "_way")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._build()

    def _build(self) -> None:
        way = self.head_name.split(".")
        # In a tuple, or it would be a part of this module.
        self._shell = (shell_of(self.model, way),)
        self._way = way_of(self.model, way)
        self._left = self._asked = 0

    def _embed(self, x: Input) -> Tensor:
        try:
            z = _logits(self.call(self._shell[0], x))
        except IndexError as error:
            raise unknown_ids(self, x, error) from error
        except RuntimeError as error:
            raise wrong_kind(x, error) from error
        if z.ndim == 0 or len(z) != len(x):
            raise ValueError(
                f"the model gives an embedding {list(z.shape)} for {len(x)} examples: let it keep the axis of examples "
                "also for one of them, as flatten(1) does and squeeze() does not"
            )
        return z

    def _check(self, x: Input) -> None:
        """A ValueError where the head is not the model's last layer."""
        head = self.model.get_submodule(self.head_name)
        head = getattr(head, "_orig_mod", head)

        def run(x: Input) -> Any:
            with apart(self.model):  # or a pass would see what the last one wrote
                return self.call(self.model, x)

        with unnoticed(self, x):
            some, first = self._first(run, head, x)
            wrong = fault(run, self.model, head, some, first)
            if not wrong and not self._is_made(some, first):
                wrong = f"more comes after it. {OWN}"
        if wrong:
            raise ValueError(f"{self.head_name!r} is not the model's last layer: {wrong}")

    def _first(self, run: Callable[[Input], Any], head: nn.Module, x: Input) -> tuple[Input, Pass]:
        """A pass on two examples, or on all if the model takes no two of them."""
        try:
            return x[:2], observed(run, head, x[:2])
        except (TypeError, IndexError) as error:
            raise (unknown_ids(self, x, error) if isinstance(error, IndexError) else error) from None
        except RuntimeError as error:
            if (wrong := wrong_kind(x, error)) is not error:
                raise wrong from error
            return x, observed(run, head, x)

    def _is_made(self, x: Input, first: Pass) -> bool:
        """Whether head(embed(x)) is what the model gave."""
        try:
            with apart(self.model):
                made = self.head(self._embed(x))
        except (RuntimeError, AttributeError, TypeError):  # what comes after the head does not fit what it is given
            return False
        return alike(made, _with_classes(first.logits), first.outputs[-1].dtype)


def _with_classes(logits: Tensor) -> Tensor:
    """[B, L]; a model of a single logit may give [B]."""
    return logits[:, None] if logits.ndim == 1 else logits


def _logits(output: Any) -> Tensor:
    try:
        return logits_of(output)
    except TypeError as error:
        raise TypeError(f"{error}, or pass split(..., call=...) that does") from None
