"""Processes: who we are, and tensors of all of them with the gradient of all of them."""

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
_PATIENCE = timedelta(hours=1)  # the others wait where the first process measures and writes alone


def world_size() -> int:
    return dist.get_world_size() if _running() else 1


def rank() -> int:
    return dist.get_rank() if _running() else 0


def start(device: str) -> torch.device:
    """Join the processes that torchrun started, if it did; the device of this one."""
    if "RANK" not in os.environ:
        return torch.device(device)
    _require_fresh_store()
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if device == "cuda" else "gloo", timeout=_PATIENCE)
    return torch.device(device, int(os.environ["LOCAL_RANK"])) if device == "cuda" else torch.device(device)


def _require_fresh_store() -> None:
    """torchrun keeps one store over its restarts: workers find the addresses of dead ones there, and never meet."""
    kept = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if kept and int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) > 0:
        raise ValueError("--max-restarts needs TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 in torchrun's environment: set it")


def stop() -> None:
    if _running():
        dist.destroy_process_group()


def lost_another(error: RuntimeError) -> bool:
    """Whether this is what a backend says when a process is gone in the middle of an exchange."""
    return world_size() > 1 and (isinstance(error, dist.DistError) or "peer" in str(error) or "gloo" in str(error))


def share(value: T) -> T:
    """What the first process says, in all of them."""
    if world_size() == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box)
    return box[0]


def agreed(value: Any) -> bool:
    """Whether all processes say the same."""
    if world_size() == 1:
        return True
    said: list[Any] = [None] * world_size()
    dist.all_gather_object(said, value)
    return all(each == said[0] for each in said)


def union(held: dict[str, str]) -> dict[str, str]:
    """What any process holds, in all of them; asked for by all."""
    if world_size() == 1:
        return held
    said: list[Any] = [None] * world_size()
    dist.all_gather_object(said, held)
    return {name: value for each in said for name, value in each.items()}


def as_first(tensors: Iterable[Tensor]) -> None:
    """Tensors in place, with the values that they have in the first process."""
    if world_size() > 1:
        for tensor in tensors:
            dist.broadcast(tensor, 0)


def sum_over_processes(x: Tensor) -> Tensor:
    """x in place, summed."""
    if world_size() > 1:
        dist.all_reduce(x)
    return x


def mean_over_processes(x: Tensor) -> Tensor:
    """The mean of x, added up by rank and in double precision: the mean of a part is the part of the mean (not so where
    an all-reduce adds in an order that depends on place and length), and the mean of equal values is the value."""
    if world_size() == 1:
        return x
    parts = gather(x)[0].double().chunk(world_size())
    return (sum(parts[1:], start=parts[0]) / world_size()).to(x.dtype)


def gather(x: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of all processes, in order of rank, and where our own rows are among them.

    x [B, E], the same B in every process  →  pool [world_size * B, E], own [B].

    The gradient of a pooled row is the sum of its gradients in all processes. So where every process minimises the
    mean over its own rows and DDP averages the gradients, they are those of one process with all the rows.
    """
    _require_equal(len(x), x.is_cuda)
    own = torch.arange(len(x), device=x.device) + rank() * len(x)
    return (_Gather.apply(x) if world_size() > 1 else x), own  # type: ignore[no-untyped-call]


def _require_equal(batch: int, on_gpu: bool) -> None:
    """Raise in every process if their batches differ: the backends would abort, or wait for ever. The sizes go from CPU
    to CPU, so that no device has to stop for them."""
    looking = not torch.compiler.is_compiling() and not (on_gpu and torch.cuda.is_current_stream_capturing())
    if world_size() > 1 and looking:
        sizes = [torch.zeros(1, dtype=torch.long) for _ in range(world_size())]
        dist.all_gather(sizes, torch.tensor([batch]), group=_between_cpus())
        if len({int(size) for size in sizes}) > 1:
            raise ValueError(
                f"the processes have batches of {', '.join(str(int(size)) for size in sizes)} examples: give each as "
                "many, by drop_last=True or a DistributedSampler"
            )


def _between_cpus() -> Any:
    """A group of all processes for tensors on the CPU, released with the processes' own."""
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
