"""SAM: its gradient in closed form, what it leaves alone, and training with it."""

import copy
import dataclasses

import pytest
import torch
from miniature import EXPERIMENT, blobs
from torch import nn

from poise import SAM, XE, AugMix, JensenShannon, LeNet, Loss
from poise.data.loading.resident import DeviceLoader, on_device
from poise.training.loop import fit

FCL = EXPERIMENT.methods[2].objective


class Bowl(nn.Module):
    """w alone."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64))
        self.frozen = nn.Parameter(torch.ones(2, dtype=torch.float64), requires_grad=False)
        self.unused = nn.Parameter(torch.ones(2, dtype=torch.float64))

    def embed(self, x: torch.Tensor) -> torch.Tensor:
        return x

    head = forward = embed


MATRIX = torch.tensor([[3.0, 1, 0], [1, 2, 0.5], [0, 0.5, 1]], dtype=torch.float64)


def quadratic(model: Bowl, x: torch.Tensor, y: torch.Tensor, step: int | None = None, **_: object) -> Loss:
    """w A w / 2"""
    total = model.w @ MATRIX @ model.w / 2
    return Loss(total, {"xe": total.detach()}, x)


def test_on_a_quadratic_the_gradient_is_that_of_the_formula() -> None:
    """A (w + rho A w / ||A w||); the loss of the plain weights is reported, and the weights do not move."""
    bowl = Bowl()
    w = bowl.w.detach().clone()
    loss = SAM(quadratic, rho=0.3)(bowl, torch.zeros(1, 3), torch.zeros(1))
    loss.total.backward()
    slope = MATRIX @ w
    climbed = w + 0.3 * slope / slope.norm()
    assert torch.allclose(bowl.w.grad, MATRIX @ climbed, rtol=1e-7)
    assert torch.equal(bowl.w.detach(), w) and bowl.unused.grad is None and bowl.frozen.grad is None
    assert float(loss.total.detach()) == pytest.approx(float(climbed @ MATRIX @ climbed / 2))
    assert float(loss.parts["xe"]) == pytest.approx(float(w @ slope / 2))


def test_without_rho_it_is_the_objective_itself() -> None:
    gradients = []
    for objective in (XE(), SAM(XE(), rho=0)):
        model, (x, y) = network(), batch()
        objective(model, x, y).total.backward()
        gradients.append([weight.grad for weight in model.parameters()])
    assert all(torch.allclose(a, b, atol=1e-7) for a, b in zip(*gradients, strict=True))


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_a_network_gets_the_gradient_at_the_climbed_weights(precision: torch.dtype) -> None:
    """Also under autocast, which keeps copies of the weights: stale ones would give the plain gradient."""
    model, (x, y) = network(), batch()
    other = copy.deepcopy(model)
    with torch.autocast("cpu", precision, enabled=precision != torch.float32):
        loss = SAM(XE(), rho=0.5)(model, x, y).total
    loss.backward()
    with torch.autocast("cpu", precision, enabled=precision != torch.float32):
        XE()(other, x, y).total.backward()
    norm = torch.cat([weight.grad.flatten() for weight in other.parameters()]).norm()
    plain = [weight.grad.clone() for weight in other.parameters()]
    with torch.no_grad():
        for weight in other.parameters():
            weight += 0.5 * weight.grad / norm
    other.zero_grad()
    with torch.autocast("cpu", precision, enabled=precision != torch.float32):
        XE()(other, x, y).total.backward()
    error, gap = (
        sum(float((a.grad - b).square().sum()) for a, b in zip(model.parameters(), others, strict=True)) ** 0.5
        for others in ([weight.grad for weight in other.parameters()], plain)
    )
    assert error < 0.02 * gap


def test_running_statistics_move_once() -> None:
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(3 * 16 * 16))
    model.embed, model.head = model.forward, nn.Identity()
    x, y = torch.rand(8, 3, 16, 16), torch.zeros(8, dtype=torch.int64)
    SAM(XE(), rho=5.0)(model, x, y).total.backward()
    assert int(model[1].num_batches_tracked) == 1 and model[1].track_running_stats
    assert torch.allclose(model[1].running_mean, 0.1 * x.flatten(1).mean(0))


def test_weights_come_back_when_the_second_pass_fails() -> None:
    bowl = Bowl()
    calls = []

    def fails(model: Bowl, *rest: object, **options: object) -> Loss:
        calls.append(model.w.detach().clone())
        if len(calls) == 2:
            raise RuntimeError("lost")
        return quadratic(model, *rest, **options)

    with pytest.raises(RuntimeError, match="lost"):
        SAM(fails)(bowl, torch.zeros(1, 3), torch.zeros(1))
    assert torch.equal(bowl.w.detach(), calls[0]) and not torch.equal(calls[0], calls[1])


@pytest.mark.parametrize("objective", [SAM(XE()), SAM(JensenShannon(FCL, AugMix()))], ids=["SAM", "SAM around both"])
def test_training_with_it_goes_on_bit_for_bit(objective: object, tmp_path: object) -> None:
    plan = dataclasses.replace(EXPERIMENT.plan, epochs=2)
    whole, parts = network(), network()
    fit(whole, objective, loader(), plan)
    fit(parts, objective, loader(), plan, folder=tmp_path, until=1)
    parts = network()
    fit(parts, objective, loader(), plan, folder=tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(whole.state_dict().values(), parts.state_dict().values(), strict=True))


def test_wrong_settings_are_named() -> None:
    with pytest.raises(ValueError, match="rho=-1"):
        SAM(XE(), rho=-1)
    with pytest.raises(TypeError, match="objective=3"):
        SAM(3)  # type: ignore[arg-type]


def network() -> LeNet:
    torch.manual_seed(7)
    return LeNet(3, size=16)


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    examples = blobs(32, 0)
    images, labels = on_device(examples.x, examples.y)
    return images.float() / 255 if images.dtype == torch.uint8 else images, labels


def loader() -> DeviceLoader:
    examples = blobs(96, 0)
    return DeviceLoader(*on_device(examples.x, examples.y), 32, None, seed=5)
