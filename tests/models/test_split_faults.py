"""split works or refuses in one sentence, and the model stays as it was."""

import copy
import pickle
from types import MethodType

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from toys import same_state, state_of

from poise import XE, GradientUtility, split


class Net(nn.Module):
    def __init__(self, end: str = "") -> None:
        super().__init__()
        self.body, self.fc = nn.Linear(6, 4), nn.Linear(4, 4)
        self.temperature = nn.Parameter(torch.ones(()))
        self.end, self.calls, self.shift = end, 0, 0.0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.last = self.body(x).tanh() + self.shift
        logits = self.fc(self.last.detach() if self.end == "detached" else self.last)
        if self.end == "temperature":
            return logits * self.temperature
        if self.end == "cap":
            return 30 * (logits / 30).tanh()
        return nn.functional.linear(self.last, self.fc.weight) if self.end == "weight" else logits


class Around(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


X, Y = torch.rand(5, 6), torch.arange(5) % 4


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_part_with_the_head(backend: str) -> None:
    model = Around(torch.compile(Net(), backend=backend))
    before = state_of(model)
    classifier = split(model, head="net._orig_mod.fc")
    torch.testing.assert_close(classifier.head(classifier.embed(X)), model(X))
    assert same_state(before, state_of(model)) and len([*model.parameters()]) == 5


def test_a_compiled_part_without_the_head_and_a_model_compiled_in_place() -> None:
    model = Net()
    model.body = torch.compile(model.body, backend="eager")
    torch.testing.assert_close(split(model).head(split(model).embed(X)), model(X))
    model = Net()
    model.compile(backend="eager")
    torch.testing.assert_close(split(model).head(split(model).embed(X)), model(X))


@pytest.mark.parametrize("make", [torch.jit.script, lambda net: torch.jit.trace(net, X)])
def test_scripted_models_are_refused(make) -> None:
    net = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 4))
    with pytest.raises(ValueError, match=r"torch\.jit"):
        split(make(net), head="1")
    with pytest.raises(ValueError, match=r"torch\.jit"):
        split(Around(make(net)), head="net.1")


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("temperature", "applies 'temperature', which is learned"),
        ("cap", "the model changes its output"),
        ("weight", "'fc' is not"),
    ],
)
def test_what_may_stop_being_the_head_is_refused_at_first_sight(end: str, message: str) -> None:
    model, state = Net(end), torch.get_rng_state()
    before = state_of(model)
    with pytest.raises(ValueError, match=message):
        split(model).embed(X)
    assert same_state(before, state_of(model)) and torch.equal(state, torch.get_rng_state())


def test_attributes_are_followed_both_ways() -> None:
    model = Net()
    classifier = split(model)
    for _ in range(2):
        classifier.embed(X)
    model.shift, calls = 3.0, model.calls
    z = classifier.embed(X)
    assert model.calls == calls + 1 and torch.equal(model.last, z)
    torch.testing.assert_close(classifier.head(z), model(X))


def test_attributes_are_followed_when_embed_is_compiled_in_one_graph() -> None:
    model = Net()
    classifier = split(model)
    classifier.embed(X)
    classifier.embed = torch.compile(classifier.embed, backend="eager", fullgraph=True)
    classifier.embed(X)
    model.shift, calls = 3.0, model.calls
    z = classifier.embed(X)
    assert model.calls == calls + 1
    torch.testing.assert_close(classifier.head(z), model(X))


def test_a_forward_put_onto_the_model() -> None:
    model = Net()
    model.forward = MethodType(lambda self, x: Net.forward(self, x).float(), model)
    torch.testing.assert_close(split(model).head(split(model).embed(X)), model(X))
    inner = Net()
    own = inner.forward
    inner.forward = lambda x: own(x)
    with pytest.raises(ValueError, match="forward of this Net was replaced by a function"):
        split(inner)


def test_copies_and_pickles() -> None:
    classifier = split(Net())
    with torch.no_grad():  # or Net would hold a graph, which is not copied
        classifier.embed(X)
    for other in (copy.deepcopy(classifier), pickle.loads(pickle.dumps(classifier))):
        with torch.no_grad():
            torch.testing.assert_close(other.embed(X), classifier.embed(X))
            other.model.body.weight.zero_()
            assert not torch.equal(other.embed(X), classifier.embed(X))


