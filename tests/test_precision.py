"""Half precision, torch.compile, channels_last, gradient accumulation: the step works as part of PyTorch."""

import copy

import pytest
import torch
from torch import nn
from toys import BagOfWords, ConvNet, Smooth, sentences

from poise import FCL, Gaussian, GradientUtility, InfoNCE, RemovalUtility, TeacherUtility, TopBottom
from poise.classifier import leaf, run
from poise.losses import CrossEntropy

OBJECTIVE = FCL(GradientUtility(), TopBottom(8), Gaussian(0.5), InfoNCE(0.1), weight=0.5)


def images(batch: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand(batch, 3, 6, 6, generator=torch.Generator().manual_seed(5)), torch.arange(batch) % 4


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(7)


class Scaler:
    """The part of torch.amp.GradScaler that an objective uses, with a fixed scale."""

    def __init__(self, scale: float) -> None:
        self.factor = scale

    def scale(self, outputs: torch.Tensor) -> torch.Tensor:
        return outputs * self.factor

    def is_enabled(self) -> bool:
        return True


class Faint(nn.Module):
    """A network whose input gradients are about 1e-8: below what float16 can hold, well within float32."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(8, 4, bias=False)
        self.head = nn.Linear(4, 3, bias=False)
        self.body.weight.data.mul_(1e-4)
        self.head.weight.data.mul_(1e-4)

    def embed(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.embed(x))


def utility_in_float16(model: nn.Module, x: torch.Tensor, y: torch.Tensor, scaler: Scaler | None) -> torch.Tensor:
    forward = run(model, leaf(x), y, CrossEntropy(), scaler=scaler)
    return GradientUtility()(model, x, y, forward=forward)


def test_float16_utility_underflows_without_a_scale_and_not_with_one() -> None:
    model, x, y = Faint(), torch.rand(4, 8), torch.tensor([0, 1, 2, 0])
    exact = GradientUtility()(model, x, y)
    half = copy.deepcopy(model).half()
    assert exact.min() > 0 and exact.max() < 6e-8
    lost = utility_in_float16(half, x.half(), y, Scaler(1.0))
    assert (lost == 0).float().mean() > 0.5
    kept = utility_in_float16(half, x.half(), y, Scaler(2.0**16))
    assert kept.dtype == torch.float32
    torch.testing.assert_close(kept, exact, rtol=0.1, atol=1e-9)


@pytest.mark.parametrize("utility", [GradientUtility(own_forward=True), "teacher"])
def test_a_utility_with_a_pass_of_its_own_is_scaled_too(utility) -> None:
    model, x, y = Faint(), torch.rand(4, 8), torch.tensor([0, 1, 2, 0])
    exact = GradientUtility()(model, x, y)
    half = copy.deepcopy(model).half()
    forward = run(half, x.half(), y, CrossEntropy(), scaler=Scaler(2.0**16))
    measured = TeacherUtility(half) if utility == "teacher" else utility
    torch.testing.assert_close(measured(half, x.half(), y, forward=forward), exact, rtol=0.1, atol=1e-9)


def test_a_disabled_scaler_is_none() -> None:
    model, x, y = Faint().half(), torch.rand(4, 8).half(), torch.tensor([0, 1, 2, 0])
    off = torch.amp.GradScaler("cpu", enabled=False)
    assert torch.equal(utility_in_float16(model, x, y, off), utility_in_float16(model, x, y, None))


def test_a_fixed_scale_keeps_what_float16_would_lose() -> None:
    model, x, y = Faint(), torch.rand(4, 8), torch.tensor([0, 1, 2, 0])
    exact = GradientUtility()(model, x, y)
    kept = utility_in_float16(copy.deepcopy(model).half(), x.half(), y, None)
    torch.testing.assert_close(kept, exact, rtol=0.3, atol=3e-10)


def test_a_half_model_without_a_scaler_gets_a_fixed_scale() -> None:
    model, x, y = Smooth(8).half(), torch.rand(4, 8).half(), torch.tensor([0, 1, 2, 0])
    u = GradientUtility()(model, x, y)
    torch.testing.assert_close(u, GradientUtility()(copy.deepcopy(model).float(), x.float(), y), rtol=0.05, atol=1e-3)
    loss = FCL(GradientUtility(), TopBottom(2), Gaussian(0.5), InfoNCE(0.1), 0.5)(model, x, y)
    assert loss.total.dtype == torch.float32
    loss.total.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_a_scale_that_overflows_drops_the_contrast_and_not_the_run() -> None:
    model, x, y = Smooth(8).half(), torch.rand(4, 8).half(), torch.tensor([0, 1, 2, 0])
    objective = FCL(GradientUtility(), TopBottom(2), Gaussian(0.5), InfoNCE(0.1), 0.5)
    loss = objective(model, x, y, scaler=Scaler(2.0**40))
    assert loss.parts["contrast"] == 0
    assert loss.total.isfinite()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype: torch.dtype) -> None:
    model, (x, y) = ConvNet(), images()
    exact = OBJECTIVE(copy.deepcopy(model), x, y, generator=seeded())
    with torch.autocast("cpu", dtype=dtype):
        loss = OBJECTIVE(model, x, y, generator=seeded())
    loss.total.backward()
    assert loss.total.dtype == torch.float32
    assert loss.total.item() == pytest.approx(exact.total.item(), rel=0.1)


def test_a_grad_scaler_step() -> None:
    model, (x, y) = ConvNet(), images()
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = model.conv.weight.detach().clone()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = OBJECTIVE(model, x, y, scaler=scaler)
    scaler.scale(loss.total).backward()
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(model.conv.weight, before)


def test_channels_last_reaches_every_view() -> None:
    model, (x, y) = ConvNet().to(memory_format=torch.channels_last), images()
    seen = []
    model.conv.register_forward_hook(
        lambda module, args, output: seen.append(args[0].is_contiguous(memory_format=torch.channels_last))
    )
    loss = OBJECTIVE(model, x.to(memory_format=torch.channels_last), y, generator=seeded())
    loss.total.backward()
    assert seen == [True, True, True]  # the first step looks at two examples of a view once


@pytest.mark.miniature
def test_a_compiled_embed_gives_the_same_step() -> None:
    torch._dynamo.reset()
    model, (x, y) = ConvNet(), images()
    compiled = copy.deepcopy(model)
    compiled.embed = torch.compile(compiled.embed, backend="aot_eager")
    for step in range(2):
        losses = [OBJECTIVE(m, x, y, step, generator=seeded()).total for m in (model, compiled)]
        torch.testing.assert_close(*losses)
        for m, loss in zip((model, compiled), losses, strict=True):
            m.zero_grad()
            loss.backward()
        for p, q in zip(model.parameters(), compiled.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad)


def test_accumulated_micro_batches_add_up() -> None:
    """The negatives are those of the micro-batch; the gradients of the two halves add up like any loss's."""
    model, (x, y) = Smooth(108), images()
    y = y % 3
    halves = [(x[:4], y[:4]), (x[4:], y[4:])]
    separate = []
    for half, labels in halves:
        model.zero_grad()
        (OBJECTIVE(model, half, labels, generator=seeded()).total / 2).backward()
        separate.append([p.grad.clone() for p in model.parameters()])
    model.zero_grad()
    for half, labels in halves:
        (OBJECTIVE(model, half, labels, generator=seeded()).total / 2).backward()
    for p, a, b in zip(model.parameters(), *separate, strict=True):
        torch.testing.assert_close(p.grad, a + b)


def test_removal_under_autocast_has_more_than_eight_bits() -> None:
    """Embeddings are exact here (a sum of a few words), so that only a head of 8 bits could lose anything."""
    model, x, y = BagOfWords(), sentences([9, 7, 8]), torch.tensor([0, 1, 2])
    exact = RemovalUtility()(model, x, y)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(RemovalUtility()(model, x, y), exact, rtol=1e-5, atol=1e-6)


class Steep(Smooth):
    """Input gradients of some hundreds, which float16 holds, but not times any scale."""

    def embed(self, x: torch.Tensor) -> torch.Tensor:
        return super().embed(x) * 400


@pytest.mark.parametrize("batch", [1, 2, 4, 64])
@pytest.mark.parametrize("network", [Smooth, Steep])
@pytest.mark.parametrize("how", ["half", "autocast"])
def test_float16_utility_without_a_scaler_does_not_depend_on_the_batch_size(batch: int, network, how: str) -> None:
    model = network(8)
    model.head.weight.data.mul_(4)
    x, y = torch.rand(batch, 8), (torch.arange(batch) + 1) % 3
    exact = GradientUtility()(model, x, y)
    if how == "half":
        u = GradientUtility()(copy.deepcopy(model).half(), x.half(), y)
    else:
        with torch.autocast("cpu", torch.float16):
            u = GradientUtility()(model, x, y)
    assert u.isfinite().all()
    torch.testing.assert_close(u, exact, rtol=0.1, atol=0.02 * exact.max().item())


def test_a_float16_step_keeps_the_contrast_of_a_batch_of_two() -> None:
    model, x, y = Steep(8).half(), torch.rand(2, 8).half(), torch.tensor([0, 1])
    loss = FCL(GradientUtility(), TopBottom(2), Gaussian(0.5), InfoNCE(0.1), 0.5)(model, x, y)
    assert loss.parts["contrast"] > 0


def test_float16_inside_a_network_that_ends_in_float32_is_scaled_too() -> None:
    model, x, y = Faint(), torch.rand(4, 8), torch.tensor([0, 1, 2, 0])
    exact = GradientUtility()(model, x, y)
    for layer in (model.body, model.head):
        layer.register_forward_hook(lambda module, args, output: output.float())
    with torch.autocast("cpu", torch.float16):
        u = GradientUtility()(model, x, y)
    torch.testing.assert_close(u, exact, rtol=0.3, atol=3e-10)
