"""Batch norm over the batches of all processes, so that several with a part each see what one would see with the whole.

    mean = sum over all processes of sum x / n,    var = sum over all processes of sum (x - mean)^2 / n

Perturbed views on running statistics ask nothing of the others. torch's own runs on a GPU; on a CPU the formula does.

Axes: B examples of this process, C channels, * places; n = world_size * B * places.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from poise.distributed import total, world_size
from poise.errors import TrainingError


class SyncBatchNorm(_BatchNorm):
    """The one for a CPU, which torch's refuses; every process must bring the same number of examples."""

    def forward(self, x: Tensor) -> Tensor:
        """x [B, C, *], normalised channel by channel."""
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
        """Any shape: the batch norm that this one stands for has said what it wants."""

    @torch.no_grad()
    def _track(self, mean: Tensor, var: Tensor, count: int) -> None:
        """Move the running statistics as nn.BatchNorm does: with the unbiased variance."""
        if not self.track_running_stats or self.running_mean is None or self.running_var is None:
            return
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        share = 1 / int(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_((var * count / (count - 1)).to(self.running_var.dtype), share)


@contextmanager
def synchronised(model: nn.Module) -> Iterator[None]:
    """The model's batch norms over all processes inside; its own come back, with the weights and statistics of then."""
    places = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, _BatchNorm) and not isinstance(child, nn.SyncBatchNorm)
    ]
    if not any(isinstance(module, _BatchNorm) for module in model.modules()):
        raise TrainingError("sync_batch_norm=True: the network has no batch norm, so leave it out of the plan")
    try:
        for parent, name, child in places:
            setattr(parent, name, _over_all(child))
        yield
    finally:
        for parent, name, child in places:
            child.training = getattr(parent, name).training
            setattr(parent, name, child)


def _over_all(norm: _BatchNorm) -> _BatchNorm:
    """The same batch norm over all processes: its tensors are shared, not copied."""
    kind = nn.SyncBatchNorm if any(tensor.is_cuda for tensor in norm.state_dict().values()) else SyncBatchNorm
    made = kind(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
    made._parameters, made._buffers, made.training = norm._parameters, norm._buffers, norm.training
    return made
