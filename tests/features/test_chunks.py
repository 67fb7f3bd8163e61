"""Weighing a graph leaves nothing behind."""

import gc
import weakref

import torch
from torch import nn
from toys import BagOfWords, Smooth, sentences

from poise import JacobianSensitivity, RemovalSensitivity, RemovalUtility
from poise.features.utility import rows_within


def test_models_that_were_measured_can_go() -> None:
    alive = []
    for _ in range(20):
        model = Smooth(6)
        JacobianSensitivity()(model, torch.rand(2, 6))
        alive += [weakref.ref(parameter) for parameter in model.parameters()]
    del model
    gc.collect()
    assert [each() for each in alive if each() is not None] == []


def test_sentences_of_many_lengths_leave_no_graph() -> None:
    model, alive = Noted(), []
    model.note = lambda z: alive.append(weakref.ref(z))
    for length in range(3, 23):
        RemovalSensitivity()(model, sentences([length]))
        RemovalUtility()(model, sentences([length]), torch.tensor([1]))
    gc.collect()
    assert len(alive) > 40
    assert [each() for each in alive if each() is not None] == []


def test_a_gradient_taken_inside_the_model_is_weighed_too() -> None:
    model, x = Inner(6), torch.rand(2, 6)
    assert rows_within(10_000, model, model.embed, x, "embedding") >= 1


class Noted(BagOfWords):
    """Tells of every embedding; its tanh is kept for the backward pass together with its own graph."""

    def embed(self, x):
        z = super().embed(x).tanh()
        self.note(z)
        return z


class Inner(Smooth):
    """z = d energy / d x, as networks of forces have it."""

    def embed(self, x: torch.Tensor) -> torch.Tensor:
        energy = super().embed(x).square().sum()
        return nn.functional.pad(torch.autograd.grad(energy, x, create_graph=True)[0], (0, 0))[:, :4]
