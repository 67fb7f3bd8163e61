"""Replicas: several networks of the same architecture as one, so that small networks use a large device.

Each row of a batch belongs to one replica, in turns: row n * R + r is example n of replica r. A batch of all replicas
therefore goes through any objective unchanged, and two such batches may be concatenated. Only layers with weights treat
replicas separately:

    convolution   x [N * R, C, H, W] = [N, R * C, H, W], a convolution with R groups
    batch norm    x [N * R, C, *] = [N, R * C, *], a batch norm of R * C channels
    linear        x [N * R, F] = [N, R, F] → R products of matrices

Axes: N examples of each replica, R replicas, C channels, F features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class Replicas(nn.Module):
    """Networks with `embed` and `head` that have the same layers, each with its own weights and batch statistics."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        _require_layers(networks[0])
        states = [dict(network.named_parameters()) for network in networks]
        self.count = len(networks)
        self._names = list(states[0])
        self.weights = nn.ParameterList(
            nn.Parameter(torch.stack([state[name].detach() for state in states])) for name in self._names
        )
        for weight in self.weights:
            weight.axes = weight.ndim - 1  # of one replica: an optimizer may treat biases differently
        self._states = self._stack_buffers(networks)
        # A tuple keeps nn.Module from registering it: its layers are used, its weights are not.
        self._layers = (deepcopy(networks[0]).to("meta"),)

    def modules(self, remove_duplicate: bool = True) -> Iterator[nn.Module]:
        """Also the layers: they have a mode, and batch norms may be told not to track their statistics."""
        yield from super().modules(remove_duplicate)
        yield from self._layers[0].modules(remove_duplicate)

    def train(self, mode: bool = True) -> Replicas:
        super().train(mode)
        self._layers[0].train(mode)
        return self

    def embed(self, x: Tensor) -> Tensor:
        """x [N * R, *D] → z [N * R, E]."""
        return self._each("embed", x)

    def head(self, z: Tensor) -> Tensor:
        """z [N * R, E] → logits [N * R, L]."""
        return self._each("head", z)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embed(x))

    def state_of(self, replica: int) -> dict[str, Tensor]:
        """The weights and statistics of one replica, under the names of its network."""
        stacked: dict[str, Tensor] = dict(zip(self._names, self.weights, strict=True))
        shared = self._non_persistent_buffers_set
        stacked |= {name: self.get_buffer(own) for name, own in self._states.items() if own not in shared}
        return {name: each[replica].detach().clone() for name, each in stacked.items()}

    def _stack_buffers(self, networks: Sequence[nn.Module]) -> dict[str, str]:
        """Register the networks' buffers; returns {name in a network: name here}.

        Those in a state_dict are stacked. The others are constants, which all replicas share.
        """
        names = {}
        for name, first in networks[0].named_buffers():
            own, each = f"state_{name.replace('.', '_')}", [network.get_buffer(name) for network in networks]
            names[name], stacks = own, name in networks[0].state_dict()
            if not stacks and not all(torch.equal(first, other) for other in each):
                raise ValueError(f"{name} differs between the networks of a fleet")
            self.register_buffer(own, torch.stack(each) if stacks else first.clone(), persistent=stacks)
        return names

    def _each(self, part: str, rows: Tensor) -> Tensor:
        tensors: dict[str, Tensor] = dict(zip(self._names, self.weights, strict=True))
        tensors |= {name: self.get_buffer(own) for name, own in self._states.items()}
        held = {f"network.{name}": tensor for name, tensor in tensors.items()}
        with _ByReplica(self.count):
            outputs: Tensor = torch.func.functional_call(_Part(self._layers[0], part), held, (rows,))
        return outputs


def _require_layers(network: nn.Module) -> None:
    """ValueError for a layer with weights or statistics that cannot be applied replica by replica."""
    for module in network.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            if module.momentum is None:
                raise ValueError(f"{type(module).__name__} with momentum=None is not supported in fleets")
        elif any(True for _ in module.parameters(recurse=False)) and not isinstance(module, nn.Conv2d | nn.Linear):
            raise ValueError(
                f"{type(module).__name__} is not supported in fleets, only Conv2d, Linear and BatchNorm layers are"
            )
        elif set(module._buffers) - module._non_persistent_buffers_set:
            raise ValueError(f"{type(module).__name__} has buffers of its own, which are not supported in fleets")


class _Part(nn.Module):
    """One of a network's methods as the forward of a module, which functional_call needs."""

    def __init__(self, network: nn.Module, part: str) -> None:
        super().__init__()
        self.network, self.part = network, part

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = getattr(self.network, self.part)(x)
        return output


class _ByReplica(TorchFunctionMode):
    """Apply layers whose weights and statistics are stacked [R, ...] replica by replica."""

    def __init__(self, replicas: int) -> None:
        super().__init__()
        self._layers: dict[Callable[..., Any], Callable[..., Any]] = {
            torch.conv2d: _convolution,
            F.linear: _linear,
            F.batch_norm: partial(_batch_norm, replicas),
        }

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self._layers.get(func, func)(*args, **(kwargs or {}))


def _convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    """x [N * R, C, H, W], weight [R, O, C, K, K], bias [R, O] → [N * R, O, H', W']."""
    replicas = weight.shape[0]
    side_by_side = x.reshape(-1, replicas * x.shape[1], *x.shape[2:])
    biases = None if bias is None else bias.flatten()
    y = F.conv2d(side_by_side, weight.flatten(0, 1), biases, stride, padding, dilation, groups * replicas)
    return y.reshape(x.shape[0], weight.shape[1], *y.shape[2:])


def _batch_norm(
    replicas: int,
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    **settings: Any,
) -> Tensor:
    """x [N * R, C, *]; weight, bias and statistics, which are updated in place, [R, C]."""
    side_by_side = x.reshape(-1, replicas * x.shape[1], *x.shape[2:])
    mean, var, scale, shift = (
        None if each is None else each.view(-1) for each in (running_mean, running_var, weight, bias)
    )
    return F.batch_norm(side_by_side, mean, var, scale, shift, **settings).reshape(x.shape)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [N * R, F], weight [R, O, F], bias [R, O] → [N * R, O]."""
    by_replica = x.view(-1, weight.shape[0], x.shape[1]).transpose(0, 1)
    outputs = by_replica @ weight.mT
    if bias is not None:
        outputs = outputs + bias[:, None]
    return outputs.transpose(0, 1).reshape(x.shape[0], weight.shape[1])
