"""Fleets: several runs as one batched model do what each run does alone."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from poise import (
    FCL,
    XE,
    CLGaussian,
    Constant,
    Gaussian,
    GradientUtility,
    InfoNCE,
    LeNet,
    Margin,
    Ramp,
    ResNet,
    TopBottom,
    XEGaussian,
)
from poise.data.loading.resident import DeviceLoader
from poise.models.replicas import Replicas
from poise.objectives.objective import Objective, Statistics
from poise.training.fleet import FleetLoader, fleet_objective
from poise.training.loop import fit
from poise.training.plan import SGD, Adam, Plan

CPU = torch.device("cpu")
PEAKS = (0.0, 0.3, 1.0)


def networks(kind: str = "LeNet") -> list[nn.Module]:
    made = []
    for seed in range(len(PEAKS)):
        torch.manual_seed(seed)
        made.append(LeNet(4, size=16) if kind == "LeNet" else ResNet(4, [(1, 4, 1), (1, 8, 2)], mean=[0.5], std=[0.5]))
    return made


@dataclass(frozen=True)
class Shift:
    """A perturbation without chance: the chosen features move by 0.3."""

    def check(self, x: object) -> None: ...

    def __call__(self, x: Tensor, chosen: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return x + 0.3 if chosen is None else torch.where(chosen, x + 0.3, x)


@dataclass(frozen=True)
class HalfByRank:
    """The lower and the upper half of the features, ties to the first ones."""

    def check(self, shape: torch.Size) -> None: ...

    def __call__(
        self, u: Tensor, valid: Tensor | None = None, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        ranks = u.flatten(1).argsort(dim=1, stable=True).argsort(dim=1).view_as(u)
        low = ranks < u[0].numel() // 2
        return low, ~low


def objectives(kind: str) -> list[Objective]:
    def one(weight: Ramp) -> Objective:
        fcl = FCL(GradientUtility(), HalfByRank(), Shift(), InfoNCE(0.2), weight)
        made: dict[str, Objective] = {
            "XE": XE(),
            "FCL": fcl,
            "FCL, margin": replace(fcl, contrast=Margin()),
            "FCL, dropped": replace(fcl, drop_below=0.02),
            "FCL, sum": replace(fcl, contrast=InfoNCE(0.2, reduction="sum")),
            "CL": CLGaussian(Shift(), InfoNCE(0.2), weight),
            "XE+Gaussian": XEGaussian(Shift(), replace(weight, peak=0.4)),
        }
        return made[kind]

    return [one(Ramp(peak, start=0, length=0)) for peak in PEAKS]


def loaders() -> tuple[DeviceLoader, ...]:
    generator = torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, (48, 1, 16, 16), dtype=torch.uint8, generator=generator)
    labels = torch.randint(4, (48,), generator=generator)
    return tuple(DeviceLoader(images, labels, 16, seed=seed) for seed in range(len(PEAKS)))


def batches() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    x = torch.rand(8, len(PEAKS), 1, 16, 16, generator=generator)
    return x, torch.randint(4, (8, len(PEAKS)), generator=generator)


@pytest.mark.parametrize("network", ["LeNet", "ResNet"])
@pytest.mark.parametrize("kind", ["XE", "FCL", "FCL, margin", "FCL, dropped", "FCL, sum", "CL", "XE+Gaussian"])
def test_every_replica_gets_the_loss_and_the_gradient_of_its_own_run(kind: str, network: str) -> None:
    check_replicas(networks(network), Replicas(networks(network)), objectives(kind))


@pytest.mark.parametrize("statistics", ["running", "batch", "moving"])
def test_the_views_of_every_replica_have_the_statistics_of_its_own_run(statistics: Statistics) -> None:
    fleet, each = Replicas(networks("ResNet")), objectives("FCL")
    each[0] = replace(each[0], weight=Ramp(0.1))  # with a weight of 0, a run alone has no views
    check_replicas(networks("ResNet"), fleet, [replace(objective, statistics=statistics) for objective in each])
    updates = 3 if statistics == "moving" else 1
    assert fleet.state_of(1)["norm.num_batches_tracked"] == updates and fleet.training


def check_replicas(alone: list[nn.Module], fleet: Replicas, each: list[Objective]) -> None:
    """Loss, gradients and statistics of a fleet after a step are those of its runs."""
    x, y = batches()
    loss = fleet_objective(each, CPU)(fleet, x.flatten(0, 1), y.flatten())
    loss.total.backward()
    for place, (network, objective) in enumerate(zip(alone, each, strict=True)):
        own = objective(network, x[:, place], y[:, place])
        own.total.backward()
        for (name, weight), stacked in zip(network.named_parameters(), fleet.weights, strict=True):
            close = {"rtol": 1e-4, "atol": 1e-5 * float(weight.grad.abs().max())}
            torch.testing.assert_close(stacked.grad[place], weight.grad, **close, msg=name)
        for name, statistic in fleet.state_of(place).items():
            torch.testing.assert_close(statistic, network.state_dict()[name], rtol=1e-4, atol=1e-6, msg=name)
        assert "xe" in loss.parts
        for name in set(loss.parts) & set(own.parts):  # where its weight is 0, a run alone has no contrast
            part = torch.as_tensor(own.parts[name])
            torch.testing.assert_close(loss.parts[name][place], part, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    # Adam's usual eps makes steps of full size out of gradients that are nothing but rounding.
    "optimizer",
    [Adam(eps=1e-4), SGD(weight_decay=1e-3), SGD(weight_decay=1.0, decays="kernels")],
)
def test_a_fleet_is_trained_as_its_runs_are(optimizer: object) -> None:
    train_both(Plan(2, 16, optimizer, Constant(0.003)), "LeNet")


def test_a_fleet_with_batch_norm_is_trained_as_its_runs_are() -> None:
    train_both(Plan(2, 16, SGD(weight_decay=1e-3, decays="kernels"), Constant(0.02), average=0.9), "ResNet")


def train_both(plan: Plan, network: str) -> None:
    fleet, alone, objective = Replicas(networks(network)), networks(network), objectives("CL")
    together_log = fit(fleet, fleet_objective(objective, CPU), FleetLoader(loaders()), plan).log
    for place, (own, loader) in enumerate(zip(alone, loaders(), strict=True)):
        log = fit(own, objective[place], loader, plan).log
        for name, weight in fleet.state_of(place).items():
            torch.testing.assert_close(weight, own.state_dict()[name], rtol=1e-2, atol=1e-4, msg=name)
        assert together_log[1]["loss"]["xe"][place] == pytest.approx(log[1]["loss"]["xe"], rel=1e-4)


def test_a_fleet_with_batch_norm_that_was_stopped_ends_as_one_that_was_not(tmp_path: Path) -> None:
    def trained(folder: Path, until: int | None = None) -> dict[str, Tensor]:
        fleet, plan = Replicas(networks("ResNet")), Plan(3, 16, SGD(), Constant(0.02))
        fit(fleet, fleet_objective(objectives("FCL"), CPU), FleetLoader(loaders()), plan, folder=folder, until=until)
        return fleet.state_dict()

    trained(tmp_path / "stopped", until=1)
    stopped, straight = trained(tmp_path / "stopped"), trained(tmp_path / "straight")
    assert stopped.keys() == straight.keys() and any("running_var" in name for name in straight)
    assert all(torch.equal(stopped[name], straight[name]) for name in straight)


def test_a_network_in_evaluation_uses_the_statistics_of_its_own_run() -> None:
    alone, fleet, (x, _) = networks("ResNet"), Replicas(networks("ResNet")), batches()
    fleet.train()(x.flatten(0, 1))
    found = fleet.eval()(x.flatten(0, 1)).view(*x.shape[:2], -1)
    for place, network in enumerate(alone):
        network.train()(x[:, place])
        torch.testing.assert_close(found[:, place], network.eval()(x[:, place]), rtol=1e-4, atol=1e-5)


def test_noise_is_drawn_for_every_replica_anew() -> None:
    objective = CLGaussian(Gaussian(0.5), InfoNCE(0.2), Ramp(1.0))
    one = networks()[0]
    x, y = batches()
    same = x[:, :1].expand_as(x).flatten(0, 1)
    parts = fleet_objective([objective] * 3, CPU)(Replicas([one] * 3), same, y[:, :1].expand_as(y).flatten()).parts
    assert torch.equal(parts["xe"], parts["xe"][0].expand(3)) and len(set(parts["contrast"].tolist())) == 3


def test_what_cannot_be_one_fleet_is_refused() -> None:
    first = objectives("FCL")[1]
    with pytest.raises(ValueError, match="differ in the peak of a Ramp only"):
        fleet_objective([first, replace(first, contrast=InfoNCE(0.5))], CPU)
    noisy = [XEGaussian(Gaussian(0.5), Ramp(peak)) for peak in (0.1, 0.2)]
    with pytest.raises(ValueError, match="differ"):
        fleet_objective(noisy, CPU)
    with pytest.raises(ValueError, match=r'statistics="moving" with a peak of 0 is not supported in fleets'):
        fleet_objective([replace(each, statistics="moving") for each in objectives("FCL")], CPU)
    for layer, reason in (
        (nn.GroupNorm(1, 3), "GroupNorm is not supported in fleets, only Conv2d, Linear and BatchNorm layers are"),
        (nn.BatchNorm2d(3, momentum=None), "BatchNorm2d with momentum=None is not supported in fleets"),
        (nn.InstanceNorm2d(3, track_running_stats=True), "InstanceNorm2d has buffers of its own"),
    ):
        with pytest.raises(ValueError, match=reason):
            Replicas([nn.Sequential(layer)])
    other = ResNet(4, [(1, 4, 1)], mean=[0.4], std=[0.5])
    with pytest.raises(ValueError, match=r"normalize\.mean differs between the networks of a fleet"):
        Replicas([ResNet(4, [(1, 4, 1)], mean=[0.5], std=[0.5]), other])
    select = TopBottom(k=4)
    assert fleet_objective([replace(first, select=select)] * 2, CPU).peaks.tolist() == pytest.approx([0.3, 0.3])
