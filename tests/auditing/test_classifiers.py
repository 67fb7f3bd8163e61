"""The models that people have: audited as the plain model that computes the same, or refused in one sentence."""

from collections import namedtuple
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import poise
from poise.errors import AuditError
from poise.inputs.classifiers import as_classifier
from poise.inputs.model_sources import open_model

torch.manual_seed(0)
BODY = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
HEAD = nn.Linear(32, 4)
X, Y = torch.rand(24, 3, 12, 12), torch.arange(24) % 4


class Plain(nn.Module):
    """BODY and HEAD; `before` is done to the input, `wrap` to what is given."""

    def __init__(
        self, before: Callable[[Tensor], Any] = lambda x: x, wrap: Callable = lambda logits, z: logits
    ) -> None:
        super().__init__()
        self.body, self.fc, self.before, self.wrap = deepcopy(BODY), deepcopy(HEAD), before, wrap

    def forward(self, x: Tensor) -> Any:
        self.before(x)
        z = self.body(x)
        return self.wrap(self.fc(z), z)


class WithEmbed(nn.Module):
    """embed and head of its own, as methods."""

    def __init__(self, in_place: bool = False) -> None:
        super().__init__()
        self.body, self.last, self.in_place = deepcopy(BODY), deepcopy(HEAD), in_place

    @torch.jit.export
    def embed(self, x: Tensor) -> Tensor:
        if self.in_place:
            x.mul_(1.0)
        return self.body(x)

    @torch.jit.export
    def head(self, z: Tensor) -> Tensor:
        return self.last(z.relu_() if self.in_place else z)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embed(x))


@dataclass
class Given:
    features: Tensor
    logits: Tensor


@dataclass
class Scores:
    scores: Tensor


Both = namedtuple("Both", "features logits")


def audited(model: nn.Module) -> poise.Audit:
    before = X.clone()
    loader = list(zip(X.split(12), Y.split(12), strict=True))
    found = poise.audit(model, loader, examples=24, corruptions="none", probes=None)
    assert torch.equal(X, before)
    return found


def numbers(model: nn.Module) -> dict[str, float | None]:
    return {name: number["value"] for name, number in audited(model).facts["numbers"].items()}


@pytest.fixture(scope="module")
def plain() -> dict[str, float | None]:
    return numbers(Plain())


SAME = {
    "dict": Plain(wrap=lambda logits, z: {"features": z, "logits": logits}),
    "dict of one": Plain(wrap=lambda logits, z: {"out": logits}),
    "tuple": Plain(wrap=lambda logits, z: (logits, z)),
    "list": Plain(wrap=lambda logits, z: [logits, z]),
    "dataclass": Plain(wrap=lambda logits, z: Given(z, logits)),
    "dataclass of one": Plain(wrap=lambda logits, z: Scores(logits)),
    "named tuple": Plain(wrap=lambda logits, z: Both(z, logits)),
    "its own embed": WithEmbed(),
    "embed and head in place": WithEmbed(in_place=True),
    "scripted, with embed": torch.jit.script(WithEmbed()),
    "double": Plain().double(),
    "in place, without a change": Plain(before=lambda x: x.mul_(1.0)),
}


@pytest.mark.parametrize("name", SAME)
def test_it_is_audited_as_the_plain_model(name: str, plain: dict) -> None:
    assert numbers(SAME[name]) == pytest.approx(plain, rel=1e-3, nan_ok=True)


def test_an_input_that_is_changed_in_place_is_audited_as_one_that_is_not() -> None:
    class Scaled(Plain):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward((x - 0.5) / 0.25)

    assert numbers(Plain(before=lambda x: x.sub_(0.5).div_(0.25))) == pytest.approx(numbers(Scaled()), nan_ok=True)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_are_audited_in_single(kind: torch.dtype) -> None:
    """As the float32 model with the same rounded weights; the user's model keeps its own."""
    model = Plain().to(kind)
    found = audited(model)
    assert found.facts["numbers"] == audited(deepcopy(model).float()).facts["numbers"]
    name = str(kind).removeprefix("torch.")
    assert f"the model's weights are {name}: it was audited in float32" in found.facts["notes"]
    assert {p.dtype for p in model.parameters()} == {kind}


