"""split: present any classifier as embed + head, without copying or changing it.

    h    the last linear layer or 1x1 convolution, found or given by name
    phi  the same modules without h

Names are those of `model.named_modules()`: "fc" in torchvision's ResNet, "classifier.6" in its VGG.

phi runs through shells: objects that stand in for the modules on the path to h. A shell shares the `__dict__` of its
module, so that parameters, modes, hooks and plain attributes are read and written in the module itself, including those
set later. It differs in one child, the next shell on the path; the shell of h returns its input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from inspect import signature
from types import MethodType
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn

from poise.checks import require_part
from poise.classifier import (
    alike,
    check_input,
    logits_of,
    may_look,
    restoring_buffers,
    unknown_ids,
    without_side_effects,
    wrong_kind,
)
from poise.models.heads import CONVOLUTIONS, OWN, Pass, find_head, known_head, observed, why_not_last
from poise.tokens import Input, Tokens

_KINDS: WeakValueDictionary[tuple[Callable[..., type], type, tuple[str, ...]], type] = WeakValueDictionary()


def shell_of(module: nn.Module, way: Sequence[str]) -> Any:
    """The module without its head. `way` holds the names of the children on the path to the head.

    A compiled module on the path runs uncompiled, since its compiled code contains the head.
    """
    if not way:
        return _sharing(module, _through, (), None)
    if is_compiled(module):
        return shell_of(module._orig_mod, way[1:])  # type: ignore[arg-type]
    _require_open(module)
    name, *rest = way
    child = shell_of(module.get_submodule(name), rest)
    own = tuple(key for key, value in vars(module).items() if _is_method(value, module))
    return _sharing(module, _without_head, own, {name: child})


def _sharing(module: nn.Module, make: Callable[..., type], own: tuple[str, ...], to_head: Any) -> Any:
    """A shell that shares the module's attributes.

    Modules of one class get shells of one class: torch.compile would recompile for every new class.
    """
    key = (make, type(module), own)
    kind = _KINDS.get(key)
    if kind is None:
        kind = make(type(module), own)
        kind.__name__, kind.__qualname__ = type(module).__name__, type(module).__qualname__
        kind.__module__ = type(module).__module__
        _KINDS[key] = kind
    shell: Any = object.__new__(kind)
    object.__setattr__(shell, "__dict__", module.__dict__)
    object.__setattr__(shell, "_to_head", to_head)
    object.__setattr__(shell, "_whole", module)
    return shell


def is_compiled(module: nn.Module) -> bool:
    return hasattr(module, "_orig_mod")


def way_of(model: nn.Module, way: Sequence[str]) -> list[Any]:
    """The modules, classes and forwards on the path to the head. The shells are stale when one of them is replaced."""
    found: list[Any] = []
    module: Any = model
    for name in way:
        found += (module, type(module), vars(module).get("forward"))
        module = module._modules[name]
    return [*found, module]


def _without_head(kind: Any, own: tuple[str, ...]) -> type:
    """The class of a shell on the path to the head. `own` names methods that were set on the module instance."""

    class Shell(kind):  # type: ignore[misc]
        __slots__ = ("_to_head", "_whole")

        _compiled_call_impl = property(lambda self: None)  # set by Module.compile: its code contains the head

        def __new__(cls, *given: Any, **named: Any) -> Any:
            """A module without a wrapped one, for code that builds an instance of its own class, as slicing a
            Sequential does.
            """
            made = object.__new__(cls)
            object.__setattr__(made, "_to_head", {})
            object.__setattr__(made, "_whole", None)
            return made

        @property
        def _modules(self) -> dict[str, Any]:
            if self._whole is None:
                held: dict[str, Any] = self.__dict__["_modules"]
                return held
            # Not self.__dict__: torch.compile would look it up here again and recurse.
            return {**self._whole._modules, **self._to_head}

        @_modules.setter
        def _modules(self, modules: dict[str, Any]) -> None:
            self.__dict__["_modules"] = modules

        def __getattr__(self, name: str) -> Any:
            to_head = self._to_head
            return to_head[name] if name in to_head else super().__getattr__(name)

    for name in own:
        setattr(Shell, name, _rebound(name))
    return Shell


def _rebound(name: str) -> property:
    """A method of the module, bound to the object on which it is looked up."""

    def method(self: Any) -> Any:
        value = self.__dict__[name]
        if isinstance(value, partial):
            return partial(value.func, self, *value.args[1:], **value.keywords)
        return MethodType(value.__func__, self)

    return property(method)


def _through(kind: Any, own: tuple[str, ...]) -> type:
    """The class of the shell of the head: it returns its input and skips the head's hooks.

    It has the head's attributes, for code that reads its weight or its width.
    """

    class Through(kind):  # type: ignore[misc]
        __slots__ = ("_to_head", "_whole")

        def __call__(self, *given: Any, **named: Any) -> Any:
            return given[0] if given else next(iter(named.values()))

    return Through


def _is_method(value: Any, module: nn.Module) -> bool:
    """Whether `value` is bound to the module, directly or by functools.partial, as accelerate's hooks are."""
    if isinstance(value, partial):
        return value.args[:1] == (module,)
    return isinstance(value, MethodType) and value.__self__ is module


