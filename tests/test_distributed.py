"""Two and four gloo processes give the losses, gradients, statistics and counts of one."""

import multiprocessing
import os
import socket
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from streaming import goes_on, judged
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from toys import ConvNet, Smooth

from poise import (
    FCL,
    XE,
    CLGaussian,
    Constant,
    Gaussian,
    GivenUtility,
    GradientUtility,
    InfoNCE,
    Margin,
    TopBottom,
    TrainStep,
    split,
)
from poise.data.loading.resident import DeviceLoader
from poise.distributed import gather, mean_over_processes, rank, start, sum_over_processes, world_size
from poise.errors import TrainingError
from poise.evaluation.accuracy import count_right
from poise.training.batch_norm import SyncBatchNorm, synchronised
from poise.training.engine import Engine
from poise.training.loop import fit
from poise.training.plan import SGD, Plan


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


def _several(size: int, out: Path) -> list[dict[str, Any]]:
    """What each of so many processes brings home from all that is asked below: they take seconds to start."""
    multiprocessing.set_forkserver_preload(["torch._dynamo", "poise.training.loop"])
    mp.start_processes(_process, (size, free_port(), _all, out), nprocs=size, start_method="forkserver")
    return [torch.load(out / f"{number}.pt") for number in range(size)]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return _several(2, tmp_path_factory.mktemp("two"))


