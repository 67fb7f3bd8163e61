"""Timing for the benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def seconds(work: Callable[[], object], device: torch.device, repeats: int = 3) -> float:
    """The best of several repeats, including the device's work."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return min(times)