def _require_open(module: nn.Module) -> None:
    """Raise for a module whose forward cannot run without its head."""
    name = type(module).__name__
    if isinstance(module, torch.jit.ScriptModule):
        raise ValueError(
            f"a {name} of torch.jit has no accessible layers: split the Python model that it was made from"
        )
    if isinstance(module, nn.DataParallel) and len(module.device_ids) > 1:
        raise ValueError(
            "a DataParallel model cannot be split, since it copies its module: split model.module, or use one device"
        )
    forward = vars(module).get("forward")
    if forward is not None and not _is_method(forward, module):
        hooked = "remove it with accelerate.hooks.remove_hook_from_module(model, recurse=True), "
        raise ValueError(
            f"the forward of this {name} was replaced by a function that contains the model with its head: "
            f"{hooked if hasattr(module, '_old_forward') else ''}split the model first, or make forward a method: "
            "model.forward = types.MethodType(function, model)"
        )


Call: TypeAlias = Callable[[nn.Module, Any], Any]


def call_model(model: nn.Module, x: Input) -> Any:
    """Call a model with a tensor, or with input_ids and attention_mask, as Hugging Face models expect."""
    if isinstance(x, Tokens):
        return model(input_ids=_ids(model, x), attention_mask=x.mask.long(), **_positions(model, x))
    return model(x)


def _ids(model: nn.Module, x: Tokens) -> Tensor:
    """The ids of x, as the model needs them.

    RoBERTa and related models count positions by the ids that are not padding. A hidden token must therefore get
    another id there, or all later tokens would move; the attention mask hides it.
    """
    if x.gaps is None:
        return x.ids
    for module in model.modules():
        padding = getattr(module, "padding_idx", None)
        if isinstance(padding, int) and isinstance(getattr(module, "position_embeddings", None), nn.Module):
            return x.ids.masked_fill(x.gaps, 0 if padding else 1)
    return x.ids


