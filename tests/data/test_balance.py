"""Counts of classes, and batches in which all are as frequent."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from poise import balanced_sampler, class_counts


@pytest.mark.parametrize(
    "labels",
    [[2, 0, 2, 2], (2, 0, 2, 2), np.array([2, 0, 2, 2], "uint8"), torch.tensor([2, 0, 2, 2], dtype=torch.int32)],
    ids=["list", "tuple", "array", "tensor"],
)
def test_counts_by_class(labels: object) -> None:
    assert class_counts(labels) == (1, 0, 3)
    assert class_counts(labels, num_classes=5) == (1, 0, 3, 0, 0)


def test_counts_of_a_loader() -> None:
    x, y = torch.rand(7, 2), torch.tensor([0, 1, 1, 3, 1, 0, 1])
    assert class_counts(DataLoader(TensorDataset(x, y), batch_size=3)) == tuple(np.bincount(y.numpy()))
    named = [{"pixels": each, "labels": label} for each, label in zip(x, y, strict=True)]
    assert class_counts(DataLoader(named, batch_size=2)) == (2, 4, 0, 1)  # type: ignore[arg-type]


def test_every_class_is_drawn_as_often() -> None:
    labels = torch.tensor([0] * 900 + [1] * 90 + [2] * 10)
    sampler = balanced_sampler(labels, 6000, torch.Generator().manual_seed(0))
    drawn = labels[list(sampler)].bincount()
    assert len(sampler) == 6000 and len(balanced_sampler(labels)) == 1000
    assert (drawn - 2000).abs().max() < 5 * (6000 * 2 / 9) ** 0.5  # five standard deviations


@pytest.mark.parametrize(
    ("labels", "error", "words"),
    [
        ([0, -1], ValueError, "label -1 is out of range"),
        ([0.0, 1.0], ValueError, r"labels must be whole numbers \[N\]"),
        (torch.eye(3), ValueError, r"labels must be whole numbers \[N\]"),
        ([], ValueError, "labels must be whole numbers"),
        ("words", TypeError, "labels='words' must be a list"),
        (["a", "b"], TypeError, "labels must be whole numbers"),
        (3, TypeError, "labels=3 must be a list"),
    ],
)
def test_labels_that_cannot_be_are_refused(labels: object, error: type[Exception], words: str) -> None:
    for function in (class_counts, balanced_sampler):
        with pytest.raises(error, match=words):
            function(labels)


def test_more_labels_than_classes_and_loaders_without_labels_are_refused() -> None:
    with pytest.raises(ValueError, match="label 4 is out of range: num_classes=3"):
        class_counts([0, 4], num_classes=3)
    with pytest.raises(TypeError, match="batches are not pairs of inputs and labels"):
        class_counts(DataLoader(torch.rand(4, 2)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="count=0 must be a whole number of 1 or more"):
        balanced_sampler([0, 1], 0)
