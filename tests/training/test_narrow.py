"""Narrow convolutions by our kernels: torch's numbers, torch's gradients, and nothing that stays behind."""

import contextlib
import copy
import inspect
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from poise import XE, ResNet, resnet56
from poise.data.loading.resident import DeviceLoader
from poise.schedules import Constant
from poise.training.engine import compiled
from poise.training.kernels import narrow as module
from poise.training.kernels.narrow import (
    Conv3x3,
    _in_half,
    conv3x3,
    fits,
    has_room,
    input_gradient,
    narrow,
    weight_gradient,
)
from poise.training.loop import fit
from poise.training.plan import SGD, Plan, in_layout

on_gpu = pytest.mark.skipif(
    not torch.cuda.is_available() or not has_room(torch.device("cuda")), reason="needs a GPU like an H200, and Triton"
)
sizes = pytest.mark.parametrize(
    ("c", "k", "height", "width", "n"),
    [
        (16, 16, 32, 32, 9),
        (32, 32, 16, 16, 5),
        (16, 32, 3, 2, 1),
        (32, 16, 5, 6, 700),
        (4, 16, 33, 32, 9),
        (4, 32, 8, 8, 3),
        (16, 16, 1, 4, 2),
    ],
)


@pytest.fixture
def anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "has_room", lambda device: True)


def kinds(model: nn.Module) -> list[type]:
    return [type(each) for each in model.modules()]


@pytest.mark.usefixtures("anywhere")
def test_those_of_resnet56_are_found() -> None:
    model = resnet56(10)
    with narrow(model):
        found = [each for each in model.modules() if isinstance(each, Conv3x3)]
    assert [each.in_channels for each in found] == [3] + [16] * 18 + [32] * 17


@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(16, 16, 3),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.Conv2d(16, 16, 3, 2, 1, bias=False),
        nn.Conv2d(16, 16, 3, padding=2, dilation=2, bias=False),
        nn.Conv2d(16, 16, 3, padding=1, groups=2, bias=False),
        nn.Conv2d(16, 16, 3, padding=1, padding_mode="reflect", bias=False),
        nn.Conv2d(16, 16, 5, padding=1, bias=False),
        nn.Conv2d(16, 64, 3, padding=1, bias=False),
        nn.Conv2d(3, 64, 3, padding=1, bias=False),
        nn.Conv2d(16, 3, 3, padding=1, bias=False),
        nn.Conv2d(16, 16, 3, padding="same", bias=False),
        nn.ConvTranspose2d(16, 16, 3, padding=1, bias=False),
    ],
    ids=str,
)
def test_any_other_is_left_alone(conv: nn.Module) -> None:
    model = nn.Sequential(conv)
    with narrow(model):
        assert model[0] is conv


@pytest.mark.usefixtures("anywhere")
def test_the_models_own_come_back_with_the_weights_of_then() -> None:
    model = resnet56(10)
    before, weights = kinds(model), list(model.parameters())
    with contextlib.suppress(KeyboardInterrupt), narrow(model):
        assert kinds(model) != before
        assert [id(each) for each in model.parameters()] == [id(each) for each in weights]
        model.eval()
        with torch.no_grad():
            model.blocks[0].conv1.weight.fill_(2.0)
        raise KeyboardInterrupt
    assert kinds(model) == before
    assert not any(each.training for each in model.modules())
    assert (model.blocks[0].conv1.weight == 2).all()


@pytest.mark.usefixtures("anywhere")
def test_hooks_buffers_and_second_names_stay() -> None:
    conv, seen = nn.Conv2d(16, 16, 3, padding=1, bias=False), []
    conv.register_forward_hook(lambda *_: seen.append("hook"))
    conv.register_buffer("mask", torch.ones(1))
    normed = nn.utils.spectral_norm(nn.Conv2d(16, 16, 3, padding=1, bias=False))
    model = nn.Sequential(conv, nn.ReLU(), conv, normed).eval()
    names, plain = list(model.state_dict()), model(torch.ones(1, 16, 4, 4))
    with narrow(model):
        assert kinds(model) == [nn.Sequential, Conv3x3, nn.ReLU, Conv3x3]
        assert torch.equal(model(torch.ones(1, 16, 4, 4)), plain)
        assert list(model.state_dict()) == names
    assert seen == ["hook"] * 4


