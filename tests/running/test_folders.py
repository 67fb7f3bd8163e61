"""Folder locks: one process at a time, released when it ends; and one recipe in each folder."""

import threading
import time
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest
from fake_records import write_record

from poise.errors import TrainingError
from poise.io.documents import write_json
from poise.io.files import held, try_lock
from poise.records.schema import Record
from poise.running.record import refuse_mixing


def test_a_folder_is_one_s_alone(tmp_path: Path) -> None:
    with try_lock(tmp_path) as mine, try_lock(tmp_path) as again:
        assert mine and not again
    with try_lock(tmp_path) as mine:
        assert mine


def test_looking_for_a_lock_creates_no_folder_and_takes_none(tmp_path: Path) -> None:
    assert not held(tmp_path / "missing") and not (tmp_path / "missing").exists()
    with try_lock(tmp_path):
        assert held(tmp_path)
    assert not held(tmp_path)


def test_an_attempt_succeeds_while_others_look(tmp_path: Path) -> None:
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.005):
            held(tmp_path)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(20):
            with try_lock(tmp_path) as mine:
                assert mine
    finally:
        over.set()
        looking.join()


def _decode(begun: Event) -> None:
    begun.set()
    time.sleep(60)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_that_decodes_holds_no_folder(tmp_path: Path) -> None:
    """It outlives a run that was killed by some seconds, in which the run is sent again."""
    forking = get_context("fork")
    begun = forking.Event()
    decoder = forking.Process(target=_decode, args=(begun,))
    with try_lock(tmp_path):
        decoder.start()
        assert begun.wait(20)
        with try_lock(tmp_path) as again:
            assert not again  # ours still
    try:
        with try_lock(tmp_path) as mine:
            assert mine and decoder.is_alive()
    finally:
        decoder.kill()
        decoder.join()


@pytest.mark.parametrize("name", ["XE", "FCL"])
def test_two_plans_beside_a_network_that_prints_as_no_python(tmp_path: Path, name: str) -> None:
    def recipe(method: str, epochs: int) -> str:
        return f"Recipe(network=<lambda>(classes=3), plan=Plan(epochs={epochs}), method=Method(name='{method}'))"

    write_json(tmp_path / "xe/seed-00/recipe.json", {"recipe": recipe("XE", 3)})
    refuse_mixing(tmp_path, {name.lower(): recipe(name, 3)})
    with pytest.raises(TrainingError, match=r"another recipe \(there, here\): plan.epochs: 3, 5; use another --out"):
        refuse_mixing(tmp_path, {name.lower(): recipe(name, 5)})


def test_a_seed_that_a_folder_holds_twice_is_refused_as_in_a_table(tmp_path: Path) -> None:
    recipe = "Recipe(plan=Plan(epochs=3))"
    for folder in ("fcl/seed-3", "fcl/seed-03"):
        write_record(tmp_path / folder / "record.json", Record("blobs", "FCL", 3, recipe, {"clean": 0.5}))
    with pytest.raises(TrainingError, match=r"seed-03/record.json and .*seed-3/record.json are both seed 3 of FCL"):
        refuse_mixing(tmp_path, {"fcl": recipe})
