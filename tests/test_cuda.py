"""On a CUDA device: the same numbers, no stall, and errors that leave the device alive."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from test_losses import assert_exact, judged, sure_and_wrong
from toys import ConvNet, Smooth, sentences

from poise import (
    FCL,
    XE,
    AugMix,
    CLGaussian,
    CrossEntropy,
    Gaussian,
    GivenUtility,
    GradientUtility,
    InfoNCE,
    JacobianSensitivity,
    JensenShannon,
    Margin,
    PatchGaussian,
    RemovalUtility,
    Remove,
    Standard,
    TopBottom,
    TopBottomFraction,
    Transformer,
    XEGaussian,
    audit,
)
from poise.losses import ExampleLoss
from poise.running.benchmark import _busy

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode"),
]

OBJECTIVES = {
    "XE": XE(),
    "XE+Gaussian": XEGaussian(Gaussian(0.3), weight=0.1),
    "CL+Gaussian": CLGaussian(Gaussian(0.5), InfoNCE(0.5), weight=0.1),
    "FCL": FCL(GradientUtility(), TopBottom(8), Gaussian(0.5), InfoNCE(0.1), weight=0.1),
    "FCL, own forward": FCL(GradientUtility(True), TopBottom(8, "pixel"), Gaussian(0.5, (0, 1)), Margin(), weight=0.1),
}
OBJECTIVES |= {
    **{f"FCL, {how}": dataclasses.replace(OBJECTIVES["FCL"], statistics=how) for how in ("batch", "moving")},
    "AugMix": JensenShannon(XE(), AugMix()),
    "AugMix+FCL": JensenShannon(OBJECTIVES["FCL"], AugMix()),
}

every = pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES.keys())


def images(batch: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand(batch, 3, 6, 6, device="cuda"), torch.arange(batch, device="cuda") % 4


def seeded(seed: int = 7) -> torch.Generator:
    return torch.Generator("cuda").manual_seed(seed)


@every
def test_a_step_never_waits_for_the_device(objective) -> None:
    model, (x, y) = ConvNet().cuda(), images()
    objective(model, x, y).total.backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        objective(model, x, y, generator=seeded()).total.backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all(p.grad is not None for p in model.parameters())


@every
def test_a_generator_makes_a_step_reproducible(objective) -> None:
    model, (x, y) = ConvNet().cuda().eval(), images()
    totals = [objective(model, x, y, generator=seeded(seed)).total.item() for seed in (1, 1)]
    assert totals[0] == totals[1]


def test_a_step_on_sentences_never_waits_where_the_number_of_tokens_is_bounded() -> None:
    objective = FCL(RemovalUtility(), TopBottomFraction(0.1), Remove(), InfoNCE(0.02), weight=0.5)
    model = Transformer(2, 20, width=32, layers=1, heads=4, feed_forward=32, dropout=0.1).cuda()
    x = dataclasses.replace(sentences([9, 4, 7, 3], special=True).to("cuda"), most=7)
    y = torch.tensor([0, 1, 1, 0], device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        objective(model, x, y).total.backward()
        torch.cuda.set_sync_debug_mode("error")
        try:
            objective(model, x, y, generator=seeded()).total.backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert all(p.grad is not None for p in model.parameters())


def test_the_same_numbers_as_on_the_cpu() -> None:
    """With the noise at 0 and the utility given, nothing is drawn."""
    objective = FCL(GivenUtility(), TopBottom(8), Gaussian(0.0), InfoNCE(0.1), weight=0.5)
    model, x, y, given = (
        ConvNet().double(),
        torch.rand(8, 3, 6, 6).double(),
        torch.arange(8) % 4,
        torch.rand(8, 3, 6, 6),
    )
    expected = objective(copy.deepcopy(model), x, y, given=given).total.item()
    assert objective(model.cuda(), x.cuda(), y.cuda(), given=given.cuda()).total.item() == pytest.approx(expected)
    u = GradientUtility()(model, x.cuda(), y.cuda())
    torch.testing.assert_close(u.cpu(), GradientUtility()(model.cpu(), x, y))
    s = JacobianSensitivity()(model, x)
    torch.testing.assert_close(JacobianSensitivity()(model.cuda(), x.cuda()).cpu(), s)


def test_a_label_out_of_range_makes_the_loss_nan_and_leaves_the_device_alive() -> None:
    model, (x, y) = ConvNet().cuda(), images()
    y[3] = 99
    assert OBJECTIVES["FCL"](model, x, y).total.isnan()
    assert torch.ones(1, device="cuda").item() == 1


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_an_input_that_is_not_finite_makes_the_loss_nan(value: float) -> None:
    model, x, y = Smooth(8).cuda(), torch.rand(4, 8, device="cuda"), torch.arange(4, device="cuda") % 3
    x[2, 0] = value
    for objective in (XE(), FCL(GradientUtility(), TopBottom(2), Gaussian(0.1), InfoNCE(0.1), 0.5)):
        assert objective(model, x, y).total.isnan()


def test_a_batch_on_the_wrong_device_is_named() -> None:
    model, (x, y) = ConvNet().cuda(), images()
    with pytest.raises(ValueError, match="x is on cpu, the model is on cuda"):
        XE()(model, x.cpu(), y)
    with pytest.raises(ValueError, match="y is on cpu, the logits are on cuda"):
        XE()(model, x, y.cpu())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_with_a_grad_scaler(dtype: torch.dtype) -> None:
    model, (x, y) = ConvNet().cuda().to(memory_format=torch.channels_last), images()
    scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=dtype):
            loss = OBJECTIVES["FCL"](model, x.to(memory_format=torch.channels_last), y, step, scaler=scaler)
        scaler.scale(loss.total).backward()
        scaler.step(optimizer)
        scaler.update()
    assert loss.total.isfinite()
    assert loss.parts["contrast"] > 0


def test_a_compiled_embed_gives_the_same_step() -> None:
    torch._dynamo.reset()
    model, (x, y) = ConvNet().cuda(), images()
    compiled = copy.deepcopy(model)
    compiled.embed = torch.compile(compiled.embed)
    for _ in range(2):
        losses = [OBJECTIVES["FCL"](m, x, y, generator=seeded()).total for m in (model, compiled)]
        torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-4)
        for m, loss in zip((model, compiled), losses, strict=True):
            m.zero_grad()
            loss.backward()
        for p, q in zip(model.parameters(), compiled.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("augment", [Standard(2), PatchGaussian(3, 0.1, random_size=True), AugMix()])
def test_augmentations_draw_on_the_device_without_waiting(augment) -> None:
    x, _ = images()
    augment(x, seeded())
    torch.cuda.set_sync_debug_mode("error")
    try:
        out = augment(x, seeded(1))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert out.is_cuda
    assert torch.equal(out, augment(x, seeded(1)))


def test_an_audit_is_that_of_the_cpu() -> None:
    model, x, y = ConvNet(), torch.rand(24, 3, 32, 32), torch.arange(24) % 4
    few = {"examples": 24, "probes": None, "corruptions": ["fog"], "severities": [1, 5], "strengths": (0.2,)}
    here = audit(model, [(x, y)], **few)
    there = audit(copy.deepcopy(model).cuda(), [(x, y)], **few)
    for name in ("accuracy", "rank_correlation", "fog_accuracy"):
        assert there[name] == pytest.approx(here[name], abs=0.02)
    assert there["near_shift"] == pytest.approx(here["near_shift"], rel=0.3)  # other noise


def test_the_profiler_of_the_bench_says_nothing(capfd) -> None:
    """Warnings are errors here; what its library writes by itself would be in the table."""
    x = torch.rand(512, 512, device="cuda")

    def work(number: int) -> object:
        return [x @ x for _ in range(50)]

    busy = [_busy(work, torch.device("cuda")) for _ in range(2)]
    assert all(0 < share < 1.5 for share in busy if share is not None) and None not in busy
    assert "Profiler clears" not in capfd.readouterr().err


def test_many_sets_are_tested_by_a_compiled_model_with_the_same_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    from miniature import EXPERIMENT

    from poise import ResNet
    from poise.running import judge
    from poise.running.experiment import Examples, Task

    torch.manual_seed(0)
    model = ResNet(4, ((2, 16, 1), (2, 32, 2))).cuda().to(memory_format=torch.channels_last)
    draw = torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, (5000, 3, 16, 16), dtype=torch.uint8, generator=draw)
    with torch.no_grad():
        logits = model.eval()(images.cuda() / 255)
        model.head.bias -= logits.mean(0)  # so that it gives all four answers
        y = (logits - logits.mean(0)).argmax(1).cpu().numpy()
    x = images.permute(0, 2, 3, 1).numpy()
    assert np.bincount(y).min() > 500
    task = Task(Examples(x, y), None, {"clean": lambda device: Examples(x, y)}, 4)
    plan = dataclasses.replace(EXPERIMENT.plan, precision="bfloat16", compile=True)
    device, found, calls = torch.device("cuda"), [], []
    compile_it = judge.compiled
    monkeypatch.setattr(judge, "compiled", lambda model: calls.append(model) or compile_it(model))
    for many, times in ((50, 0), (1, 1)):
        monkeypatch.setattr(judge, "_MANY", many)
        scores = judge.Judge(dataclasses.replace(EXPERIMENT, plan=plan), task, device).at_the_end(model)["scores"]
        found.append(scores["clean"])
        assert len(calls) == times and "embed" not in vars(model)
    assert min(found) > 0.9 and abs(found[0] - found[1]) < 0.02


@pytest.mark.parametrize("classes", [2, 5, 1000])
@pytest.mark.parametrize("form", ["eager", "compiled", "captured"])
def test_cross_entropy_is_exact_however_sure_the_model_is(form: str, classes: int) -> None:
    """Against float64, margins from -80 to 80."""
    logits, y = (each.cuda() for each in sure_and_wrong(classes))

    def losses_and_gradient(loss: ExampleLoss) -> tuple[torch.Tensor, torch.Tensor]:
        leaf = logits.detach().requires_grad_()
        losses = loss(leaf, y)
        return losses.detach(), torch.autograd.grad(losses.sum(), leaf)[0]

    loss = torch.compile(CrossEntropy()) if form == "compiled" else CrossEntropy()
    losses, gradient = losses_and_gradient(loss)
    if form == "captured":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            losses, gradient = losses_and_gradient(loss)
        graph.replay()
    expected, expected_gradient = judged(logits, y)
    assert_exact(losses, expected)
    assert_exact(gradient, expected_gradient)


def test_cross_entropy_of_excluded_classes_nan_and_unknown_labels() -> None:
    logits = torch.tensor([[1.0, 2.0, -torch.inf], [0.0, -torch.inf, -torch.inf], [torch.nan, 1, 2], [0, 0, 0]])
    leaf = logits.cuda().requires_grad_()
    losses = CrossEntropy()(leaf, torch.tensor([0, 0, 0, 7], device="cuda"))
    (gradient,) = torch.autograd.grad(losses[:2].sum(), leaf)
    torch.testing.assert_close(losses[:2].cpu().detach(), torch.tensor([1.3132617, 0.0]))
    assert losses[2:].isnan().all()
    torch.testing.assert_close(gradient[:2].cpu(), torch.tensor([[-0.7310586, 0.7310586, 0.0], [0.0, 0.0, 0.0]]))
