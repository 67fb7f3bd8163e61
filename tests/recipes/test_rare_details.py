"""The study of rare details: its made data, its measures, and every method up to a table in miniature."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from data_sets import digits
from torch import nn

from poise import XE, LogitAdjusted
from poise.evaluation.accuracy import pair_accuracy
from poise.recipes import index
from poise.recipes.rare_details.digits import COUNTS, CornerUtility, twins_of
from poise.recipes.synthetic_mnist import table_1
from poise.records.columns import Column
from poise.records.schema import load_results
from poise.reporting.tables import tables_of
from poise.running.experiment import Examples
from poise.running.runner import Runner

RESULTS = Path(__file__).parents[2] / "results"
OTHERS = ("0.001", "0.03", "0.1", "0.15", "0.25")  # settings, without .01 of contrasts and .2 of noises
MNIST_TRAINING = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)  # of each digit, as published


def test_counts_are_those_of_the_training_set() -> None:
    """MNIST's training digits without those of validation, counted when recorded models were tested."""
    with gzip.open(RESULTS / "synthetic-mnist-frontier" / "runs.jsonl.gz", "rt") as lines:
        record = next(found for line in lines if "classes" in (found := json.loads(line)["content"]))
    held_out = [total for _, total in record["classes"]["validation"]]
    assert (*(whole - held_out[digit] for digit, whole in enumerate(MNIST_TRAINING)), *[50] * 5) == COUNTS


