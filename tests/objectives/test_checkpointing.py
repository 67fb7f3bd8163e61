"""Layers under activation checkpointing give the gradients that they give without it, or are refused."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from poise import FCL, XE, CLGaussian, Gaussian, GradientUtility, InfoNCE, TopBottom, XEGaussian

X, Y = torch.rand(8, 6), torch.arange(8) % 3
OBJECTIVES = {
    "XE": lambda statistics: XE(),
    "XE+Gaussian": lambda statistics: XEGaussian(Gaussian(0.1), 0.5, statistics),
    "CL+Gaussian": lambda statistics: CLGaussian(Gaussian(0.1), InfoNCE(0.5), 0.5, statistics),
    "FCL": lambda statistics: FCL(
        GradientUtility(), TopBottom(2), Gaussian(0.1), InfoNCE(0.5), 0.5, statistics=statistics
    ),
}


class Shaken(nn.Module):
    """A layer of one's own that does something else in train mode."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.randn_like(x) if self.training else x


MIDDLES = {
    "dropout": nn.Dropout(0.5),
    "batch norm": nn.BatchNorm1d(16),
    "layer norm": nn.LayerNorm(16),
    "own noise": Shaken(),
}


class Net(nn.Module):
    """use_reentrant  None: nothing is checkpointed."""

    def __init__(self, middle: str, use_reentrant: bool | None = False, always: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.body = nn.Linear(6, 16), nn.Sequential(nn.Linear(16, 16), MIDDLES[middle], nn.Tanh())
        self.head = nn.Linear(16, 3)
        self.use_reentrant, self.always = use_reentrant, always

    def embed(self, x: Tensor) -> Tensor:
        if self.use_reentrant is None or not (self.training or self.always):
            return self.body(self.first(x))
        return checkpoint(self.body, self.first(x), use_reentrant=self.use_reentrant)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embed(x))


def gradients(net: Net, objective) -> list[Tensor]:
    objective(net, X, Y, generator=torch.Generator().manual_seed(1))  # looks at the model
    torch.manual_seed(2)
    objective(net, X, Y, generator=torch.Generator().manual_seed(1)).total.backward()
    return [weight.grad for weight in net.parameters()]


@pytest.mark.parametrize("build", OBJECTIVES.values(), ids=OBJECTIVES)
@pytest.mark.parametrize(
    ("middle", "statistics", "always"),
    [
        ("layer norm", "running", True),
        ("dropout", "running", False),
        ("dropout", "batch", True),
        ("dropout", "moving", True),
    ],
)
def test_gradients_are_those_without_checkpoints(build, middle: str, statistics: str, always: bool) -> None:
    expected = gradients(Net(middle, None), build(statistics))
    found = gradients(Net(middle, always=always), build(statistics))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("build", list(OBJECTIVES.values())[1:], ids=list(OBJECTIVES)[1:])
@pytest.mark.parametrize(
    ("middle", "statistics"),
    [("dropout", "running"), ("batch norm", "running"), ("batch norm", "batch"), ("own noise", "running")],
)
def test_views_that_would_run_again_in_another_mode_are_refused(build, middle: str, statistics: str) -> None:
    net = Net(middle)
    XE()(net, X, Y)
    before = {name: value.clone() for name, value in net.state_dict().items() if "num_batches" not in name}
    with pytest.raises(ValueError, match=f'statistics="{statistics}" .* checkpointed layers'):
        build(statistics)(net, X, Y).total.backward()
    after = net.state_dict()
    if middle != "batch norm":  # batch norm moves with the pass of x itself
        assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert net.training and all(weight.grad is None for weight in net.parameters())


def test_a_gradient_through_reentrant_checkpoints_is_refused() -> None:
    with pytest.raises(ValueError, match="use_reentrant=False"):
        GradientUtility()(Net("layer norm", use_reentrant=True), X, Y)
    for build in list(OBJECTIVES.values())[1:]:
        with pytest.raises(ValueError, match="use_reentrant=False"):
            build("running")(Net("dropout", use_reentrant=True), X, Y)


def test_a_frozen_trunk_needs_no_gradients() -> None:
    net = Net("dropout", use_reentrant=None)
    net.first.requires_grad_(False)
    net.body.requires_grad_(False)
    for build in OBJECTIVES.values():
        build("running")(net, X, Y).total.backward()