def _positions(model: nn.Module, x: Tokens) -> dict[str, Tensor]:
    """Explicit positions for models such as OPT that count them by the attention mask, if x has hidden tokens."""
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
    """Present `model` as embed + head. Weights are shared, and the state_dict stays the same.

    head  the name of the layer that returns the logits; None finds it if it is unambiguous.
    call  how to run the model on an input, for models with another signature.

    `embed` runs the model's own code on its own attributes, so that later changes to the model take effect.

    The first `embed` checks on two examples that head(embed(x)) equals the model's output, and that training cannot
    change this: a temperature or a soft cap after the head is refused. A compiled part that contains the head runs
    uncompiled; other parts stay compiled. To compile everything, compile embed: split.embed =
    torch.compile(split.embed).

    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
    >>> model = split(network)
    >>> model.embed(torch.zeros(2, 1, 28, 28)).shape, model.head
    (torch.Size([2, 64]), Linear(in_features=64, out_features=10, bias=True))
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not a {type(model).__name__}")
    require_part("call", call)
    if is_compiled(model):
        raise ValueError(
            "the model is compiled: split it first, then compile its embed, split.embed = torch.compile(split.embed)"
        )
    if isinstance(model, torch.jit.ScriptModule):
        raise ValueError("a torch.jit model has no accessible layers: split the Python model that it was made from")
    return SplitClassifier(model, find_head(model) if head is None else known_head(model, head), call)


class SplitClassifier(nn.Module):
    """The embed + head view of a model. `self.model` is the original module."""

    def __init__(self, model: nn.Module, head_name: str, call: Call = call_model) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"model must be a torch.nn.Module, not a {type(model).__name__}")
        super().__init__()
        self.model = model
        self.head_name = known_head(model, head_name)
        self.call = call
        self._left = self._asked = 0
        self._build()

    @property
    def head(self) -> Callable[[Tensor], Tensor]:
        """The layer itself; a 1x1 convolution is applied to vectors."""
        layer = self.model.get_submodule(self.head_name)
        if not isinstance(layer, CONVOLUTIONS):
            return layer
        places = [None] * len(layer.kernel_size)
        return lambda z: layer(z[:, :, *places]).flatten(1)

    def embed(self, x: Input) -> Tensor:
        """z: the input of the head."""
        if not torch.compiler.is_compiling():
            self.check_head(x)
        return self._embed(x)

    def check_head(self, x: Input) -> None:
        """Check that head(embed(x)) equals the model's output. Objectives also call this, in case embed is compiled.

        The check runs at the 1st, 2nd, 4th, 8th ... call, in case the model changes its behaviour, and again when a
        module on the path to the head is replaced.
        """
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
        # A tuple keeps nn.Module from registering it.
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
                f"the model returned an embedding {list(z.shape)} for {len(x)} examples: keep the batch axis even for "
                "one example, with flatten(1) instead of squeeze()"
            )
        return z

    def _check(self, x: Input) -> None:
        """Raise ValueError unless the head is the model's last layer."""
        head = self.model.get_submodule(self.head_name)
        head = getattr(head, "_orig_mod", head)

        def run(x: Input) -> Any:
            with restoring_buffers(self.model):  # a pass must not see what the previous one wrote
                return self.call(self.model, x)

        with without_side_effects(self, x):
            some, first = self._first(run, head, x)
            wrong = why_not_last(run, self.model, head, some, first)
            if not wrong and not self._reproduces_output(some, first):
                wrong = f"the model changes its output. {OWN}"
        if wrong:
            raise ValueError(f"{self.head_name!r} is not the model's last layer: {wrong}")

    def _first(self, run: Callable[[Input], Any], head: nn.Module, x: Input) -> tuple[Input, Pass]:
        """A pass on two examples, or on all if the model does not accept two of them."""
        try:
            return x[:2], observed(run, head, x[:2])
        except (TypeError, IndexError) as error:
            raise (unknown_ids(self, x, error) if isinstance(error, IndexError) else error) from None
        except RuntimeError as error:
            if (wrong := wrong_kind(x, error)) is not error:
                raise wrong from error
            return x, observed(run, head, x)

    def _reproduces_output(self, x: Input, first: Pass) -> bool:
        """Whether head(embed(x)) equals the model's output."""
        try:
            with restoring_buffers(self.model):
                made = self.head(self._embed(x))
        except (RuntimeError, AttributeError, TypeError):  # code after the head does not accept its output
            return False
        return alike(made, _with_classes(first.logits), first.outputs[-1].dtype)


def _with_classes(logits: Tensor) -> Tensor:
    """[B, L]; a model with a single logit may return [B]."""
    return logits[:, None] if logits.ndim == 1 else logits


def _logits(output: Any) -> Tensor:
    try:
        return logits_of(output)
    except TypeError as error:
        raise TypeError(f"{error}, or pass a function that does: split(..., call=...)") from None
