"""split: any classifier as embed + head, without copying or changing it.

    h    the last linear layer or 1x1 convolution, given by its name or found
    phi  the same modules with h left out, by shells that share everything else with the modules on the way to h

Names are those of `model.named_modules()`: "fc" in torchvision's ResNet, "classifier.6" in its VGG.

Shells: a model with its head left out, that is the model itself in all else.

A shell shares the very `__dict__` of its module: parameters, modes, hooks and plain attributes are read and written
where they are, also those set later. It differs in one child, which is the next shell on the way to the head; and the
head's own shell hands its input on.
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
from poise.classifier import alike, apart, check_input, logits_of, may_look, unknown_ids, unnoticed, wrong_kind
from poise.models.heads import CONVOLUTIONS, OWN, Pass, fault, find_head, known_head, observed
from poise.tokens import Input, Tokens

_KINDS: WeakValueDictionary[tuple[Callable[..., type], type, tuple[str, ...]], type] = WeakValueDictionary()


def shell_of(module: nn.Module, way: Sequence[str]) -> Any:
    """The module without the head at the end of the way, the names of children from here on.

    A compiled module on the way runs as it was before: what was compiled has the head inside."""
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
    """A shell around the module's attributes; modules of one class have shells of one class, or each would be compiled
    anew."""
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
    """What shells are made of: another module, class or forward in one of these places makes them stale."""
    found: list[Any] = []
    module: Any = model
    for name in way:
        found += (module, type(module), vars(module).get("forward"))
        module = module._modules[name]
    return [*found, module]


def _without_head(kind: Any, own: tuple[str, ...]) -> type:
    """The class of a shell on the way to the head. Methods that were put onto the module itself,
    `own`, are those of the shell."""

    class Shell(kind):  # type: ignore[misc]
        __slots__ = ("_to_head", "_whole")

        _compiled_call_impl = property(lambda self: None)  # of Module.compile: it has the head inside

        def __new__(cls, *given: Any, **named: Any) -> Any:
            """A module of its own, as a slice of a Sequential is: it goes around nothing."""
            made = object.__new__(cls)
            object.__setattr__(made, "_to_head", {})
            object.__setattr__(made, "_whole", None)
            return made

        @property
        def _modules(self) -> dict[str, Any]:
            if self._whole is None:
                held: dict[str, Any] = self.__dict__["_modules"]
                return held
            # Not by self.__dict__, which torch.compile would look up here again.
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
    """A method of the module, as one of whoever asks."""

    def method(self: Any) -> Any:
        value = self.__dict__[name]
        if isinstance(value, partial):
            return partial(value.func, self, *value.args[1:], **value.keywords)
        return MethodType(value.__func__, self)

    return property(method)


def _through(kind: Any, own: tuple[str, ...]) -> type:
    """The class of what stands in the head's place: it hands its input on, without the head's hooks, and is the head
    for whoever looks at its weight or its width."""

    class Through(kind):  # type: ignore[misc]
        __slots__ = ("_to_head", "_whole")

        def __call__(self, *given: Any, **named: Any) -> Any:
            return given[0] if given else next(iter(named.values()))

    return Through


def _is_method(value: Any, module: nn.Module) -> bool:
    """Bound to the module; by functools.partial, as the hooks of accelerate are, too."""
    if isinstance(value, partial):
        return value.args[:1] == (module,)
    return isinstance(value, MethodType) and value.__self__ is module


def _require_open(module: nn.Module) -> None:
    """Refuse a module whose forward cannot run without its head."""
    name = type(module).__name__
    if isinstance(module, torch.jit.ScriptModule):
        raise ValueError(f"a {name} of torch.jit hides its layers: split the Python model that it was made from")
    if isinstance(module, nn.DataParallel) and len(module.device_ids) > 1:
        raise ValueError("DataParallel copies a model to its devices: split model.module, or use one device")
    forward = vars(module).get("forward")
    if forward is not None and not _is_method(forward, module):
        hooked = "accelerate.hooks.remove_hook_from_module(model, recurse=True) takes it away; or "
        raise ValueError(
            f"the forward of this {name} was replaced by a function that holds the model with its head: "
            f"{hooked if hasattr(module, '_old_forward') else ''}split the model first, or let forward be a method: "
            "model.forward = types.MethodType(function, model)"
        )


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
