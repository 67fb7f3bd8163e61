"""split on every model of the zoo: it works, and the model stays as it was; or it refuses in a sentence.

The oracle is a twin of the same seed that poise never sees.
"""

import copy
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from models.zoo import ZOO, Entry
from models.zoo_quirks import Around, Net
from torch import Tensor, nn
from toys import same_state, state_of

from poise import (
    FCL,
    XE,
    Gaussian,
    GradientUtility,
    InfoNCE,
    RemovalUtility,
    Remove,
    Tokens,
    TopBottom,
    TopBottomFraction,
    split,
)
from poise.classifier import logits_of

pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")  # by torch.compile
every_model = pytest.mark.parametrize("entry", [e for e in ZOO if not e.refused], ids=lambda entry: entry.name)
every_refusal = pytest.mark.parametrize("entry", [e for e in ZOO if e.refused], ids=lambda entry: entry.name)
both_modes = pytest.mark.parametrize("mode", ["eval", "train"])
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def twins(entry: Entry) -> tuple[nn.Module, nn.Module]:
    return entry.made(), entry.made()


def own_logits(entry: Entry, model: nn.Module, x: Any) -> Tensor:
    seed()
    logits = logits_of(entry.call(model, x))
    return logits[:, None] if logits.ndim == 1 else logits


