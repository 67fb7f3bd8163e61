"""Distributed training: rank and world size, collectives, and a gather with gradients from all processes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor

T = TypeVar("T")
_groups: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_PATIENCE = timedelta(hours=1)  # the others wait while the first process measures and writes


def world_size() -> int:
    return dist.get_world_size() if _running() else 1


def rank() -> int:
    return dist.get_rank() if _running() else 0


def start(device: str) -> torch.device:
    """Join the process group if torchrun started this process; return the process's device."""
    if "RANK" not in os.environ:
        return torch.device(device)
    _require_fresh_store()
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if device == "cuda" else "gloo", timeout=_PATIENCE)
    return torch.device(device, int(os.environ["LOCAL_RANK"])) if device == "cuda" else torch.device(device)


def _require_fresh_store() -> None:
    """Raise if a restarted worker would reuse torchrun's store, where it would find dead workers and hang."""
    kept = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if kept and int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) > 0:
        raise ValueError(
            "--max-restarts needs TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 in the environment of torchrun: set it"
        )


def stop() -> None:
    if _running():
        dist.destroy_process_group()


def lost_another(error: RuntimeError) -> bool:
    """Whether a backend raised this because a process died during a collective."""
    return world_size() > 1 and (isinstance(error, dist.DistError) or "peer" in str(error) or "gloo" in str(error))


def share(value: T) -> T:
    """The value of the first process, in all processes."""
    if world_size() == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box)
    return box[0]


def agreed(value: Any) -> bool:
    """Whether all processes have the same value."""
    if world_size() == 1:
        return True
    said: list[Any] = [None] * world_size()
    dist.all_gather_object(said, value)
    return all(each == said[0] for each in said)


def union(held: dict[str, str]) -> dict[str, str]:
    """The union of the entries of all processes, in all of them; every process must call this."""
    if world_size() == 1:
        return held
    said: list[Any] = [None] * world_size()
    dist.all_gather_object(said, held)
    return {name: value for each in said for name, value in each.items()}


def as_first(tensors: Iterable[Tensor]) -> None:
    """Overwrite the tensors, in place, with their values in the first process."""
    if world_size() > 1:
        for tensor in tensors:
            dist.broadcast(tensor, 0)


def sum_over_processes(x: Tensor) -> Tensor:
    """Sum x over all processes, in place."""
    if world_size() > 1:
        dist.all_reduce(x)
    return x


def mean_over_processes(x: Tensor) -> Tensor:
    """The mean of x over all processes, added by rank and in double precision.

    The mean of a part equals the part of the mean, and the mean of equal values equals the value. An all-reduce
    guarantees neither, since its order of addition depends on position and length.
    """
    if world_size() == 1:
        return x
    parts = gather(x)[0].double().chunk(world_size())
    return (sum(parts[1:], start=parts[0]) / world_size()).to(x.dtype)


def gather(x: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of all processes, in order of rank, and the positions of our own rows among them.

    x [B, E], the same B in every process  →  pool [world_size * B, E], own [B].

    The gradient of a pooled row is the sum of its gradients in all processes. If every process minimises the mean over
    its own rows and DDP averages the gradients, they therefore equal those of one process with all the rows.
    """
    _require_equal(len(x), x.is_cuda)
    own = torch.arange(len(x), device=x.device) + rank() * len(x)
    return (_Gather.apply(x) if world_size() > 1 else x), own  # type: ignore[no-untyped-call]


def _require_equal(batch: int, on_gpu: bool) -> None:
    """Raise in every process if batch sizes differ, since the backends would abort or hang.

    The sizes are exchanged between CPUs, so that no device has to synchronise.
    """
    looking = not torch.compiler.is_compiling() and not (on_gpu and torch.cuda.is_current_stream_capturing())
    if world_size() > 1 and looking:
        sizes = [torch.zeros(1, dtype=torch.long) for _ in range(world_size())]
        dist.all_gather(sizes, torch.tensor([batch]), group=_between_cpus())
        if len({int(size) for size in sizes}) > 1:
            raise ValueError(
                f"the processes have batches of {', '.join(str(int(size)) for size in sizes)} examples, but need equal "
                "ones: use drop_last=True or a DistributedSampler"
            )


def _between_cpus() -> Any:
    """A group of all processes for tensors on the CPU; it ends with the process group."""
    world: Any = dist.group.WORLD
    if "gloo" in dist.get_backend(world):
        return world
    if world not in _groups:
        _groups[world] = dist.new_group(backend="gloo")
    return _groups[world]


def total(x: Tensor) -> Tensor:
    """The sum of x over all processes; the gradient of x is the sum of its gradients in all of them."""
    return _Total.apply(x) if world_size() > 1 else x  # type: ignore[no-untyped-call]


def _running() -> bool:
    return dist.is_available() and dist.is_initialized()


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        pool = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(world_size())]
        dist.all_gather(pool, x.contiguous())
        return torch.cat(pool)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        total = grads[0].contiguous().clone()
        dist.all_reduce(total)
        return total.chunk(world_size())[rank()]


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return sum_over_processes(x.contiguous().clone())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return sum_over_processes(grads[0].contiguous().clone())