@pytest.mark.usefixtures("anywhere")
def test_copies_are_torchs() -> None:
    model = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, bias=False))
    with narrow(model):
        for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert kinds(copied) == [nn.Sequential, nn.Conv2d]
            assert torch.equal(copied[0].weight, model[0].weight)


def test_the_embed_that_a_user_compiled_comes_back() -> None:
    model = resnet56(10)
    mine = model.embed = torch.compile(model.embed, backend="eager")
    with compiled(model):
        assert model.embed is not mine
    assert model.embed is mine


@pytest.mark.usefixtures("anywhere")
def test_on_a_cpu_nothing_changes() -> None:
    model, x = resnet56(10).eval(), torch.rand(2, 3, 32, 32)
    plain = model(x)
    with narrow(model):
        assert torch.equal(model(x), plain)
        assert list(model.state_dict()) == list(resnet56(10).state_dict())


def test_a_cpu_has_no_room_for_them() -> None:
    model = resnet56(10)
    before = kinds(model)
    with narrow(model):
        assert kinds(model) == before


@pytest.mark.parametrize(
    ("memory", "triton", "room"), [(232_448, object(), True), (232_448, None, False), (166_912, object(), False)]
)
def test_room_is_that_of_an_h200(memory: int, triton: object, room: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(shared_memory_per_block_optin=memory)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(module, "find_spec", lambda name: triton)
    assert has_room(torch.device("cuda")) is room


def converts_arrays() -> bool:
    """Whether NumPy makes a number of an array that has one."""
    with warnings.catch_warnings(action="ignore"):
        try:
            return int(np.ones(1)) == 1
        except TypeError:
            return False


def test_the_kernels_give_torchs_numbers_in_tritons_interpreter() -> None:
    interpreter = pytest.importorskip("triton.runtime.interpreter", reason="needs Triton")
    if "int(self.handle.data)" in inspect.getsource(interpreter) and not converts_arrays():
        pytest.skip("this Triton's interpreter makes numbers of arrays, as this NumPy does not any more")
    script = """
import torch, torch.nn.functional as F
from poise.training.kernels.narrow_kernels import convolved, correlated
from poise.training.kernels import narrow_kernels
narrow_kernels._PROGRAMS = 17  # and of each kind several, the last of which are not full
sizes = [(16, 16, 19, 6, 25), (32, 32, 9, 4, 35), (16, 32, 7, 14, 7), (32, 16, 1, 2, 1)]
sizes += [(4, 16, 17, 8, 10), (4, 32, 3, 4, 3)]
for c, k, height, width, n in sizes:
    shapes = ((n, c, height, width), (k, c, 3, 3), (n, k, height, width))
    x, w, g = (torch.randn(shape).contiguous(memory_format=torch.channels_last) for shape in shapes)
    exact = [each.double().requires_grad_() for each in (x, w)]
    out = F.conv2d(*exact, padding=1)
    out.backward(g.double())
    found = (convolved(x, w), convolved(g, w, back=True), correlated(x, g))
    if n < 10:  # all numbers of channels: the interpreter is slow
        halves = (convolved(x.half(), w), convolved(g.half(), w, back=True), correlated(x.half(), g.half()))
        for got, wanted in zip(halves, found, strict=True):
            torch.testing.assert_close(got.float(), wanted, rtol=0.01, atol=0.1)
    for got, wanted in zip(found, (out.detach(), *(each.grad for each in exact)), strict=True):
        torch.testing.assert_close(got.double(), wanted, rtol=1e-4, atol=1e-4)
"""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("kernel", "sizes"),
    [
        *(
            ("_convolve", {"c": c, "k": k, "back": back, "tile": 64, "lines": 8 if c > 16 else 16})
            for c, k, back in ((16, 16, False), (32, 32, True), (4, 32, False), (32, 4, True))
        ),
        *(("_correlate", {"c": c, "k": 32, "tile": tile}) for c, tile in ((4, 128), (16, 128), (32, 64))),
    ],
    ids=str,
)
def test_the_kernels_compile_for_an_h200_without_one(
    kernel: str, sizes: dict[str, int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiler = pytest.importorskip("triton.compiler", reason="needs Triton")
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # some versions warn where it is not said
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    from triton.backends.compiler import GPUTarget

    from poise.training.kernels import narrow_kernels

    function = getattr(narrow_kernels, kernel)
    known = {"x": "*bf16", "gradient": "*bf16", "out": "*bf16", "w": "*fp32", "sums": "*fp32"}
    given = {"height": 32, "width": 32, **sizes}
    kinds = {name: "constexpr" if name in given else known.get(name, "i32") for name in function.arg_names}
    constants = {(function.arg_names.index(name),): value for name, value in given.items()}
    source = compiler.ASTSource(fn=function, signature=kinds, constexprs=constants)
    made = compiler.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_stages": 3})
    assert "mma" in made.asm["ptx"]
    assert made.metadata.shared <= module._ROOM


def draw(*shape: int, half: bool = True) -> Tensor:
    x = torch.randn(shape, device="cuda", generator=torch.Generator("cuda").manual_seed(sum(shape)))
    x = x.bfloat16() if half else x
    return x.contiguous(memory_format=torch.channels_last)


def rounded(w: Tensor) -> Tensor:
    """As the kernels see it."""
    return w.bfloat16().double()


@on_gpu
@sizes
def test_the_convolution_is_exact_before_it_is_rounded(c: int, k: int, height: int, width: int, n: int) -> None:
    x, w = draw(n, c, height, width), draw(k, c, 3, 3, half=False)
    exact = F.conv2d(x.double(), rounded(w), padding=1)
    out = conv3x3(x, w)
    assert out.dtype is torch.bfloat16 and out.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(out.double(), exact, rtol=2**-8, atol=1e-4)


@on_gpu
@sizes
def test_both_gradients_are_exact_before_they_are_rounded(c: int, k: int, height: int, width: int, n: int) -> None:
    x, w, g = draw(n, c, height, width), draw(k, c, 3, 3, half=False), draw(n, k, height, width)
    x, w = x.requires_grad_(), w.requires_grad_()
    exact = x.detach().double().requires_grad_(), rounded(w.detach()).requires_grad_()
    F.conv2d(*exact, padding=1).backward(g.double())
    conv3x3(x, w).backward(g)
    torch.testing.assert_close(x.grad.double(), exact[0].grad, rtol=2**-8, atol=1e-4)
    torch.testing.assert_close(w.grad.double(), exact[1].grad, rtol=1e-5, atol=1e-3)
    assert w.grad.dtype is torch.float32


def test_a_fourth_colour_of_zeros_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = []

    def convolve(x: Tensor, w: Tensor) -> Tensor:
        shapes.append((x.shape[1], w.shape[1]))
        return F.conv2d(x, w, padding=1)

    monkeypatch.setattr(module, "fits", lambda x: True)
    monkeypatch.setattr(module, "conv3x3", convolve)
    conv, x = Conv3x3(3, 16, 3, padding=1, bias=False), torch.rand(2, 3, 4, 4)
    torch.testing.assert_close(conv(x), F.conv2d(x, conv.weight, padding=1))
    assert shapes == [(4, 4)]


def test_other_channels_than_the_weights_are_refused_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "fits", lambda x: True)
    with pytest.raises(RuntimeError, match="channels"):
        Conv3x3(16, 16, 3, padding=1, bias=False)(torch.rand(2, 32, 4, 4))


@pytest.mark.parametrize(
    ("shape", "fit"),
    [
        ((1024, 3, 32, 32), True),
        ((2**13 - 1, 3, 64, 128), True),
        ((2**13, 3, 64, 128), False),
        ((1, 16, 2**16, 2), False),
        ((0, 16, 4, 4), False),
        ((2, 16, 4, 5), False),
    ],
)
def test_what_fits(shape: tuple[int, ...], fit: bool) -> None:
    assert fits(SimpleNamespace(is_cuda=True, dtype=torch.bfloat16, ndim=4, shape=shape)) is fit  # type: ignore[arg-type]


@on_gpu
def test_three_colours_have_torchs_numbers_and_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.setattr(module, "conv3x3", lambda *both: called.append(both) or conv3x3(*both))
    conv, x, g = Conv3x3(3, 16, 3, padding=1, bias=False).cuda(), draw(5, 3, 6, 8, half=False), draw(5, 16, 6, 8)
    exact = x.bfloat16().double().requires_grad_(), rounded(conv.weight.detach()).requires_grad_()
    out = F.conv2d(*exact, padding=1)
    out.backward(g.double())
    with torch.autocast("cuda", torch.bfloat16):
        ours = conv(x.requires_grad_())
    assert ours.dtype is torch.bfloat16 and len(called) == 1
    ours.backward(g)
    torch.testing.assert_close(ours.double(), out.detach(), rtol=2**-8, atol=1e-4)
    torch.testing.assert_close(x.grad.double(), exact[0].grad, rtol=2**-8, atol=1e-4)
    torch.testing.assert_close(conv.weight.grad.double(), exact[1].grad, rtol=1e-5, atol=1e-3)


@on_gpu
def test_channels_first_gives_the_same() -> None:
    x, w = draw(3, 16, 6, 8), draw(16, 16, 3, 3, half=False)
    assert torch.equal(conv3x3(x.contiguous(), w.contiguous()), conv3x3(x, w))


@on_gpu
def test_the_gradient_of_the_weights_is_the_same_every_time() -> None:
    x, g = draw(64, 16, 32, 32), draw(64, 16, 32, 32)
    first = weight_gradient(x, g)
    assert all(torch.equal(weight_gradient(x, g), first) for _ in range(3))


@on_gpu
def test_gradients_of_gradients_are_those_of_torch() -> None:
    x, w, g = draw(4, 16, 6, 8), draw(16, 16, 3, 3, half=False), draw(4, 16, 6, 8)
    w = w.bfloat16().float()

    def second(convolve, x: Tensor, w: Tensor) -> list[Tensor]:
        x, w = x.requires_grad_(), w.requires_grad_()
        first = torch.autograd.grad((convolve(x, w) * g.to(x.dtype)).sum(), (x, w), create_graph=True)
        return list(torch.autograd.grad(sum(each.float().square().sum() for each in first), (x, w)))

    ours = second(conv3x3, x.clone(), w.clone())
    theirs = second(lambda a, b: F.conv2d(a, b, padding=1), x.double(), w.double())
    for got, wanted in zip(ours, theirs, strict=True):
        assert (got.double() - wanted).norm() < 0.01 * wanted.norm()


@on_gpu
def test_torch_finds_nothing_wrong_with_the_operators() -> None:
    x, w, g = draw(2, 16, 4, 4), draw(32, 16, 3, 3, half=False), draw(2, 32, 4, 4)
    for operator, inputs in ((conv3x3, (x, w)), (input_gradient, (g, w)), (weight_gradient, (x, g))):
        torch.library.opcheck(operator, tuple(each.clone().requires_grad_() for each in inputs))


@on_gpu
def test_what_does_not_fit_goes_to_torch() -> None:
    conv = Conv3x3(16, 16, 3, padding=1, bias=False).cuda()
    assert not fits(torch.rand(2, 16, 4, 4, device="cuda"))
    assert not fits(torch.rand(2, 16, 4, 4, device="cuda").half())
    assert not fits(torch.empty(1, device="cuda", dtype=torch.bfloat16).expand(2**13, 3, 64, 128))  # 2**26 pixels
    for shape in ((2, 16, 4, 5), (0, 16, 4, 4)):
        x = torch.rand(shape, device="cuda")
        assert not fits(x.bfloat16())
        with torch.autocast("cuda", torch.bfloat16):
            assert torch.equal(conv(x.bfloat16()), F.conv2d(x.bfloat16(), conv.weight.bfloat16(), padding=1))


@on_gpu
def test_a_training_learns_what_it_learns_with_torchs_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    """32 images by heart: after some epochs both have nearly no loss, and in the first step it is the same."""
    torch.manual_seed(0)
    start = ResNet(4, ((2, 16, 1), (2, 32, 2)))
    images = torch.randint(0, 256, (32, 3, 16, 16), dtype=torch.uint8, device="cuda")
    labels = torch.arange(32, device="cuda") % 4
    plan = Plan(25, 32, SGD(), Constant(0.05), precision="bfloat16", compile=True)
    called = []
    forward = Conv3x3.forward
    monkeypatch.setattr(Conv3x3, "forward", lambda conv, x: called.append(fits(_in_half(x))) or forward(conv, x))

    def losses() -> list[float]:
        model = in_layout(copy.deepcopy(start).cuda(), plan)
        log = fit(model, XE(), DeviceLoader(images.contiguous(memory_format=plan.layout), labels, 32), plan).log
        return [entry["loss"]["xe"] for entry in log]

    ours = losses()
    assert called and all(called)
    called.clear()
    monkeypatch.setattr(module, "CHANNELS", ())
    theirs = losses()
    assert not called
    assert abs(ours[0] - theirs[0]) < 0.01
    assert max(ours[-1], theirs[-1]) < 0.05 < ours[0]
