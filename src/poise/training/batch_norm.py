"""Batch norm over the batches of all processes, equal to that of one process with the whole batch.

    mean = sum over all processes of sum x / n,    var = sum over all processes of sum (x - mean)^2 / n

Perturbed views on running statistics need no communication. GPUs use torch's implementation, CPUs this formula.

Axes: B examples of this process, C channels, * positions; n = world_size * B * positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from poise.distributed import total, world_size
from poise.errors import TrainingError


class SyncBatchNorm(_BatchNorm):
    """Synchronised batch norm for CPUs, which torch's does not support; every process needs equal batch sizes."""

    def forward(self, x: Tensor) -> Tensor:
        """x [B, C, *], normalised for each channel."""
        if not self.training or world_size() == 1:
            return super().forward(x)
        axes, shape = [0, *range(2, x.ndim)], (1, -1, *(1,) * (x.ndim - 2))
        count = world_size() * x.numel() // x.shape[1]
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        mean = total(wide.sum(axes)) / count  # [C]
        centred = wide - mean.view(shape)
        var = total(centred.square().sum(axes)) / count
        self._track(mean.detach(), var.detach(), count)
        normal = centred * (var + self.eps).rsqrt().view(shape)
        scaled = normal if self.weight is None else normal * self.weight.view(shape) + self.bias.view(shape)
        return scaled.to(x.dtype)

    def _check_input_dim(self, x: Tensor) -> None:
        """Accept any shape: the original batch norm has checked it."""

    @torch.no_grad()
    def _track(self, mean: Tensor, var: Tensor, count: int) -> None:
        """Update the running statistics as nn.BatchNorm does, with the unbiased variance."""
        if not self.track_running_stats or self.running_mean is None or self.running_var is None:
            return
        counter = cast(Tensor, self.num_batches_tracked)
        counter.add_(1)
        share = 1 / int(counter) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_((var * count / (count - 1)).to(self.running_var.dtype), share)


@contextmanager
def synchronised(model: nn.Module) -> Iterator[None]:
    """Synchronise the model's batch norms inside; afterwards restore the original modules, with the updated tensors."""
    places = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, _BatchNorm) and not isinstance(child, nn.SyncBatchNorm)
    ]
    if not any(isinstance(module, _BatchNorm) for module in model.modules()):
        raise TrainingError("sync_batch_norm=True needs a network with batch norm: leave it out of the plan")
    try:
        for parent, name, child in places:
            setattr(parent, name, _over_all(child))
        yield
    finally:
        for parent, name, child in places:
            child.training = getattr(parent, name).training
            setattr(parent, name, child)


def _over_all(norm: _BatchNorm) -> _BatchNorm:
    """The same batch norm, synchronised over all processes: its tensors are shared, not copied."""
    kind = nn.SyncBatchNorm if any(tensor.is_cuda for tensor in norm.state_dict().values()) else SyncBatchNorm
    made = kind(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
    made._parameters, made._buffers, made.training = norm._parameters, norm._buffers, norm.training
    return made
