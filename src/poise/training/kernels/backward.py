"""Backward passes that compute only the gradients that are asked for.

A utility asks for the gradient of the input, and the training step for those of the weights. torch's own operators
compute only these. Our operators and compiled graphs compute everything by default, and autograd drops what nobody
asked for. They call `wanted` to see what is asked for.

`inductor` is the compiler of torch.compile. It compiles the backward graph for each set of gradients when that set is
first asked for:

    utility          d total / d x             no gradient of a weight
    training step    d total / d weights       no gradient of the image
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from functools import partial
from typing import Any, cast

import torch
import torch._functorch.config
from torch import fx
from torch._guards import TracingContext, tracing

_CONVOLUTION = torch.ops.aten.convolution_backward.default


def wanted(node: Any) -> list[bool]:
    """Of the gradients that a node of the graph returns for tensors: those that the current backward pass needs."""
    return [_needs(following) for following, _ in node.next_functions]


def _needs(node: Any) -> bool:
    try:
        return node is not None and bool(torch._C._will_engine_execute_node(node))
    except RuntimeError:  # of a leaf that autograd.grad was asked for: it is not executed, its gradient is returned
        return True


def inductor(graph: fx.GraphModule, inputs: Sequence[Any], compiler: Callable[..., Any] | None = None) -> Any:
    """A backend for torch.compile: its default one, with backward passes by `ByDemand`.

    compiler  compiles one graph; None is torch's.
    """
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    compiled = partial(_compiled, compiler or compile_fx_inner)
    with torch._functorch.config.patch(enable_autograd_cache=False):  # it holds whole backward passes
        return compile_fx(graph, inputs, inner_compile=compiled)


def _compiled(compiler: Callable[..., Any], graph: fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Any:
    made = partial(compiler, **options)
    return ByDemand(made, graph, inputs) if options.get("is_backward") else made(graph, inputs)


class ByDemand:
    """A backward graph, compiled for each set of its outputs that autograd asks for; the other outputs are None."""

    def __init__(self, compiler: Callable[..., Any], graph: fx.GraphModule, inputs: Sequence[Any]) -> None:
        self._compiler, self._graph, self._inputs = compiler, graph, inputs
        self._context = TracingContext.try_get()
        self._outputs = len(graph.graph.output_node().args[0])  # type: ignore[arg-type]
        self._made: dict[tuple[bool, ...], Callable[[list[Any]], Any]] = {}
        self._boxed_call = True  # torch passes one list, which the call may empty

    def __call__(self, args: list[Any]) -> Any:
        asked = tuple(wanted(torch._C._current_autograd_node()))
        if len(asked) != self._outputs:  # not one output for each input of the forward pass
            asked = (True,) * self._outputs
        if asked not in self._made:
            self._made[asked] = self._compile(asked)
        return self._made[asked](args)

    def _compile(self, asked: tuple[bool, ...]) -> Callable[[list[Any]], Any]:
        with torch._subclasses.fake_tensor.unset_fake_temporarily():  # as torch copies a graph to compile it later
            graph = deepcopy(self._graph)
        context: AbstractContextManager[Any] = nullcontext() if self._context is None else tracing(self._context)
        with context:
            made: Callable[[list[Any]], Any] = self._compiler(without_others(graph, asked), self._inputs)
        return made


def without_others(graph: fx.GraphModule, asked: Sequence[bool]) -> fx.GraphModule:
    """The graph, changed in place to compute only the outputs that are asked for."""
    output = graph.graph.output_node()
    values: Any = output.args[0]
    output.args = (tuple(value if needed else None for value, needed in zip(values, asked, strict=True)),)
    graph.graph.eliminate_dead_code()
    for node in graph.graph.find_nodes(op="call_function", target=_CONVOLUTION):
        used, mask = {user.args[1] for user in node.users}, cast(list[bool], node.args[-1])
        node.args = (*node.args[:-1], [given and place in used for place, given in enumerate(mask)])
    graph.recompile()
    return graph
