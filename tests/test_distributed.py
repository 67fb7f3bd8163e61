"""Two gloo processes give the losses and gradients of one."""

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel
from toys import ConvNet, Smooth

from poise import FCL, XE, CLGaussian, Gaussian, GivenUtility, InfoNCE, Margin, TopBottom, TrainStep
from poise.distributed import gather, rank, world_size


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _process(number: int, size: int, port: int, work: Callable[[int, int], object], out: Path) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(number), WORLD_SIZE=str(size))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=number, world_size=size)
    torch.save(work(number, size), out / f"{number}.pt")
    while not all((out / f"{other}.pt").exists() for other in range(size)):
        time.sleep(0.01)
    os._exit(0)  # gloo's threads sometimes abort a process that takes itself down in order


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of two processes brings home from all that is asked below: they take seconds to start."""
    out = tmp_path_factory.mktemp("two")
    mp.spawn(_process, (2, free_port(), _all, out), nprocs=2)
    return [torch.load(out / f"{number}.pt") for number in range(2)]


def _all(number: int, size: int) -> dict[str, Any]:
    return {work.__name__: work(number, size) for work in (_gradients, _gathered, _trains_with_batch_norm)}


OBJECTIVES = {
    "XE": XE(),
    "InfoNCE, mean": FCL(GivenUtility(), TopBottom(2), Gaussian(0.0), InfoNCE(0.2), 0.7),
    "InfoNCE, sum": FCL(GivenUtility(), TopBottom(2), Gaussian(0.0), InfoNCE(0.2, "sum"), 0.7),
    "Margin, sum": FCL(GivenUtility(), TopBottom(2), Gaussian(0.0), Margin(2.0, "euclidean", "sum"), 0.7),
    "CL+Gaussian": CLGaussian(Gaussian(0.0), InfoNCE(0.2), 0.7),
}


def _batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    x, given = torch.rand(2, 8, 6, generator=generator, dtype=torch.float64)
    return x, torch.arange(8) % 3, given


def _gradients(number: int, size: int) -> dict[str, list[torch.Tensor]]:
    """The gradients of one step of every objective, each process with its share of the batch."""
    rows = slice(number * 8 // size, (number + 1) * 8 // size)
    x, y, given = (part[rows] for part in _batch())
    grads = {}
    for name, objective in OBJECTIVES.items():
        torch.manual_seed(0)
        model = Smooth(6).double()
        step = TrainStep(model, objective)
        parallel = DistributedDataParallel(step) if size > 1 else step
        parallel(x, y, 0, given=given).total.backward()
        grads[name] = [p.grad for p in model.parameters()]
    return grads


@pytest.mark.miniature
def test_two_processes_give_the_gradients_of_one(two: list[dict[str, Any]]) -> None:
    expected = _gradients(0, 1)
    for process in two:
        for name in OBJECTIVES:
            for got, want in zip(process["_gradients"][name], expected[name], strict=True):
                torch.testing.assert_close(got, want, msg=lambda text, name=name: f"{name}: {text}")


def _gathered(number: int, size: int) -> dict[str, object]:
    x = (torch.arange(6.0).view(3, 2) + 10 * number).requires_grad_()
    pool, own = gather(x)
    (pool * (torch.arange(6.0)[:, None] + 1) * (number + 1)).sum().backward()
    return {"pool": pool.detach(), "own": own, "grad": x.grad, "who": (rank(), world_size())}


@pytest.mark.miniature
def test_gather_has_all_rows_and_the_gradient_of_all_processes(two: list[dict[str, Any]]) -> None:
    first, second = (process["_gathered"] for process in two)
    rows = torch.cat([torch.arange(6.0).view(3, 2), torch.arange(6.0).view(3, 2) + 10])
    assert torch.equal(first["pool"], rows) and torch.equal(second["pool"], rows)
    assert torch.equal(rows[second["own"]], rows[3:])
    assert (first["who"], second["who"]) == ((0, 2), (1, 2))
    weights = (torch.arange(6.0)[:, None] + 1).expand(6, 2) * (1 + 2)  # the sum over both processes
    assert torch.equal(torch.cat([first["grad"], second["grad"]]), weights)


def test_one_process_gathers_itself() -> None:
    x = torch.rand(3, 2, requires_grad=True)
    pool, own = gather(x)
    assert pool is x
    assert own.tolist() == [0, 1, 2]
    assert (rank(), world_size()) == (0, 1)


def _trains_with_batch_norm(number: int, size: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    from poise import GradientUtility

    objective = FCL(GradientUtility(), TopBottom(8), Gaussian(0.5), InfoNCE(0.1), 0.5)
    step = DistributedDataParallel(TrainStep(ConvNet(), objective))
    optimizer = torch.optim.SGD(step.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(number)
    for number_of_step in range(3):
        x = torch.rand(4, 3, 5, 5, generator=generator)
        optimizer.zero_grad()
        step(x, torch.arange(4), number_of_step, generator=generator).total.backward()
        optimizer.step()
    return [p.detach() for p in step.parameters()]


@pytest.mark.miniature
def test_processes_stay_in_step_with_gradient_utility_and_batch_norm(two: list[dict[str, Any]]) -> None:
    first, second = (process["_trains_with_batch_norm"] for process in two)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_a_train_step_without_processes_is_the_objective() -> None:
    x, y, given = _batch()
    model = Smooth(6).double()
    objective = OBJECTIVES["InfoNCE, mean"]
    step = TrainStep(model, objective)
    assert torch.equal(step(x, y, 0, given=given).total, objective(model, x, y, 0, given=given).total)
    assert len(list(step.parameters())) == len(list(model.parameters()))
