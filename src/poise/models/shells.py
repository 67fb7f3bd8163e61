"""Shells: a model with its head left out, that is the model itself in all else.

A shell shares the very `__dict__` of its module: parameters, modes, hooks and plain attributes are read and written
where they are, also those set later. It differs in one child, which is the next shell on the way to the head; and the
head's own shell hands its input on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import MethodType
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import nn

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