@pytest.fixture
def small_mnist(monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    arrays = digits(900, 200)
    monkeypatch.setattr(table_1, "load", lambda name, part: arrays[part])
    return arrays


def tiny(name: str = "rare-digits", length: str = "full"):
    """One setting of each method, on few digits."""
    (experiment,) = index.find_experiments(name, length)
    made = replace(experiment.task.digits, common=20, rare=5, validation=400)
    methods = tuple(m for m in experiment.methods if m.name.rpartition(" ")[2] not in OTHERS)
    return replace(
        experiment,
        task=replace(experiment.task, digits=made),
        plan=replace(experiment.plan, epochs=1),
        methods=methods,
        groups=(tuple(method.name for method in methods),),
    )


def test_twins_differ_in_a_corner_only(small_mnist) -> None:
    test = tiny().task().tests["BAL"](torch.device("cpu"))
    assert len(test.twins) == int((test.y < 5).sum()) > 50
    for first, second in test.twins:
        assert test.y[second] == test.y[first] + 10
        rows, columns = np.nonzero(test.x[first] != test.x[second])
        assert len(set(rows // 7) & {1, 2}) == 0 and len(set(columns // 7) & {1, 2}) == 0


def test_noisy_tests_have_the_same_twins(small_mnist) -> None:
    tests = {name: make(torch.device("cpu")) for name, make in tiny().task().tests.items()}
    assert set(tests) == {"validation", "validation+UN", "validation+NUN", "BAL", "BAL+UN", "BAL+NUN"}
    assert np.array_equal(tests["BAL"].twins, tests["BAL+NUN"].twins)
    assert not np.array_equal(tests["BAL"].x, tests["BAL+NUN"].x)


@pytest.mark.parametrize("name", ["rare-digits", "rare-digits-nearest"])
def test_every_method_up_to_a_table(tmp_path: Path, small_mnist, name: str) -> None:
    experiment = tiny(name)
    Runner(experiment, tmp_path, torch.device("cpu")).run(seeds=[0])
    table = tables_of(load_results(tmp_path)[0])[0]
    assert [row.method for row in table.rows] == [method.name for method in experiment.methods]
    assert {column.name for column in table.columns} >= {"worst class, noise", "pairs", "pairs, noise", "rare"}
    assert len(table.rows) == 20 and all(cell.ours is not None for row in table.rows for cell in row.cells)


def test_the_quick_look_shows_the_effect_alone(tmp_path: Path, small_mnist) -> None:
    Runner(tiny(length="quick"), tmp_path, torch.device("cpu")).run(seeds=[0])
    (table,) = tables_of(load_results(tmp_path)[0])
    assert [row.method for row in table.rows] == ["XE", "XE, adjusted", "recommended", "FCL 0.01"]
    assert [column.name for column in table.columns] == ["clean", "noise", "rare", "rare, noise"]
    assert table.notice.startswith("A miniature:")


def test_every_method_comes_with_and_without_adjustment() -> None:
    (experiment,) = index.find_experiments("rare-digits")
    plain = [method for method in experiment.methods if not ("adjusted" in method.name or "recommended" in method.name)]
    methods = {method.name: method for method in experiment.methods}
    mixed = {word: methods[f"AugMix{word}"].objective for word in ("", ", adjusted", "+recommended")}
    assert mixed.pop("+recommended").objective == methods["recommended"].objective
    for word, objective in mixed.items():
        assert objective.objective == methods[f"XE{word}"].objective
    plain.remove(methods["AugMix"])
    for method in plain:
        name, _, setting = method.name.rpartition(" ")
        other = methods[f"{name}, adjusted {setting}" if name else f"{setting}, adjusted"]
        assert other.augment == method.augment
        assert other.objective == replace(method.objective, loss=LogitAdjusted(COUNTS))
    assert methods["XE"].objective == XE() and len(plain) == 29


def test_the_true_utility_is_in_the_corners_where_they_decide() -> None:
    x = torch.zeros(3, 1, 28, 28)
    x[:, 0, 14, 14] = 0.3
    u = CornerUtility(7)(nn.Identity(), x, torch.tensor([2, 12, 7]))
    assert u[0, 0, :7, :7].min() == u[1, 0, 21:, :7].min() == 1 and u[2, 0, :7, :7].max() == 0
    assert (u[:, 0, 14, 14] == 0.5).all() and u[0].sum() == 4 * 49 + 0.5 and u[2].sum() == 0.5
    with pytest.raises(TypeError, match=r"CornerUtility needs images \[B, 1, 28, 28\]"):
        CornerUtility().check(torch.zeros(2, 3, 28, 28))


class Remembering(nn.Module):
    """Says the class that the first value of an example names."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.one_hot((x[:, 0, 0, 0] * 255).round().long(), 4).float()


@pytest.mark.parametrize("batch", [2, 100])
def test_a_pair_counts_if_both_are_right(batch: int) -> None:
    said, y = torch.tensor([0, 1, 2, 3, 1, 0]), torch.tensor([0, 1, 2, 0, 1, 1])
    images = said.to(torch.uint8).view(-1, 1, 1, 1)
    pairs = [(0, 1), (0, 3), (3, 5), (2, 4), (1, 5)]
    both = [said[a] == y[a] and said[b] == y[b] for a, b in pairs]
    assert pair_accuracy(Remembering(), images, y, torch.tensor(pairs), batch) == sum(both) / 5 == 0.4


def test_twins_are_rows_of_pairs() -> None:
    assert twins_of(np.array([1, 7, 0, 11, 10])).tolist() == [[0, 3], [2, 4]]
    with pytest.raises(ValueError, match=r"twins is int64 \[3\]: give the rows of both examples of each pair"):
        Examples(np.zeros((3, 4, 4), np.uint8), np.zeros(3, int), np.array([0, 1, 2]))


def test_the_worst_class_is_that_of_each_test() -> None:
    classes = {"a": [[9, 10], [5, 10], [0, 0]], "b": [[2, 10], [10, 10], [0, 0]]}
    assert Column("worst", ("a",), worst=True).value({}, classes) == 0.5
    assert Column("worst", ("a", "b"), worst=True).value({}, classes) == pytest.approx(0.35)
    assert Column("worst", ("a",), (0,), worst=True).value({}, classes) == 0.9
    assert Column("worst", ("c",), worst=True).value({}, classes) is None


def test_the_parts_have_their_names() -> None:
    for length in ("full", "quick"):
        found = [each.name.removesuffix("-quick") for each in index.find_experiments("rare-details", length)]
        assert tuple(found) == index.FILES["rare-details"][1]
