"""Benchmark of the training engine: seconds per epoch of XE and FCL, compared with a plain eager loop.

The plain loop is what a careful user writes: batches of tensors on the device, autocast, the same memory layout, tuned
cuDNN. Its FCL makes a separate pass for the utility and one forward each for x, near and far.

For a network that supports fleets, ten seeds are also trained at once; the time of their epoch is divided by ten.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from poise.classifier import evaluating
from poise.data.augment import Augmentation, Standard
from poise.data.loading.resident import DeviceLoader
from poise.features.perturbation import Gaussian
from poise.features.selection import TopBottom
from poise.features.utility import GradientUtility
from poise.models.lenet import LeNet
from poise.models.replicas import Replicas
from poise.models.resnet import resnet56
from poise.objectives.contrast import InfoNCE
from poise.objectives.fcl import FCL
from poise.objectives.objective import XE
from poise.schedules import Constant
from poise.training.engine import Engine, compiled, compiles
from poise.training.fleet import FleetLoader, fleet_objective
from poise.training.plan import SGD, Adam, Plan, in_layout


@dataclass(frozen=True)
class Case:
    """A network on images of its shape; `fleet` is the number of networks trained together, 1 if not supported."""

    name: str
    build: Callable[[], nn.Module]
    shape: tuple[int, int, int]
    images: int
    augment: Augmentation | None
    plan: Plan
    contrast: InfoNCE
    fleet: int = 1


@dataclass(frozen=True)
class Timing:
    """Seconds per epoch, and the fraction of them in which the GPU was busy, if measured."""

    objective: str
    way: str
    seconds: float
    busy: float | None = None


CASES = {
    "lenet": Case(
        "LeNet, synthetic MNIST",
        lambda: LeNet(15),
        (1, 28, 28),
        50_250,
        None,
        Plan(20, 128, Adam(), Constant(0.01)),
        InfoNCE(temperature=0.1),
        fleet=10,
    ),
    "resnet56": Case(
        "ResNet-56, CIFAR",
        lambda: resnet56(10),
        (3, 32, 32),
        50_000,
        Standard(4),
        Plan(450, 1024, SGD(weight_decay=1e-4), Constant(0.1), precision="bfloat16", compile=True),
        InfoNCE(temperature=2.0, reduction="sum"),
    ),
}


def time_epochs(case: Case, device: torch.device, epochs: int, share: float = 1.0) -> Iterator[Timing]:
    """Yield each timing as it is measured. `share` is the fraction of the images to use, for slow machines."""
    count = int(case.images * share)
    generator = torch.Generator(device).manual_seed(0)
    images = torch.randint(0, 256, (count, *case.shape), dtype=torch.uint8, device=device, generator=generator)
    labels = torch.randint(0, 10, (count,), device=device, generator=generator)
    images = images.contiguous(memory_format=case.plan.layout)
    data = DeviceLoader(images, labels, case.plan.batch_size, case.augment)
    fcl = FCL(GradientUtility(), TopBottom(k=256), Gaussian(sigma=0.5), case.contrast, weight=1e-4)
    torch.backends.cudnn.benchmark = True
    for name, objective, plain in (("XE", XE(), plain_xe), ("FCL", fcl, plain_fcl(fcl))):
        yield Timing(name, "plain eager PyTorch", _timed(_plainly(case, device, data, plain), device, epochs))
        with _by_engine(case, device, data, objective) as epoch:
            yield Timing(name, "engine", _timed(epoch, device, epochs), _busy(epoch, device))
        if case.fleet > 1:
            epoch = _as_fleet(case, device, data, objective)
            yield Timing(name, f"engine, {case.fleet} at once", _timed(epoch, device, epochs) / case.fleet)


def _timed(epoch: Callable[[int], object], device: torch.device, epochs: int) -> float:
    """Mean seconds per epoch, without the first epoch, which compiles and captures."""
    epoch(0)
    _wait(device)
    begun = time.perf_counter()
    for number in range(1, epochs + 1):
        epoch(number)
    _wait(device)
    return (time.perf_counter() - begun) / epochs


@contextmanager
def _by_engine(
    case: Case, device: torch.device, data: DeviceLoader, objective: Any
) -> Iterator[Callable[[int], object]]:
    model = _network(case, device)
    with compiled(model) if compiles(model, case.plan, device) else nullcontext():
        optimizer = case.plan.optimizer(model.parameters(), device)
        yield Engine(model, objective, data, optimizer, case.plan).epoch


def _as_fleet(case: Case, device: torch.device, data: DeviceLoader, objective: Any) -> Callable[[int], object]:
    model = Replicas([case.build() for _ in range(case.fleet)]).to(device)
    loaders = FleetLoader(tuple(replace(data, seed=seed) for seed in range(case.fleet)))
    optimizer = case.plan.optimizer(model.parameters(), device)
    return Engine(model, fleet_objective([objective] * case.fleet, device), loaders, optimizer, case.plan).epoch


def _busy(epoch: Callable[[int], object], device: torch.device) -> float | None:
    """The fraction of an epoch's time in which GPU kernels run; None without a GPU."""
    if device.type != "cuda":
        return None
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(
        activities=activities, acc_events=True
    ) as seen:  # without acc_events, torch warns about cycles
        begun = time.perf_counter()
        epoch(1)
        _wait(device)
        seconds = time.perf_counter() - begun
    return float(sum(each.self_device_time_total for each in seen.key_averages())) / 1e6 / seconds


def _plainly(case: Case, device: torch.device, data: DeviceLoader, loss: Any) -> Callable[[int], object]:
    model = _network(case, device)
    kind = torch.optim.SGD if isinstance(case.plan.optimizer, SGD) else torch.optim.Adam
    settings: dict[str, Any] = {"momentum": 0.9, "nesterov": True} if kind is torch.optim.SGD else {}
    optimizer = kind(model.parameters(), lr=case.plan.learning_rate(0), **settings)

    def epoch(number: int) -> None:
        model.train()
        for x, y in data.epoch(number):
            optimizer.zero_grad()
            with torch.autocast(device.type, torch.bfloat16, enabled=case.plan.precision == "bfloat16"):
                total = loss(model, x, y)
            total.backward()
            optimizer.step()

    return epoch


def plain_xe(model: Any, x: Tensor, y: Tensor) -> Tensor:
    """Plain cross-entropy."""
    return F.cross_entropy(model(x), y)


def plain_fcl(fcl: FCL) -> Callable[[Any, Tensor, Tensor], Tensor]:
    """FCL with a separate pass for the utility, and one forward each for x, near and far."""

    def loss(model: Any, x: Tensor, y: Tensor) -> Tensor:
        image = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(F.cross_entropy(model(image), y, reduction="sum"), image)
        low, high = fcl.select(gradient.abs().float())
        z = model.embed(x)
        with evaluating(model):
            near, far = model.embed(fcl.perturb(x, low)), model.embed(fcl.perturb(x, high))
        return F.cross_entropy(model.head(z), y) + 1e-4 * fcl.contrast(z, near, far)

    return loss


def _network(case: Case, device: torch.device) -> nn.Module:
    torch.manual_seed(0)
    return in_layout(case.build().to(device), case.plan)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
