"""poise.audit on models as people write them: wrappers have a head, and what cannot be audited is one sentence."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import poise
from poise.inputs.classifiers import as_classifier

PICTURES, ROWS = torch.rand(24, 3, 8, 8, generator=torch.Generator().manual_seed(0)), torch.rand(24, 10)
LABELS = torch.arange(24) % 4


class Small(nn.Module):
    """Two linear layers without well-known names."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc1, self.fc2 = nn.Conv2d(3, 8, 3), nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.fc1(self.conv(x).mean((2, 3))).relu())


class Wrapper(nn.Module):
    def __init__(self, net: nn.Module, before: nn.Module | None = None) -> None:
        super().__init__()
        self.before, self.net = before or nn.Identity(), net

    def forward(self, x: Tensor) -> Tensor:
        return self.net(self.before(x))


class Normalizing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model, self.mean = Small(), nn.Parameter(torch.zeros(3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.model((x - self.mean) / 0.5)


class Listed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(10, 8), nn.Linear(8, 8), nn.Linear(8, 4)])

    def forward(self, x: Tensor) -> Tensor:
        return self.layers[2](self.layers[1](self.layers[0](x).relu()).relu())


class Backwards(nn.Module):
    """The layer that is defined first is called last."""

    def __init__(self) -> None:
        super().__init__()
        self.end, self.begin = nn.Linear(8, 4), nn.Linear(10, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.begin(x).relu())


class Teaching(nn.Module):
    """Holds a second network that it does not call."""

    def __init__(self) -> None:
        super().__init__()
        self.student, self.teacher = Small(), Small()

    def forward(self, x: Tensor) -> Tensor:
        return self.student(x)


class Ensemble(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = Small(), Small()

    def forward(self, x: Tensor) -> Tensor:
        return self.one(x) + self.other(x)


@pytest.mark.parametrize(
    ("make", "x", "head"),
    [
        (Small, PICTURES, "fc2"),
        (lambda: Wrapper(Small()), PICTURES, "net.fc2"),
        (lambda: Wrapper(Wrapper(Small(), nn.BatchNorm2d(3))), PICTURES, "net.net.fc2"),
        (Normalizing, PICTURES, "model.fc2"),
        (Listed, ROWS, "layers.2"),
        (Backwards, ROWS, "end"),
        (Teaching, PICTURES, "student.fc2"),
    ],
)
def test_the_head_is_the_layer_whose_output_the_model_returns(make: Callable, x: Tensor, head: str) -> None:
    model = make().eval()
    classifier: Any = as_classifier(model, None)
    z = classifier.embed(x)
    named: Any = as_classifier(model, head)
    torch.testing.assert_close(z, named.embed(x))
    torch.testing.assert_close(classifier.head(z), model(x))
    torch.testing.assert_close(classifier(x), model(x))
    found = poise.audit(make(), [(x, LABELS)], corruptions="none", probes=2)
    assert found.facts["model"]["embedding"] == 8


def test_finding_the_head_leaves_the_model_unchanged() -> None:
    model = Wrapper(Small(), nn.BatchNorm2d(3)).train()
    before = {f"inner.{name}": value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    found = as_classifier(model, None)
    found.check_head(PICTURES)
    assert model.training and torch.equal(state, torch.get_rng_state())
    after = found.state_dict()
    assert after.keys() == before.keys() and all(torch.equal(after[name], before[name]) for name in before)


def flat(*ends: nn.Module, outputs: int = 4) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.ReLU(), nn.Linear(8, outputs), *ends)


class Lambda(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def after(function: Callable[[Tensor], Tensor]) -> nn.Module:
    return nn.Sequential(Lambda(function), *flat())


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(50, 8), nn.Linear(8, 4)

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.words(ids).mean(1))


WORDS = poise.Tokens(torch.ones(24, 5, dtype=torch.long), torch.ones(24, 5, dtype=torch.bool))
SLOPES = "replace steps without a slope, such as round"


@pytest.mark.parametrize(
    ("model", "x", "y", "message"),
    [
        (Ensemble(), PICTURES, LABELS, "no layer is clearly the head of this Ensemble: 'other.fc2' .* with head=NAME"),
        (Wrapper(flat(nn.Softmax(1))), PICTURES, LABELS, "applies softmax to its output. Let the model return its log"),
        (flat(), (PICTURES * 255).long(), LABELS, "x is torch.int64: pass images as uint8 or as floats in .0, 1."),
        (flat(), PICTURES > 0.5, LABELS, "x is torch.bool: pass images"),
        (flat(), (PICTURES * 255).round(), LABELS, "values up to 255, must be in .0, 1.: divide them by 255"),
        (flat(outputs=1), PICTURES, torch.rand(24), "the target of a regression into classes"),
        (flat(outputs=1), PICTURES, torch.rand(24, 1), "the target of a regression into classes"),
        (flat(outputs=1), PICTURES, LABELS, "the model has 2 classes .a single output counts as two."),
        (flat(), PICTURES, torch.eye(4)[LABELS], r"y.argmax\(1\)"),
        (after(lambda x: x.round()), PICTURES, LABELS, f"gradient is 0 for all examples.*{SLOPES}"),
        (after(lambda x: (x > 0.5).float()), PICTURES, LABELS, f"gives no gradients.*{SLOPES}"),
        (after(lambda x: torch.from_numpy(x.numpy())), PICTURES, LABELS, f"gives no gradients.*{SLOPES}"),
        (Recurrent(), WORDS, LABELS, "called as model.input_ids=..., attention_mask=...."),
        (len, PICTURES, LABELS, "must be a torch.nn.Module, since an audit needs its gradients; got builtin_function"),
    ],
)
def test_what_cannot_be_audited_is_a_sentence(model: Any, x: Any, y: Tensor, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message) as raised:
        poise.audit(model, [(x, y)], corruptions="none", probes=2)
    assert "\n" not in str(raised.value)


def test_a_constant_model_is_audited() -> None:
    model = flat()
    nn.init.zeros_(model[3].weight)
    assert poise.audit(model, [(PICTURES, LABELS)], corruptions="none", probes=2).facts["complete"]
