"""Replicas: several networks of one kind as one, so that small networks fill a large device.

A row of a batch belongs to one replica, and replicas take turns: row n * R + r is example n of replica r. So a batch of
all replicas goes through any objective as it is, and two of them may be put one after the other.

    x [N * R, C, H, W]  =  [N, R, C, H, W]  →  z [N * R, E],  replica r with its own weights

Axes: N examples of each replica, R replicas.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn


class Replicas(nn.Module):
    """Networks with `embed` and `head`, with the same layers and weights of their own."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        if any(True for _ in networks[0].buffers()):
            raise ValueError(f"a {type(networks[0]).__name__} has statistics of its batches: replicas cannot share one")
        states = [dict(network.named_parameters()) for network in networks]
        self.count = len(networks)
        self._names = list(states[0])
        self.weights = nn.ParameterList(
            nn.Parameter(torch.stack([state[name].detach() for state in states])) for name in self._names
        )
        # In a tuple, or it would be a part of this module: its layers are used, its weights are not.
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
        """The weights of one of them, by the names that its network has for them."""
        weights = zip(self._names, self.weights, strict=True)
        return {name: weight[replica].detach().clone() for name, weight in weights}

    def _each(self, part: str, rows: Tensor) -> Tensor:
        layers = _Part(self._layers[0].train(self.training), part)

        def one(weights: dict[str, Tensor], x: Tensor) -> Tensor:
            result: Tensor = torch.func.functional_call(layers, weights, (x,))
            return result

        weights = {f"network.{name}": weight for name, weight in zip(self._names, self.weights, strict=True)}
        by_replica = rows.view(-1, self.count, *rows.shape[1:])
        outputs: Tensor = torch.vmap(one, in_dims=(0, 1), out_dims=1, randomness="different")(weights, by_replica)
        return outputs.flatten(0, 1)


class _Part(nn.Module):
    """One of a network's methods as the forward of a module, which functional_call needs."""

    def __init__(self, network: nn.Module, part: str) -> None:
        super().__init__()
        self.network, self.part = network, part

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = getattr(self.network, self.part)(x)
        return output
