"""Models and data that do not fit together: said first, with the likely cause, and no feature is accused."""

from collections import Counter

import numpy as np
import pytest
import torch
from auditing.planted import batches, linear, plain_rows

import poise
from poise.auditing.mismatch import best_numbering, class_order

NAMES = ["cat", "dog", "bird", "fish"]


def diagonal() -> torch.nn.Module:
    network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    with torch.no_grad():
        network[0].weight.copy_(torch.eye(4)), network[1].weight.copy_(10 * torch.eye(4))
    return network


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ([0, 1, 2, 3], ""),
        ([1, 0, 2, 3], "class 0 means dog, 1 means cat"),
        ([1, 2, 3, 0], "class 0 means dog, 1 means bird, 2 means fish, 3 means cat"),
    ],
)
def test_labels_in_another_order_than_the_model_s(order: list[int], said: str) -> None:
    x = torch.eye(4).repeat(25, 1) + 0.1 * torch.rand(100, 4)
    found = poise.audit(diagonal(), [(x, torch.tensor(order).repeat(25))], names=poise.Names(classes=NAMES))
    assert said in found.verdict and ("mismatch" in found.names) == bool(said)


def test_a_class_that_is_taken_for_another_is_no_other_order() -> None:
    labels = np.repeat([0, 1, 2, 3, 4], 20)
    ring = np.repeat([1, 2, 0, 0, 4], 20)  # three classes in a ring, and one that is taken for one of them
    assert best_numbering(ring, labels, 5).tolist() == [2, 0, 1, 3, 4]
    assert class_order(ring, labels, 5, [])
    assert not class_order(np.repeat([1, 2, 2, 2, 4], 20), labels, 5, [])
    assert not class_order(labels, labels, 5, [])


def test_errors_without_an_order_have_none() -> None:
    """Random answers of ten classes, forty samples: a numbering fitted to half of them fails on the other half."""
    found = Counter(
        bool(class_order(*np.random.default_rng(seed).integers(10, size=(2, 100)), 10, [])) for seed in range(40)
    )
    assert found[True] == 0


def test_two_swapped_classes() -> None:
    x, y = plain_rows(100, 1)
    found = poise.audit(linear(), batches(x, 1 - y), examples=100)
    assert found.names == ("mismatch",) and "class 0 means 1, 1 means 0" in found.verdict
    assert "--classes" in found.facts["verdict"]["findings"][0]["advice"]


def test_a_model_that_guesses_accuses_nothing() -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 8), torch.nn.ReLU(), torch.nn.Linear(8, 10))
    loader = [(torch.rand(100, 1, 8, 8), torch.randint(10, (100,)))]
    for _ in range(3):
        network[3].reset_parameters()
        assert poise.audit(network, loader, corruptions="none").names == ("mismatch",)


def test_a_constant_answer() -> None:
    model = linear()
    model.head = torch.nn.Linear(6, 2)
    model.head.bias.data = torch.tensor([0.0, 1e6])
    found = poise.audit(model, batches(*plain_rows(60)), examples=60)
    assert found.names == ("mismatch",) and "the same answer, 1, to all 60 examples" in found.verdict


def test_wrong_confidences_are_said_first_and_change_no_answer() -> None:
    x, y = plain_rows(200, 2)
    right = poise.audit(linear(), batches(x, y), examples=200)
    assert not right.facts["verdict"]["first"]
    for scale, words in ((10, "too sure"), (0.01, "not sure enough")):
        model = linear()
        model.head.weight.data *= scale
        found = poise.audit(model, batches(x, (y + (torch.arange(200) % 5 == 0)) % 2), examples=200)
        (said,) = found.facts["verdict"]["first"]
        assert words in said["sentence"] and found.verdict.startswith(said["sentence"])
        assert "mismatch" not in found.names
