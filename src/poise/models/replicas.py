"""Replicas: several networks of the same architecture as one, so that small networks use a large device.

Each row of a batch belongs to one replica, in turns: row n * R + r is example n of replica r. A batch of all replicas
therefore goes through any objective unchanged, and two such batches may be concatenated. Only layers with weights treat
replicas separately:

    convolution   x [N * R, C, H, W] = [N, R * C, H, W], a convolution with R groups
    linear        x [N * R, F] = [N, R, F] → R products of matrices

Axes: N examples of each replica, R replicas, C channels, F features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class Replicas(nn.Module):
    """Networks with `embed` and `head` that have the same layers, each with its own weights."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        if any(True for _ in networks[0].buffers()):
            raise ValueError(
                f"{type(networks[0]).__name__} has batch norm or other buffers, which are not supported in fleets"
            )
        for module in networks[0].modules():
            if any(True for _ in module.parameters(recurse=False)) and not isinstance(module, nn.Conv2d | nn.Linear):
                raise ValueError(
                    f"{type(module).__name__} is not supported in fleets, only Conv2d and Linear layers are"
                )
        states = [dict(network.named_parameters()) for network in networks]
        self.count = len(networks)
        self._names = list(states[0])
        self.weights = nn.ParameterList(
            nn.Parameter(torch.stack([state[name].detach() for state in states])) for name in self._names
        )
        for weight in self.weights:
            weight.axes = weight.ndim - 1  # of one replica: an optimizer may treat biases differently
        # A tuple keeps nn.Module from registering it: its layers are used, its weights are not.
        self._layers = (deepcopy(networks[0]).to("meta"),)

    def embed(self, x: Tensor) -> Tensor:
        """x [N * R, *D] → z [N * R, E]."""
        return self._each("embed", x)

    def head(self, z: Tensor) -> Tensor:
        """z [N * R, E] → logits [N * R, L]."""
        return self._each("head", z)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embed(x))

    def state_of(self, replica: int) -> dict[str, Tensor]:
        """The weights of one replica, under the names of its network."""
        weights = zip(self._names, self.weights, strict=True)
        return {name: weight[replica].detach().clone() for name, weight in weights}

    def _each(self, part: str, rows: Tensor) -> Tensor:
        layers = _Part(self._layers[0].train(self.training), part)
        weights = {f"network.{name}": weight for name, weight in zip(self._names, self.weights, strict=True)}
        with _ByReplica():
            outputs: Tensor = torch.func.functional_call(layers, weights, (rows,))
        return outputs


class _Part(nn.Module):
    """One of a network's methods as the forward of a module, which functional_call needs."""

    def __init__(self, network: nn.Module, part: str) -> None:
        super().__init__()
        self.network, self.part = network, part

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = getattr(self.network, self.part)(x)
        return output


class _ByReplica(TorchFunctionMode):
    """Apply layers whose weights are stacked [R, ...] replica by replica."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        layers: dict[Callable[..., Any], Callable[..., Any]] = {torch.conv2d: _convolution, F.linear: _linear}
        return layers.get(func, func)(*args, **(kwargs or {}))


def _convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    """x [N * R, C, H, W], weight [R, O, C, K, K], bias [R, O] → [N * R, O, H', W']."""
    replicas = weight.shape[0]
    side_by_side = x.reshape(-1, replicas * x.shape[1], *x.shape[2:])
    biases = None if bias is None else bias.flatten()
    y = F.conv2d(side_by_side, weight.flatten(0, 1), biases, stride, padding, dilation, groups * replicas)
    return y.reshape(x.shape[0], weight.shape[1], *y.shape[2:])


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [N * R, F], weight [R, O, F], bias [R, O] → [N * R, O]."""
    by_replica = x.view(-1, weight.shape[0], x.shape[1]).transpose(0, 1)
    outputs = by_replica @ weight.mT
    if bias is not None:
        outputs = outputs + bias[:, None]
    return outputs.transpose(0, 1).reshape(x.shape[0], weight.shape[1])
