"""The folders of runs: one process at a time, and free as soon as it is gone."""

import time
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from poise.errors import TrainingError
from poise.io.json_files import write_json
from poise.io.locks import busy
from poise.running.record import mixing


def test_a_folder_is_one_s_alone(tmp_path: Path) -> None:
    with busy(tmp_path) as mine, busy(tmp_path) as again:
        assert mine and not again
    with busy(tmp_path) as mine:
        assert mine


def _decode(begun: Event) -> None:
    begun.set()
    time.sleep(60)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_that_decodes_holds_no_folder(tmp_path: Path) -> None:
    """It outlives a run that was killed by some seconds, in which the run is sent again."""
    forking = get_context("fork")
    begun = forking.Event()
    decoder = forking.Process(target=_decode, args=(begun,))
    with busy(tmp_path):
        decoder.start()
        assert begun.wait(20)
        with busy(tmp_path) as again:
            assert not again  # ours still
    try:
        with busy(tmp_path) as mine:
            assert mine and decoder.is_alive()
    finally:
        decoder.kill()
        decoder.join()


@pytest.mark.parametrize("name", ["XE", "FCL"])
def test_two_plans_beside_a_network_that_prints_as_no_python(tmp_path: Path, name: str) -> None:
    def recipe(method: str, epochs: int) -> str:
        return f"Recipe(network=<lambda>(classes=3), plan=Plan(epochs={epochs}), method=Method(name='{method}'))"

    write_json(tmp_path / "xe/seed-00/recipe.json", {"recipe": recipe("XE", 3)})
    mixing(tmp_path, {name.lower(): recipe(name, 3)})
    with pytest.raises(TrainingError, match=r"another recipe \(there, here\): plan.epochs: 3, 5; use another --out"):
        mixing(tmp_path, {name.lower(): recipe(name, 5)})
