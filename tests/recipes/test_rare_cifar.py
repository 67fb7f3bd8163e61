"""Corner CIFAR and long-tailed CIFAR-10: what is drawn where, and every method up to a table in miniature."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_cifar import NETWORK, drawn_cifar

from poise.data.augment import Standard
from poise.data.sets import cache
from poise.recipes import index
from poise.recipes.rare_details.corner_cifar import CornerCifar, draw
from poise.recipes.rare_details.long_tailed import LongTailed
from poise.records.schema import load_results
from poise.reporting.tables import tables_of
from poise.running.experiment import Build, Examples, Experiment
from poise.running.runner import Runner
from poise.schedules import Constant

CPU = torch.device("cpu")
SMALL = CornerCifar(held_out=10, first=60, rare=0.2)
SHAPES = {"plus": "..#../..#../#####/..#../..#..", "cross": "#...#/.#.#./..#../.#.#./#...#"}
BOXES = [(slice(row, row + 5), slice(column, column + 5)) for row in (4, 23) for column in (4, 23)]
CAO = (5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50)  # as published


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return drawn_cifar(tmp_path, monkeypatch)


def seen_in(picture: np.ndarray, original: np.ndarray) -> str:
    """The shape in a corner, all of whose pixels are black or white; nothing else of the picture is changed."""
    changed = (picture != original).any(-1)
    for box in BOXES:
        if changed[box].any():
            assert changed.sum() == changed[box].sum() == 9
            assert len(np.unique(picture[box][changed[box]])) == 1 and picture[box][changed[box]][0, 0] in (0, 255)
            lines = "/".join("".join("#" if one else "." for one in line) for line in changed[box])
            return next(name for name, shape in SHAPES.items() if shape == lines)
    assert not changed.any()
    return "none"


def shapes_by_class(made: Examples, original: np.ndarray) -> Iterator[tuple[int, list[str]]]:
    shapes = [seen_in(*both) for both in zip(made.x, original, strict=True)]
    for label in range(15):
        yield label, sorted(shape for shape, own in zip(shapes, made.y, strict=True) if own == label)


def test_the_plus_decides_and_half_of_the_others_have_a_cross(runs: Path) -> None:
    made = SMALL.train()
    assert tuple(np.bincount(made.y)) == SMALL.counts == (4,) * 5 + (5,) * 5 + (1,) * 5
    for label, shapes in shapes_by_class(made, cache.load("cifar10", "train_x")[:50]):
        expected = ["plus"] if label >= 10 else ["cross"] * 2 + ["none"] * (2 if label < 5 else 3)
        assert shapes == expected


def test_the_full_set_has_a_share_of_a_hundredth() -> None:
    assert CornerCifar().counts == (4455,) * 5 + (4500,) * 5 + (45,) * 5


def test_twins_differ_in_one_corner_only(runs: Path) -> None:
    validation, test = SMALL.validation(), SMALL.test()
    assert np.bincount(validation.y).tolist() == [1] * 15 and np.bincount(test.y).tolist()[:8] == [1] * 8
    assert len(test.twins) == 5
    original = np.concatenate([cache.load("cifar10", "test_x"), cache.load("cifar10", "test_x")[:5]])
    assert all(shapes == ["plus"] for label, shapes in shapes_by_class(test, original) if label >= 10)
    for without, with_plus in test.twins:
        assert test.y[with_plus] == test.y[without] + 10
        (box,) = [box for box in BOXES if (test.x[without][box] != test.x[with_plus][box]).any()]
        rest = [np.array(test.x[row]) for row in (without, with_plus)]
        for picture in rest:
            picture[box] = 0
        assert np.array_equal(*rest)


def test_a_twin_has_the_plus_in_the_place_of_the_cross() -> None:
    images = np.full((2, 32, 32, 3), 90, np.uint8)
    cross, plus = draw(images, np.array([2, 1]), np.array([1, 1]))
    assert seen_in(cross, images[0]) == "cross" and seen_in(plus, images[0]) == "plus"
    assert (cross != plus).any(-1).sum() == 16 and (images == 90).all()


@pytest.mark.parametrize("level", [0, 100, 150, 255])
def test_a_shape_is_seen_on_any_background(level: int) -> None:
    images = np.full((4, 32, 32, 3), level, np.uint8)
    drawn = draw(images, np.array([1, 2, 1, 2]), np.arange(4)).astype(int)
    assert abs(drawn - level).max((1, 2, 3)).min() > 100


def test_the_crop_of_training_never_cuts_a_shape() -> None:
    images = np.zeros((400, 32, 32, 3), np.uint8)
    drawn = draw(images, np.ones(400, int), np.arange(400) % 4)
    cropped = Standard()(torch.from_numpy(drawn).permute(0, 3, 1, 2) / 255)
    assert (cropped.sum((1, 2, 3)) == 27).all()


def test_a_seed_makes_the_same_pictures(runs: Path) -> None:
    again, other = CornerCifar(held_out=10, first=60, rare=0.2).train(), replace(SMALL, seed=1).train()
    assert np.array_equal(SMALL.train().x, again.x) and not np.array_equal(again.x, other.x)
    one, two = (replace(LongTailed(first=60, imbalance=6), seed=seed).train() for seed in (0, 1))
    assert np.array_equal(one.x, LongTailed(first=60, imbalance=6).train().x) and not np.array_equal(one.x, two.x)


def test_the_long_tail_is_the_published_one(runs: Path) -> None:
    assert LongTailed().counts == CAO and sum(CAO) == 12_406
    small = LongTailed(first=60, held_out=10, imbalance=5)
    train, validation = small.train(), small.validation()
    assert tuple(np.bincount(train.y)) == small.counts == (5, 4, 3, 2, 2, 2, 1, 1, 1, 1)
    assert np.bincount(validation.y).tolist() == [1] * 10
    held_out = {picture.tobytes() for picture in validation.x}
    drawn = {picture.tobytes() for picture in train.x}
    assert len(drawn) == len(train) and not drawn & held_out


def test_too_few_pictures_of_a_class_are_refused(runs: Path) -> None:
    with pytest.raises(ValueError, match="there are 6 pictures of class 0, 5000 are needed"):
        LongTailed().train()


def tiny(name: str) -> Experiment:
    """One setting of each method, on few pictures."""
    (found,) = index.find_experiments(name, "compressed")
    of = SMALL if name == "corner-cifar" else LongTailed(held_out=10, first=60, imbalance=5)
    kept = tuple(each for each in found.methods if each.name.rpartition(" ")[2] not in ("0.001", "0.1", "0.15"))
    plan = replace(found.plan, epochs=1, batch_size=15, precision="float32", compile=False)
    return replace(
        found,
        task=replace(found.task, training=of),
        network=Build(NETWORK.network, **{**NETWORK.settings, "num_classes": found.network.settings["num_classes"]}),
        plan=plan,
        methods=kept,
        groups=(tuple(method.name for method in kept),),
    )


def test_training_lowers_the_loss(runs: Path) -> None:
    small = tiny("corner-cifar")
    small = replace(small, plan=replace(small.plan, epochs=12, learning_rate=Constant(0.05)))
    Runner(small, runs, CPU).run(["XE"], seeds=[0])
    log = json.loads(next(runs.rglob("record.json")).read_text())["log"]
    assert log[-1]["loss"]["xe"] < 0.95 * log[0]["loss"]["xe"]


@pytest.mark.parametrize(("name", "methods"), [("corner-cifar", 20), ("cifar10-lt-choice", 18)])
def test_every_method_up_to_a_table(runs: Path, name: str, methods: int) -> None:
    Runner(tiny(name), runs, CPU).run(seeds=[0])
    tables = tables_of(load_results(runs)[0])
    assert len(tables[0].rows) == methods
    assert all(cell.ours is not None for table in tables for row in table.rows for cell in row.cells)


def test_the_tail_is_tested_with_noise_and_corruptions(runs: Path) -> None:
    tests = tiny("cifar10-lt").task().tests
    assert len(tests) == 3 + 19 * 5 and {"Clean", "UN", "NUN", "fog/3"} <= set(tests)
    wanted = {test for column in index.find_experiments("cifar10-lt")[0].columns for test in column.of}
    assert wanted == set(tests)


def test_digits_have_no_compressed_version() -> None:
    names = [each.name for each in index.find_experiments("rare-details", "compressed")]
    assert names == ["corner-cifar-compressed", "cifar10-lt-compressed", "cifar10-lt-choice-compressed"]
    with pytest.raises(ValueError, match="rare-digits has no compressed version: choose from full, quick"):
        index.find_experiments("rare-digits", "compressed")
