"""The queue of long runs: what is left of it, and going on with it."""

from pathlib import Path

import pytest

from benchmarks.long_runs import QUEUE, Item, go_on, left_of, main
from poise.cli.reproduce import length_of
from poise.recipes import index

pytestmark = pytest.mark.torch
RESULTS = Path(__file__).parents[1] / "results"


@pytest.mark.parametrize("item", QUEUE, ids=lambda item: item.about)
def test_every_item_can_be_run(item: Item) -> None:
    experiments = [each for name in item.names for each in index.find_experiments(name, item.length)]
    for experiment in experiments:
        assert len(experiment.runs(item.methods or None, range(item.seeds))) > 0
    assert length_of(item.length == "compressed", False) == item.length


def test_records_are_not_left(tmp_path: Path) -> None:
    item = Item("one", ("noisy-cifar10",), ("XE", "FCL"), 2, 1)
    assert left_of(item, tmp_path) == (4, 4)
    assert left_of(item, RESULTS)[0] < 4


def test_without_time_nothing_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    go_on(QUEUE[0], tmp_path, "cpu", 0.0)
    main(["--out", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(QUEUE) and "0 of  40 runs, about  72 min left" in lines[0]


def test_a_failure_ends_the_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POISE_DATA", str(tmp_path / "nothing"))
    with pytest.raises(SystemExit, match="stopped at 'CIFAR-10, four methods': poise reproduce ended with 1"):
        go_on(QUEUE[0], tmp_path, "cpu", 1.0)