def test_inputs_of_another_kind_are_named_before_the_model_runs() -> None:
    for x, error, message in (
        (np.zeros((5, 6)), TypeError, r"not a numpy.ndarray.*torch.from_numpy"),
        ([1.0], TypeError, "x must be a tensor.* not a list"),
        (None, TypeError, "x must be a tensor.* not a NoneType"),
        (X.double(), TypeError, "x is torch.float64, the model's weights are torch.float32"),
    ):
        with pytest.raises(error, match=message):
            split(Net()).embed(x)
        with pytest.raises(error, match=message):
            XE()(split(Net()), x, Y)


def test_labels_of_any_whole_kind_work_and_others_are_named() -> None:
    expected = XE()(classifier := split(Net()), X, Y).total
    for kind in (torch.int32, torch.uint8, torch.int16):
        assert torch.equal(XE()(classifier, X, Y.to(kind)).total, expected)
    for y in (Y.float(), Y[:, None], nn.functional.one_hot(Y)):
        with pytest.raises(ValueError, match=r"y is .*labels must be whole numbers \[5\]"):
            XE()(classifier, X, y)
    with pytest.raises(TypeError, match="y must be a tensor of labels"):
        XE()(classifier, X, Y.tolist())


def test_a_trunk_without_gradients_is_named() -> None:
    class Frozen(Net):
        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                z = self.body(x)
            return self.fc(z)

    with pytest.raises(ValueError, match="gives no gradients to x"):
        GradientUtility()(split(Frozen()), X, Y)
    assert XE()(split(Frozen()), X, Y).total.requires_grad


def test_embed_and_head_that_leave_something_out_are_refused_once_for_all() -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.blocks, self.head = nn.Linear(6, 4), nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.blocks(self.embed(x)).relu())

    with pytest.raises(ValueError, match=r"head\(embed\(x\)\) differs from the output of this Table"):
        XE()(Table(), X, Y)


class Later(nn.Module):
    """What it does to its logits can change."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.fc, self.scale = nn.Linear(6, 4), nn.Linear(4, 4), 1.0

    def forward(self, x: Tensor) -> Tensor:
        logits = self.fc(self.body(x))
        return logits if self.scale == 1 else logits * self.scale


@pytest.mark.parametrize("change", [lambda m: setattr(m, "scale", 2.0), lambda m: m.register_forward_hook(squashed)])
def test_a_head_that_stops_being_the_head_is_noticed(change) -> None:
    model = Later()
    classifier = split(model)
    XE()(classifier, X, Y)
    change(model)
    with pytest.raises(ValueError, match="the model changes its output"):
        [XE()(classifier, X, Y) for _ in range(8)]


def squashed(module: nn.Module, given: object, output: Tensor) -> Tensor:
    return output.tanh()


class Sliced(nn.Module):
    def __init__(self, kind: type) -> None:
        super().__init__()
        layers = [nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4)]
        self.net = kind(*layers) if kind is nn.Sequential else kind(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.net[:-1]:
            x = layer(x)
        return self.net[-1](x)


@pytest.mark.parametrize("kind", [nn.Sequential, nn.ModuleList])
def test_layers_that_are_sliced_in_forward(kind: type) -> None:
    model = Sliced(kind)
    classifier = split(model, head="net.2")
    torch.testing.assert_close(classifier.head(classifier.embed(X)), model(X))


def test_a_model_that_draws_in_eval_mode() -> None:
    class Noisy(Later):
        def forward(self, x: Tensor) -> Tensor:
            return self.fc(nn.functional.dropout(self.body(x), 0.5, training=True))

    class Own(Later):
        def embed(self, x: Tensor) -> Tensor:
            return self.body(x) + torch.randn(len(x), 4)

        def head(self, z: Tensor) -> Tensor:
            return self.fc(z)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.embed(x))

    state = torch.get_rng_state()
    for classifier in (split(Noisy()), Own()):
        torch.set_rng_state(state)
        XE()(classifier, X, Y)
        now = torch.get_rng_state()
        torch.set_rng_state(state)
        classifier(X)
        assert torch.equal(torch.get_rng_state(), now)  # checking draws nothing of the user's


def test_a_single_logit_takes_probabilities_of_two_classes() -> None:
    model = split(nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 1)))
    one_hot = nn.functional.one_hot(Y % 2, 2).float()
    torch.testing.assert_close(XE()(model, X, one_hot).total, XE()(model, X, Y % 2).total)


def test_labels_must_be_there() -> None:
    with pytest.raises(TypeError, match=r"y must be .* not None"):
        XE()(split(Later()), X, None)
