"""Frontiers: the dominated area against a fine grid, and the paired gap."""

import numpy as np
import pytest

from poise.records.columns import Column
from poise.reporting.figures.frontier import area, frontiers, gaps


def on_a_grid(points: list[tuple[float, float]], cells: int = 500) -> float:
    places = (np.arange(cells) + 0.5) / cells
    x, y = np.meshgrid(places, places)
    return float(np.any([(x < px) & (y < py) for px, py in points], axis=0).mean())


def test_the_area_is_that_of_the_union() -> None:
    assert area([(0.5, 0.4)]) == pytest.approx(0.2)
    assert area([(0.5, 0.4), (0.3, 0.8)]) == pytest.approx(0.5 * 0.4 + 0.3 * 0.4)
    assert area([(0.5, 0.4), (0.5, 0.3), (0.2, 0.4)]) == pytest.approx(0.2)
    state = np.random.RandomState(0)
    for _ in range(20):
        points = [(float(x), float(y)) for x, y in state.rand(6, 2)]
        assert area(points) == pytest.approx(on_a_grid(points), abs=0.01)


class Run:
    """As much of a record as a frontier reads."""

    def __init__(self, method: str, seed: int, noise: float, rare: float) -> None:
        self.method, self.seed = method, seed
        self.scores, self.classes = {"noise": noise}, {"clean": [[1, 2], [round(1000 * rare), 1000]]}


COLUMNS = (Column("noise", ("noise",)), Column("rare", ("clean",), (1,)))


def test_methods_become_frontiers_and_seeds_are_paired() -> None:
    runs = []
    for seed in range(6):
        shift = 0.05 * seed  # what a seed does to all methods
        for name, better in (("plain", 0.0), ("FCL, k", 0.02), ("level", 0.0)):
            runs.append(Run(f"{name} 0.01", seed, 0.5, 0.6 + shift + better + 0.001 * (seed % 2)))
            runs.append(Run(f"{name} 1e-04", seed, 0.3, 0.7 + shift + better))
    found = frontiers(runs, *COLUMNS)  # type: ignore[arg-type]
    assert [each.name for each in found] == ["plain", "FCL, k", "level"]
    assert list(found[1].points) == [1e-4, 0.01] and found[1].points[0.01][0] == (0.5, pytest.approx(0.62))
    assert found[0].areas[0] == pytest.approx(0.5 * 0.6 + 0.3 * 0.1)
    gap = gaps(found, "plain")
    assert gap["FCL, k"].mean == pytest.approx(0.02 * 0.5, abs=1e-6)
    assert gap["level"].mean == 0 and gap["level"].p == 1.0


def test_a_run_without_the_score_is_named() -> None:
    with pytest.raises(ValueError, match="FCL 1, seed 3, has no rare"):
        frontiers([Run("FCL 1", 3, 0.5, 0.5)], COLUMNS[0], Column("rare", ("other",), (1,)))  # type: ignore[list-item]