def close(entry: Entry, got: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(got, expected, rtol=entry.rounding or 1e-4, atol=entry.rounding or 1e-6)


def seed() -> None:
    torch.manual_seed(2)
    np.random.seed(2)  # which transformers uses to mask sounds


def seen(model: nn.Module) -> dict[str, Any]:
    """All of a model that split must leave alone, beside its values."""
    return {
        "parameters": [id(p) for p in model.parameters()],
        "modules": [(name, id(module), type(module)) for name, module in model.named_modules()],
        "keys": [*model.state_dict()],
        "forward": [id(vars(module).get("forward")) for module in model.modules()],
    }


def worn(model: nn.Module) -> list[Any]:
    """What a first pass may put onto a model itself, as transformers does with hooks."""
    return [(sorted(vars(module)), *(len(getattr(module, hooks)) for hooks in HOOKS)) for module in model.modules()]


def ready(entry: Entry, model: nn.Module, x: Any) -> nn.Module:
    """Lazy modules get their shapes."""
    if any(nn.parameter.is_lazy(p) for p in model.parameters()):
        own_logits(entry, model, x)
    return model


def test_the_zoo_is_large_and_its_names_differ() -> None:
    names = [entry.name for entry in ZOO]
    assert len(set(names)) == len(names) >= 48


@every_model
def test_the_head_is_the_expected_one(entry: Entry) -> None:
    model = entry.made()
    classifier = entry.split(model)
    assert classifier.head_name == entry.head and classifier.model is model


@every_model
@both_modes
def test_head_of_embed_is_what_the_model_gives(entry: Entry, mode: str) -> None:
    (model, twin), (x, _) = twins(entry), entry.batch()
    classifier = entry.split(model.train(mode == "train"))
    seed()
    made = classifier.head(classifier.embed(x))
    close(entry, made, own_logits(entry, twin.train(mode == "train"), x))


@every_model
@both_modes
def test_the_model_stays_as_its_own_pass_leaves_it(entry: Entry, mode: str) -> None:
    """Also torch's random state: checking draws none."""
    (model, twin), (x, _) = twins(entry), entry.batch()
    for one in (ready(entry, model, x), ready(entry, twin, x)):
        one.train(mode == "train")
    before = seen(model)
    classifier = entry.split(model)
    seed()
    classifier.head(classifier.embed(x))
    drawn = torch.get_rng_state()
    own_logits(entry, twin, x)
    assert torch.equal(drawn, torch.get_rng_state())
    assert same_state(state_of(model), state_of(twin))
    assert seen(model) == before and worn(model) == worn(twin)


@every_model
def test_gradients_are_those_of_the_model_s_own_loss(entry: Entry) -> None:
    (model, twin), (x, y) = twins(entry), entry.batch()
    classifier = entry.split(model)
    seed()
    XE()(classifier, x, y).total.backward()
    logits = own_logits(entry, twin, x).float()
    F.cross_entropy(F.pad(logits, (1, 0)) if logits.shape[1] == 1 else logits, y).backward()
    for (name, p), q in zip(model.named_parameters(), twin.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None), name
        if p.grad is not None:
            close(entry, p.grad, q.grad)


@every_model
def test_utility_and_a_step_of_fcl_are_finite(entry: Entry) -> None:
    model, (x, y) = entry.made(), entry.batch()
    classifier = entry.split(model)
    text = isinstance(x, Tokens)
    utility = RemovalUtility() if text else GradientUtility(entry.own_forward)
    assert utility(classifier, x, y).isfinite().all()
    choose, change = (TopBottomFraction(0.2), Remove()) if text else (TopBottom(2), Gaussian(0.1))
    loss = FCL(utility, choose, change, InfoNCE(0.1), 1.0, entry.statistics)(classifier, x, y)
    loss.total.backward()
    assert loss.total.isfinite()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@every_model
def test_a_copy_is_right_and_independent(entry: Entry) -> None:
    model, (x, _) = entry.made().eval(), entry.batch()
    classifier = entry.split(model)
    with torch.no_grad():
        z = classifier.embed(x)
        other = copy.deepcopy(classifier)
        for p in model.parameters():
            p.zero_()
        if entry.name != "counting":
            torch.testing.assert_close(other.embed(x), z)
        expected = own_logits(entry, copy.deepcopy(other.model), x)
        close(entry, other.head(other.embed(x)), expected)


@every_model
def test_an_optimizer_trains_all_of_it(entry: Entry) -> None:
    x, y = entry.batch()
    model = ready(entry, entry.made(), x)
    classifier = entry.split(model)
    assert {id(p) for p in classifier.parameters()} == {id(p) for p in model.parameters()}
    optimizer = torch.optim.SGD(classifier.parameters(), lr=0.1)
    XE()(classifier, x, y).total.backward()
    moved = [(p, p.detach() - 0.1 * p.grad) for p in model.parameters() if p.grad is not None]
    optimizer.step()
    assert any(p.grad.any() for p, _ in moved)
    torch.testing.assert_close([p.detach() for p, _ in moved], [there for _, there in moved])
    model.eval()
    expected = own_logits(entry, copy.deepcopy(model), x)
    close(entry, classifier.head(classifier.embed(x)), expected)


@every_refusal
def test_a_refusal_is_a_sentence_and_the_model_stays(entry: Entry) -> None:
    model, (x, y) = entry.made(), entry.batch()
    before, parts, drawn = state_of(model), seen(model), torch.get_rng_state()
    with pytest.raises((ValueError, TypeError), match=entry.refused) as told:
        XE()(entry.split(model), x, y)
    message = str(told.value)
    assert "\n" not in message and len(message) < 400
    assert same_state(before, state_of(model)) and parts == seen(model)
    assert torch.equal(drawn, torch.get_rng_state())


def test_a_model_that_wants_no_gradient_of_its_input_is_told() -> None:
    entry = next(entry for entry in ZOO if entry.name == "hf_wav2vec2")
    objective = FCL(GradientUtility(), TopBottom(2), Gaussian(0.1), InfoNCE(0.1), 1.0)
    with pytest.raises(ValueError, match=r"x cannot have a gradient in train mode: use GradientUtility\(own_forward"):
        objective(entry.split(entry.made()), *entry.batch())


def test_weights_that_accelerate_keeps_elsewhere_are_named() -> None:
    accelerate = pytest.importorskip("accelerate", reason="pip install '.[transformers]'")
    model = accelerate.cpu_offload(Around(Net()), execution_device="cpu")
    with pytest.raises(
        ValueError, match=r"weights are on the meta device.*remove_hook_from_module\(model, recurse=True\)"
    ):
        split(model).embed(torch.rand(4, 6))