class PatchEmbed(nn.Module):
    """Its embed is that of patches: head(embed(x)) is something, but not the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.middle, self.head = nn.Conv2d(3, 6, 4, 4), nn.Linear(6, 6), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.middle(self.embed(x).flatten(2).mean(2)))


REFUSED = {
    "scripted": (
        torch.jit.script(nn.Sequential(*BODY, HEAD)),
        r"a scripted model \(torch.jit\) hides its layers: audit",
    ),
    "traced": (torch.jit.trace(nn.Sequential(*BODY, HEAD), X[:2]), "hides its layers"),
    "dict": (Plain(wrap=lambda a, z: {"out": a, "aux": z}), "returned a dict of out, aux: it must return its logits"),
    "text": (Plain(wrap=lambda a, z: "logits"), "returned a str: it must return its logits"),
    "tuple": (
        Plain(wrap=lambda a, z: (z, a)),
        "not the first output of the model. Let the model return its logits",
    ),
    "no_grad": (Plain(before=torch.no_grad()(lambda x: x.mul_(2))), "in place under no_grad or by .data"),
    ".data": (Plain(before=lambda x: x.data.mul_(2)), "in place under no_grad or by .data"),
    "another embed": (PatchEmbed(), r"head\(embed\(x\)\) differs from the output of this PatchEmbed"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_in_one_sentence(name: str) -> None:
    model, sentence = REFUSED[name]
    with pytest.raises((ValueError, TypeError), match=sentence) as told:
        numbers(model)
    assert "\n" not in str(told.value)


def test_a_named_head_goes_before_an_embed_that_is_something_else() -> None:
    found = poise.audit(PatchEmbed(), [(X, Y)], head="head", examples=24, corruptions="none")
    assert found.facts["model"]["embedding"] == 6


def test_word_vectors_are_no_embedding_of_a_sentence() -> None:
    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(9, 5), nn.Linear(5, 2)

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            held = self.embed(input_ids) * attention_mask[..., None]
            return self.head(held.sum(1))

    x = poise.Tokens(torch.randint(9, (30, 6)), torch.ones(30, 6, dtype=torch.long))
    assert as_classifier(Reader(), None).embed(x).shape == (30, 5)
    assert poise.audit(Reader(), [(x, torch.arange(30) % 2)], examples=30).facts["model"]["embedding"] == 5


def test_a_file_of_torchscript_is_a_program(tmp_path: Path) -> None:
    """torch unpickles no Python from it, but runs what it says: it needs --trust, and then embed and head."""
    plain, whole = tmp_path / "plain.pt", tmp_path / "whole.pt"
    torch.jit.script(nn.Sequential(*BODY, HEAD)).save(str(plain))
    torch.jit.script(WithEmbed()).save(str(whole))
    ways: dict[str, Any] = {"weights": None, "network": None, "head": None, "normalize": None}
    for path in (plain, whole):
        with pytest.raises(AuditError, match=r"is a TorchScript program.*Python model.*--trust"):
            open_model(str(path), trust=False, **ways)
    with pytest.raises(AuditError, match="hides its layers"):
        open_model(str(plain), trust=True, **ways)
    found = open_model(str(whole), trust=True, **ways).model
    torch.testing.assert_close(found.head(found.embed(X)), WithEmbed()(X))


class OneLogit(nn.Module):
    """With embed and head of its own; logits [B, 1], or [B]."""

    def __init__(self, squeezes: bool) -> None:
        super().__init__()
        self.body, self.last, self.squeezes = deepcopy(BODY), nn.Linear(32, 1), squeezes

    def embed(self, x: Tensor) -> Tensor:
        return self.body(x)

    def head(self, z: Tensor) -> Tensor:
        return self.last(z)

    def forward(self, x: Tensor) -> Tensor:
        logit = self.head(self.embed(x))
        return logit.squeeze(1) if self.squeezes else logit


@pytest.mark.parametrize("squeezes", [False, True])
def test_one_logit_is_the_log_odds_of_class_1(squeezes: bool) -> None:
    model = OneLogit(squeezes)
    found = poise.audit(model, [(X, Y % 2)], corruptions="none")
    right = (model(X).flatten() > 0) == (Y % 2 == 1)
    assert found.facts["model"]["classes"] == 2
    assert found.facts["numbers"]["accuracy"]["value"] == pytest.approx(float(right.float().mean()))
    with pytest.raises(ValueError, match="label 2 is out of range: the model has 2 classes"):
        poise.audit(model, [(X, Y % 2 + 1)], corruptions="none")
