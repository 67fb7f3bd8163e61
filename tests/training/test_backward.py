"""A utility computes the gradient of x alone, and a training step those of the weights alone, however they run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from poise import FCL, XE, Constant, Gaussian, GradientUtility, InfoNCE, ResNet, TopBottom
from poise.data.loading.resident import DeviceLoader
from poise.features import utility
from poise.objectives.objective import Objective
from poise.training.engine import Engine
from poise.training.kernels import narrow
from poise.training.kernels.backward import inductor, without_others
from poise.training.plan import SGD, Plan

FCL_STEP = FCL(GradientUtility(), TopBottom(k=64), Gaussian(0.5), InfoNCE(0.1), weight=0.5)
CONVOLUTIONS = 5  # of the network; the first one reads the image


class Gradients(TorchDispatchMode):
    """Counts the gradients that convolutions compute: of their inputs, and of their weights."""

    def __init__(self) -> None:
        super().__init__()
        self.of_inputs = self.of_weights = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.convolution_backward.default:
            self.of_inputs += args[-1][0]
            self.of_weights += args[-1][1]
        return func(*args, **(kwargs or {}))

    @property
    def counts(self) -> tuple[int, int]:
        return self.of_inputs, self.of_weights


def network() -> ResNet:
    torch.manual_seed(0)
    return ResNet(4, ((2, 8, 1),))


def loader(count: int = 8) -> DeviceLoader:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (count, 3, 16, 16), dtype=torch.uint8, generator=generator)
    return DeviceLoader(images, torch.arange(count) % 4, 8)


def engine(model: nn.Module, objective: Objective, data: DeviceLoader) -> Engine:
    plan = Plan(1, 8, SGD(), Constant(0.1))
    return Engine(model, objective, data, plan.optimizer(model.parameters(), torch.device("cpu")), plan)


@contextmanager
def counted_utility(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gradients]:
    """Counts inside the utility's backward pass only."""
    found, gradient = Gradients(), utility.gradient_of

    def counting(*args: Any, **options: Any) -> Any:
        with found:
            return gradient(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(utility, "gradient_of", counting)
        yield found


def run_graph(graph: torch.fx.GraphModule, inputs: Any, **options: Any) -> Callable[[list[Any]], Any]:
    """A compiler of graphs that runs each of its operations as it is."""

    def run(args: list[Any]) -> Any:
        return graph(*args)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


@pytest.fixture(params=["plain", "compiled"], scope="module")
def model(request: pytest.FixtureRequest) -> Iterator[ResNet]:
    """Compiled once for all tests: it takes seconds."""
    made = network()
    if request.param == "compiled":
        backend = partial(inductor, compiler=run_graph)
        made.embed = torch.compile(made.embed, dynamic=False, backend=backend)  # type: ignore[method-assign]
    yield made
    torch.compiler.reset()


def test_no_gradient_is_computed_for_nothing(model: ResNet, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = engine(model, FCL_STEP, loader())
    trained.epoch(0)  # which also compiles, and checks the model once
    with counted_utility(monkeypatch) as for_utility, Gradients() as in_all:
        trained.epoch(1)
    assert for_utility.counts == (CONVOLUTIONS, 0)
    # Then two passes move the weights, that of x and that of both views; neither needs the gradient of its image.
    assert in_all.counts == (CONVOLUTIONS + 2 * (CONVOLUTIONS - 1), 2 * CONVOLUTIONS)


def test_xe_needs_no_gradient_of_the_image(model: ResNet) -> None:
    trained = engine(model, XE(), loader())
    trained.epoch(0)
    with Gradients() as found:
        trained.epoch(1)
    assert found.counts == (CONVOLUTIONS - 1, CONVOLUTIONS)


@pytest.mark.parametrize("inputs", ["weights", "all"])
def test_gradients_are_those_of_the_plain_network(model: ResNet, inputs: str) -> None:
    plain = network()
    plain.load_state_dict(model.state_dict())
    x, y = torch.rand(8, 3, 16, 16), torch.arange(8) % 4
    for each in (plain, model):
        each.zero_grad()
        total = FCL_STEP(each, x, y, generator=torch.Generator().manual_seed(0)).total
        total.backward(inputs=list(each.parameters()) if inputs == "weights" else None)
    for found, wanted in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(found.grad, wanted.grad, rtol=1e-4, atol=1e-5)


def test_a_plain_backward_call_computes_everything(model: ResNet) -> None:
    """As in a loop of one's own, where the image may be a leaf whose gradient the user wants."""
    x, y = torch.rand(8, 3, 16, 16, requires_grad=True), torch.arange(8) % 4
    model.zero_grad()
    XE()(model, x, y).total.backward()
    assert x.grad is not None and x.grad.any()
    assert all(weight.grad is not None and weight.grad.any() for weight in model.parameters())


def test_a_graph_without_the_other_outputs_computes_nothing_for_them() -> None:
    def both(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        return x.sin() * w, w.exp().cos()

    graph = without_others(torch.fx.symbolic_trace(both), (True, False))
    x, w = torch.rand(3), torch.rand(3)
    first, second = graph(x, w)
    assert torch.equal(first, x.sin() * w) and second is None
    assert "exp" not in graph.code


def test_our_convolutions_compute_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []

    def ours(name: str, result: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
        return lambda first, second: called.append(name) or result(first, second)  # type: ignore[func-returns-value]

    def back(place: int, g: Tensor, x: Tensor, w: Tensor) -> Tensor:
        mask = [place == 0, place == 1, False]
        sizes = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1, mask)
        found: Tensor = torch.ops.aten.convolution_backward(g, x, w, None, *sizes)[place]
        return found

    with torch.library._scoped_library("poise", "FRAGMENT") as library:
        of_x = ours("x", lambda g, w: back(0, g, g.new_empty(len(g), w.shape[1], *g.shape[2:]), w))
        of_w = ours("w", lambda x, g: back(1, g, x, x.new_empty(g.shape[1], x.shape[1], 3, 3)))
        library.impl("conv3x3", ours("out", lambda x, w: F.conv2d(x, w, padding=1)), "CPU")
        library.impl("conv3x3_input_gradient", of_x, "CPU")
        library.impl("conv3x3_weight_gradient", of_w, "CPU")
        x, w = torch.rand(2, 16, 4, 4, requires_grad=True), torch.rand(16, 16, 3, 3, requires_grad=True)
        out = narrow.conv3x3(narrow.conv3x3(x, w), w).square().sum()
        called.clear()
        (of_image,) = torch.autograd.grad(out, x, retain_graph=True)
        assert called == ["x", "x"]
        called.clear()
        out.backward(inputs=[w])
        assert sorted(called) == ["w", "w", "x"]
    exact = F.conv2d(F.conv2d(x, w, padding=1), w, padding=1).square().sum()
    for found, wanted in zip((of_image, w.grad), torch.autograd.grad(exact, (x, w)), strict=True):
        torch.testing.assert_close(found, wanted)
