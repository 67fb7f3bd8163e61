"""Examples and tasks refuse data that cannot be what they say, before anything is trained."""

import numpy as np
import pytest
import torch

from poise.running.experiment import Examples, Task

IMAGES, LABELS = np.zeros((4, 8, 8), np.uint8), np.arange(4)


@pytest.mark.parametrize(
    ("x", "y", "sentence"),
    [
        (IMAGES / 255, LABELS, r"x is float64 \[4, 8, 8\]: give uint8 images"),
        (IMAGES[0], LABELS, r"x is uint8 \[8, 8\]"),
        (IMAGES, LABELS[:3], "y has 3 labels for 4 examples"),
        (IMAGES, LABELS / 1, r"y is float64 \[4\]: give one whole number per example"),
        (IMAGES, np.eye(4, dtype=np.uint8), r"y is uint8 \[4, 4\]"),
        (np.zeros((4, 5), np.int64), LABELS, r"x is int64 \[4, 5\]"),
    ],
)
def test_examples_that_are_none(x: np.ndarray, y: np.ndarray, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Examples(x, y)


def test_images_and_word_pieces_are_taken() -> None:
    for x in (IMAGES, IMAGES[..., None], torch.zeros(4, 1, 8, 8, dtype=torch.uint8), np.zeros((4, 5), np.int32)):
        for y in (LABELS, LABELS.astype(np.uint8), torch.arange(4)):
            assert len(Examples(x, y)) == 4


@pytest.mark.parametrize(("first", "sentence"), [(1, "train has labels from 1 to 4"), (-1, "from -1 to 2")])
def test_labels_are_numbered_from_0(first: int, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"{sentence}: number the 4 classes from 0"):
        Task(Examples(IMAGES, LABELS + first), None, {}, 4)
