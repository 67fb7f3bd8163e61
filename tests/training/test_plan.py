"""What an optimizer's recipe makes: weight decay acts where it says, and old recipes keep their words."""

import pytest
import torch
from torch import nn

from poise.models.resnet import ResNet
from poise.training.plan import SGD, Decays

RATE, DECAY = 0.1, 0.5


def shrunk(decays: Decays) -> dict[str, float]:
    """By which factor one step of a loss that wants nothing multiplies each weight."""
    model = ResNet(4, [(1, 8, 1), (1, 16, 2)])
    for parameter in model.parameters():
        nn.init.ones_(parameter)
        parameter.grad = torch.zeros_like(parameter)
    optimizer = SGD(momentum=0.0, nesterov=False, weight_decay=DECAY, decays=decays)(
        model.parameters(), torch.device("cpu")
    )
    for group in optimizer.param_groups:
        group["lr"] = RATE
    optimizer.step()
    factors = {name: parameter.detach().unique().tolist() for name, parameter in model.named_parameters()}
    assert all(len(values) == 1 for values in factors.values())
    return {name: values[0] for name, values in factors.items()}


def test_weight_decay_acts_on_all_weights_or_on_kernels() -> None:
    everywhere, kernels = shrunk("all"), shrunk("kernels")
    assert list(everywhere.values()) == pytest.approx([1 - RATE * DECAY] * len(everywhere))
    convolutions = {"stem.weight", *(f"blocks.{block}.conv{n}.weight" for block in (0, 1) for n in (1, 2))}
    assert {name for name, factor in kernels.items() if factor != 1} == {*convolutions, "head.weight"}
    assert all(kernels[name] == everywhere[name] for name in convolutions)


def test_a_model_without_biases_has_one_group() -> None:
    optimizer = SGD(decays="kernels")(nn.Linear(2, 2, bias=False).parameters(), torch.device("cpu"))
    assert len(optimizer.param_groups) == 1


def test_a_recipe_mentions_only_decays_of_its_own() -> None:
    assert repr(SGD(weight_decay=5e-4)) == "SGD(momentum=0.9, nesterov=True, weight_decay=0.0005)"
    assert repr(SGD(decays="kernels")).endswith("weight_decay=0.0, decays='kernels')")


def test_other_decays_are_refused() -> None:
    with pytest.raises(ValueError, match=r"decays.*kernels"):
        SGD(decays="biases")  # type: ignore[arg-type]