@pytest.fixture(scope="module", params=[2, 4])
def several(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    if request.param == 2:
        return request.getfixturevalue("two")
    return _several(request.param, tmp_path_factory.mktemp("several"))


def _all(number: int, size: int) -> dict[str, Any]:
    works = (
        _gradients,
        _gathered,
        _trains_with_batch_norm,
        _norms,
        _norms_on_a_gpu,
        _counts,
        _fits,
        _apart,
        _means,
        _uneven,
    )
    return {work.__name__: work(number, size) for work in (*works, goes_on, judged)}


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
def _uneven(number: int, size: int) -> str:
    """What is said to a process whose batch is not as large as another's."""
    x, y, _ = _batch()
    rows = 4 if number == 0 else 3
    try:
        OBJECTIVES["CL+Gaussian"](Smooth(6).double(), x[:rows], y[:rows])
    except ValueError as error:
        return str(error)
    return "nothing"


def test_unequal_batches_are_named_in_every_process(several: list[dict[str, Any]]) -> None:
    sizes = ", ".join(["4"] + ["3"] * (len(several) - 1))
    for process in several:
        assert process["_uneven"].startswith(f"the processes have batches of {sizes} examples, but need equal")


def test_several_processes_give_the_gradients_of_one(several: list[dict[str, Any]]) -> None:
    expected = _gradients(0, 1)
    for process in several:
        for name in OBJECTIVES:
            for got, want in zip(process["_gradients"][name], expected[name], strict=True):
                torch.testing.assert_close(got, want, msg=lambda text, name=name: f"{name}: {text}")


def _gathered(number: int, size: int) -> dict[str, object]:
    x = (torch.arange(6.0).view(3, 2) + 10 * number).requires_grad_()
    pool, own = gather(x)
    (pool * (torch.arange(3.0 * size)[:, None] + 1) * (number + 1)).sum().backward()
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


@dataclass(frozen=True)
class Push:
    """A perturbation without a draw: the chosen features move by a half."""

    def check(self, x: object) -> None:
        pass

    def __call__(self, x: torch.Tensor, chosen: torch.Tensor, generator: object = None) -> torch.Tensor:
        return x + 0.5 * chosen


def _fcl(statistics: str) -> FCL:
    return FCL(GradientUtility(), TopBottom(8), Push(), InfoNCE(0.2), 0.7, statistics=statistics)


NORMS = {"XE": XE(), "FCL, running": _fcl("running"), "FCL, batch": _fcl("batch")}


def _norms(number: int, size: int, device: str = "cpu") -> dict[tuple[str, bool], list[torch.Tensor]]:
    """Gradients and statistics of a network with batch norm, after two steps, with batch norm over all and without."""
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(8, 3, 5, 5, generator=generator, dtype=torch.float64).to(device)
    y = torch.arange(8, device=device) % 4
    rows = slice(number * 8 // size, (number + 1) * 8 // size)
    found = {}
    for name, objective in NORMS.items():
        for over_all in (True, False):
            torch.manual_seed(0)
            model = ConvNet().double().to(device)
            with synchronised(model) if over_all else nullcontext():
                step = TrainStep(model, objective)
                step = DistributedDataParallel(step) if size > 1 else step
                for turn in range(2):
                    model.zero_grad()
                    step(x[rows] + turn, y[rows], turn).total.backward()
            assert type(model.norm) is torch.nn.BatchNorm2d and model.norm.training
            statistics = [model.norm.running_mean, model.norm.running_var, model.norm.num_batches_tracked]
            found[name, over_all] = [value.cpu() for value in (*(p.grad for p in model.parameters()), *statistics)]
    return found


def _norms_on_a_gpu(number: int, size: int) -> dict[tuple[str, bool], list[torch.Tensor]]:
    return _norms(number, size, "cuda") if torch.cuda.is_available() else {}


@pytest.mark.miniature
@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("where", ["_norms", "_norms_on_a_gpu"])
def test_batch_norm_over_all_processes_is_that_of_one(several: list[dict[str, Any]], name: str, where: str) -> None:
    if not several[0][where]:
        pytest.skip("needs a CUDA device")
    expected = _norms(0, 1)
    for process in several:
        for got, want in zip(process[where][name, True], expected[name, False], strict=True):
            torch.testing.assert_close(got, want)
    apart = [torch.allclose(a, b) for a, b in zip(several[0][where][name, False], expected[name, True], strict=True)]
    assert not all(apart)  # each with its own batch is another network


def _fits(number: int, size: int) -> dict[bool, list[dict[str, Any]]]:
    """The log of a run, with the statistics that a validation finds, with batch norm over all and without."""
    generator = torch.Generator().manual_seed(2)
    images = torch.randint(256, (32, 3, 5, 5), dtype=torch.uint8, generator=generator)
    logs = {}
    for over_all in (True, False):
        torch.manual_seed(0)
        data = DeviceLoader(images, torch.arange(32) % 4, batch_size=8)
        plan = Plan(2, 8, SGD(), Constant(0.1), sync_batch_norm=over_all)
        done = fit(ConvNet(), XE(), data, plan, validate=lambda model: {"mean": model.norm.running_mean.tolist()})
        logs[over_all] = [{"loss": entry["loss"], "mean": entry["mean"]} for entry in done.log]
    return logs


@pytest.mark.miniature
def test_a_run_of_several_processes_has_one_set_of_statistics(several: list[dict[str, Any]]) -> None:
    expected, first = _fits(0, 1), several[0]["_fits"]
    for process in several:
        assert process["_fits"] == first
    for got, want in zip(first[True], expected[True], strict=True):
        assert got["loss"]["xe"] == pytest.approx(want["loss"]["xe"], rel=1e-4)
        assert got["mean"] == pytest.approx(want["mean"], rel=1e-3, abs=1e-5)
    assert expected[True] == expected[False] and first[True] != first[False]


def _apart(number: int, size: int) -> str:
    """What a run says that goes on where each process has a folder of its own: only the first has written."""
    data = DeviceLoader(torch.zeros(8, 3, 5, 5, dtype=torch.uint8), torch.arange(8) % 4, batch_size=4)
    with TemporaryDirectory() as folder:
        for _ in range(2):
            try:
                fit(ConvNet(), XE(), data, Plan(1, 4, SGD(), Constant(0.1)), folder=Path(folder))
            except TrainingError as error:
                return str(error).replace(folder, "runs")
    return "nothing"


@pytest.mark.miniature
def test_a_folder_that_is_not_shared_is_named(two: list[dict[str, Any]]) -> None:
    sentence = "the processes find different checkpoints in runs: use a folder that all nodes share"
    assert [process["_apart"] for process in two] == [sentence, sentence]


def _counts(number: int, size: int) -> list[torch.Tensor]:
    """The counts of a judge, for sets with and without a last part of a batch, and for one of a single batch."""
    torch.manual_seed(3)
    images, labels = torch.randint(256, (29, 1, 6, 6), dtype=torch.uint8), torch.randint(3, (29,))
    model = Smooth(36)
    found = []
    for count, batch in ((29, 4), (28, 4), (3, 4)):
        counts = count_right(model, images[:count], labels[:count], 3, batch, part=number, parts=size)
        found.append(sum_over_processes(counts))
    return found


@pytest.mark.miniature
def test_counts_of_all_processes_are_those_of_one_to_the_last_example(several: list[dict[str, Any]]) -> None:
    expected = _counts(0, 1)
    assert [int(counts[:, 1].sum()) for counts in expected] == [29, 28, 3]
    for process in several:
        assert all(torch.equal(a, b) for a, b in zip(process["_counts"], expected, strict=True))


def _means(number: int, size: int) -> tuple[torch.Tensor, ...]:
    drawn = torch.randn(1000, generator=torch.Generator().manual_seed(number))
    return (whole := mean_over_processes(drawn)), mean_over_processes(drawn[:7]), mean_over_processes(whole)


@pytest.mark.miniature
def test_the_mean_of_a_part_is_the_part_of_the_mean(several: list[dict[str, Any]]) -> None:
    for whole, part, again in (each["_means"] for each in several):
        assert torch.equal(whole, several[0]["_means"][0])
        assert torch.equal(part, whole[:7]) and torch.equal(again, whole)
        drawn = [torch.randn(1000, generator=torch.Generator().manual_seed(n)) for n in range(len(several))]
        torch.testing.assert_close(whole, torch.stack(drawn).mean(0))


@pytest.mark.miniature
def test_streamed_runs_of_several_processes_go_on_from_the_middle_of_an_epoch(several: list[dict[str, Any]]) -> None:
    for process in (each["goes_on"] for each in several):
        assert process["kept"] == ["checkpoint-0001", "checkpoint-0002-000002"]
        (losses, weights), (others, again) = process["straight"], process["again"]
        assert losses[1]["contrast"] > 0 and others[0] == losses[0]
        assert others[1] == losses[1]
        assert all(torch.equal(got, want) for got, want in zip(again, weights, strict=True))


@pytest.mark.miniature
def test_a_streamed_test_counts_every_picture_once_and_names_the_damaged(several: list[dict[str, Any]]) -> None:
    expected = judged(0, 1)
    assert [total for _, total in expected["counts"]] == [9, 8, 9] and expected["damaged"] == ["val_0001_00004.JPEG"]
    assert [process["judged"] for process in several] == [expected] * len(several)


def test_a_train_step_without_processes_is_the_objective() -> None:
    x, y, given = _batch()
    model = Smooth(6).double()
    objective = OBJECTIVES["InfoNCE, mean"]
    step = TrainStep(model, objective)
    assert torch.equal(step(x, y, 0, given=given).total, objective(model, x, y, 0, given=given).total)
    assert len(list(step.parameters())) == len(list(model.parameters()))


def test_a_batch_that_cannot_be_divided_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poise.training.engine.world_size", lambda: 3)
    monkeypatch.setattr(Engine, "_wrapped", lambda engine, step: step)
    data = DeviceLoader(torch.zeros(8, 3, 5, 5, dtype=torch.uint8), torch.arange(8) % 4, batch_size=4)
    with pytest.raises(TrainingError, match="batch_size=4 must be a multiple of the 3 processes"):
        fit(ConvNet(), XE(), data, Plan(1, 4, SGD(), Constant(0.1)))


def test_restarts_with_one_store_for_all_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_MAX_RESTARTS": "3"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="--max-restarts needs TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"):
        start("cpu")


def test_batch_norm_over_all_processes_needs_one_and_comes_back() -> None:
    with pytest.raises(TrainingError, match="leave it out of the plan"), synchronised(Smooth(6)):
        pass
    network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 25, 2))
    model, own = split(network), network[1]
    with synchronised(model):
        model(torch.rand(4, 3, 5, 5))
        assert type(network[1]) is SyncBatchNorm and network[1].weight is own.weight
    assert network[1] is own and int(own.num_batches_tracked) >= 1
