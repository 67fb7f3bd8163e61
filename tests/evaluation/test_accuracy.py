"""Counts of what is right, class by class."""

import torch
from miniature import blobs

from poise import LeNet
from poise.data.loading.resident import on_device
from poise.evaluation.accuracy import count_right


def test_counts_are_those_of_a_loop() -> None:
    model = LeNet(3, size=16)
    examples = blobs(101, 4)
    images, labels = on_device(examples.x, examples.y)
    counts = count_right(model, images, labels, 3, batch_size=7)
    with torch.no_grad():
        guesses = [int(model.eval()(image[None] / 255).argmax()) for image in images]
    for label in range(3):
        of_class = [guess for guess, y in zip(guesses, labels, strict=True) if y == label]
        assert counts[label].tolist() == [sum(guess == label for guess in of_class), len(of_class)]


def test_measuring_changes_nothing() -> None:
    model = LeNet(3, size=16).train()
    examples = blobs(10, 4)
    count_right(model, *on_device(examples.x, examples.y), 3)
    assert model.training and all(parameter.grad is None for parameter in model.parameters())


def test_one_logit_says_class_1_above_0() -> None:
    images = torch.tensor([10, 200, 220, 30], dtype=torch.uint8).view(4, 1, 1, 1)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(1, 1))
    torch.nn.init.ones_(model[1].weight)
    torch.nn.init.constant_(model[1].bias, -0.5)
    assert count_right(model, images, torch.tensor([0, 1, 0, 1]), 2).tolist() == [[1, 2], [1, 2]]
