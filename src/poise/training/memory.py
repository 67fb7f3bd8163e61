"""The device memory that a training takes."""

from __future__ import annotations

import torch
from torch import nn


class Memory:
    """Its peak in bytes, the model included, above what was on the device before: data, test sets, other models."""

    def __init__(self, model: nn.Module, device: torch.device, earlier: int | None = None) -> None:
        """`earlier` is the peak of a run that this one goes on with."""
        self._device, self._earlier = device, earlier
        if device.type == "cuda":
            own = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
            self._before = torch.cuda.memory_allocated(device) - own
            torch.cuda.reset_peak_memory_stats(device)

    @property
    def peak(self) -> int | None:
        """So far; None on a CPU."""
        if self._device.type != "cuda":
            return self._earlier
        return max(torch.cuda.max_memory_allocated(self._device) - self._before, self._earlier or 0)
