"""Recipes of a user's own data: what is read, and the one sentence for each mistake."""

from pathlib import Path

import numpy as np
import pytest
import torch
from advised import recipe

from poise.advising.advice import require_fitting
from poise.advising.noisy_sets import columns, noisy_sets
from poise.advising.own_data import read_recipe

CPU = torch.device("cpu")
MISTAKES = {
    "x, y = 1, 2": "does not define network: set network to a function that returns a new network",
    "network = 3\ntrain = x, y": "network must be a function",
    "network = nn.Linear(4, 2)\ntrain = x, y": "network must be a function",
    "train = x": "train must be a pair (x, y) or a Dataset of such pairs, not a Tensor",
    "train = x, y[:-1]": "there are 19 labels for 20 examples",
    "train = x, y.float()": "labels must be whole numbers [N], got float32 [20]",
    "train = x, y - 1": "label -1 is negative: number the classes from 0",
    "train = x, y * 0": "train has one class only, 0: there must be two or more",
    "train = x, y * 2": "train has no example of class 1",
    "train = x[:14], y[:14]": "train has 4 examples of class 1: give 5 or more, or define validation",
    "x[3, 1] = float('nan')\ntrain = x, y": "train: example 3 has values that are NaN or infinite",
    "train = x[:, :, None] + 7, y": "pictures must be uint8, or floats in [0, 1]",
    "train = x, y\ntest = x[:, :3], y": "test has examples of shape [3], train has [4]",
    "train = x, y\ntest = x, y + 1": "test has the label 2, but train has 2 classes",
    "train = x, y\nkind = 'sound'": "kind='sound' must be 'pictures', 'table' or 'text'",
    "train = x, y\nepochs = 0": "epochs=0 must be a whole number of 1 or more",
    "train = x, y\nrare = [7]": "rare=[7] must be a list of classes, from 0 to 1",
    "train = x, y\nvalidation = x[:6], y[:6]\nrare = [1]": "validation has 0 of the rare class 1",
    "train = x, y\nkind = 'text'": "text must be ids [N, T]",
    "1 / 0": "ZeroDivisionError: division by zero",
}
START = """
import torch
from torch import nn
x, y = torch.randn(20, 4), torch.arange(20) // 10
def network():
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
"""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence(tmp_path: Path, mistake: str) -> None:
    path = tmp_path / "mine.py"
    start = START if not mistake.startswith("x, y =") else ""
    path.write_text(start + mistake + "\n")
    with pytest.raises(ValueError, match=r".") as raised:
        read_recipe(path)
    sentence = str(raised.value)
    assert sentence.startswith(str(path)) and MISTAKES[mistake] in sentence and "\n" not in sentence


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (
            "nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3))",
            "network returns logits [2, 3] for two examples, but train has 2 classes",
        ),
        ("nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 2))", "network fails on two examples of shape [2, 4]"),
        ("'net'", "network() must return a torch.nn.Module, not a str"),
    ],
)
def test_a_network_that_does_not_fit(tmp_path: Path, network: str, sentence: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(f"{START}train = x, y\nnetwork = lambda: {network}\n")
    with pytest.raises(ValueError, match=r".") as raised:
        require_fitting(read_recipe(path), CPU)
    assert sentence in str(raised.value)


def test_folds_hold_out_every_example_once_and_every_class_in_each(tmp_path: Path) -> None:
    data = read_recipe(recipe(tmp_path, "table", (33, 7)))
    numbers = [data.parts(fold)[2] for fold in range(5)]
    assert sorted(np.concatenate(numbers)) == list(range(40))
    for fold in range(5):
        train, validation, _ = data.parts(fold)
        assert len(train) + len(validation) == 40 and set(validation.y.tolist()) == {0, 1}
    assert data.rare == () and data.counts == (33, 7)


def test_a_class_with_less_than_a_fifth_of_the_largest_is_rare(tmp_path: Path) -> None:
    assert read_recipe(recipe(tmp_path, "table", (50, 11, 9))).rare == (2,)
    assert read_recipe(recipe(tmp_path, "table", (50, 11, 9), "rare = [1]\n")).rare == (1,)


def test_tables_are_standardised_by_the_training_examples(tmp_path: Path) -> None:
    more = "x[:, 1] = 5.0\nx[:, 2] = 100 + 10 * x[:, 2]\ntrain, test = (x, y), (x + 1, y)\n"
    data = read_recipe(recipe(tmp_path, "table", (20, 20), more))
    assert data.train.x.mean(0).abs().max() < 1e-4 and data.train.x.std(0, correction=0)[2] == pytest.approx(1)
    assert not data.train.x[:, 1].any() and data.test.x[0, 1] == 1


@pytest.mark.parametrize(
    ("given", "shape"),
    [
        ("x.squeeze(1).numpy()", [1, 6, 6]),
        ("(255 * x).byte()", [1, 6, 6]),
        ("x.expand(-1, 3, -1, -1)", [3, 6, 6]),
        ("x.expand(-1, 3, -1, -1).permute(0, 2, 3, 1).numpy()", [3, 6, 6]),
    ],
)
def test_pictures_in_every_form(tmp_path: Path, given: str, shape: list[int]) -> None:
    data = read_recipe(recipe(tmp_path, "pictures", (10, 10), f"train = {given}, y\n"))
    assert data.train.x.dtype == torch.uint8 and list(data.train.x.shape[1:]) == shape
    assert data.train.x[10, :, :2, :2].min() == 255


def test_a_dataset_is_read_as_pairs(tmp_path: Path) -> None:
    data = read_recipe(recipe(tmp_path, "table", (10, 10), "train = torch.utils.data.TensorDataset(x, y)\n"))
    assert data.kind == "table" and len(data.train) == 20


@pytest.mark.parametrize("kind", ["table", "pictures", "text"])
def test_noise_is_the_same_for_all_methods_and_differs_between_folds(tmp_path: Path, kind: str) -> None:
    data = read_recipe(recipe(tmp_path, kind, (40, 7)))
    made = [noisy_sets(data, data.parts(0)[1], salt) for salt in ("a", "a", "b")]
    first, again, other = ([getattr(each.x, "ids", each.x) for each in sets.values()] for sets in made)
    assert all(map(torch.equal, first, again))
    assert (
        torch.equal(first[0], other[0]) and not torch.equal(first[1], other[1]) and not torch.equal(first[2], other[2])
    )
    assert {name for column in columns(data) for name in column.of} == set(made[0])


def test_deleted_tokens_close_the_gap_and_never_take_the_last_one(tmp_path: Path) -> None:
    data = read_recipe(recipe(tmp_path, "text", (200, 200)))
    given, *noisy = (each.x for each in noisy_sets(data, data.train, "a").values())
    for share, each in zip((0.15, 0.3), noisy, strict=True):
        assert each.mask.any(1).all() and not (each.mask[:, 1:] & ~each.mask[:, :-1]).any()
        assert 1 - each.mask.sum() / given.mask.sum() == pytest.approx(share, abs=0.03)


def test_another_comment_is_the_same_recipe_and_another_number_is_not(tmp_path: Path) -> None:
    digests = [
        read_recipe(recipe(tmp_path, "table", (10, 10), more)).digest for more in ("# one\n", "# two\n", "epochs = 3\n")
    ]
    assert digests[0] == digests[1] != digests[2]
