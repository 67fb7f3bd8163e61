"""Tables as values: columns, groups, marks, notes."""

import json
from pathlib import Path
from statistics import fmean

import pytest
from fake_records import cifar, mnist, path_of
from scipy import stats

from poise.corruptions.protocols import ALEXNET_ERRORS, CORRUPTIONS, SEVERITIES, STANDARD
from poise.errors import RecordError
from poise.records.columns import Column, corruption_error, seen_and_unseen
from poise.records.schema import load_results
from poise.reporting.table_formats import as_json, latex, markdown, text
from poise.reporting.tables import Row, Table, tables_of

NOISES = ("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise")
SHARED = "trained once per seed and shared"


def tables(folder: Path) -> dict[str, Table]:
    return {table.name: table for results in load_results(folder) for table in tables_of(results)}


def noted(table: Table, *words: str) -> bool:
    """Whether a note has all these words."""
    return any(all(word in note for word in words) for note in table.notes)


def row(table: Table, method: str) -> Row:
    return next(row for row in table.rows if row.method == method)


def change(path: Path, **facts: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))


def test_a_column_is_a_mean_and_needs_all_its_scores() -> None:
    column = Column("both", ("a", "b"))
    assert column.value({"a": 0.5, "b": 0.25, "c": 0}, {}) == 0.375
    assert column.value({"a": 0.5}, {}) is None


def test_a_column_of_classes_counts_each_class_once() -> None:
    column = Column("rare", ("BAL",), classes=(1, 2))
    counts = {"BAL": [[5, 5], [1, 10], [50, 100]]}
    assert column.value({"BAL": 0.9}, counts) == pytest.approx(0.3)
    assert column.value({"BAL": 0.9}, {}) is None
    assert column.value({"BAL": 0.9}, {"BAL": [[5, 5], [1, 10], [0, 0]]}) is None


def test_alexnet_has_an_mce_of_one() -> None:
    scores = {f"{name}/{s}": 1 - ALEXNET_ERRORS[name] + (s - 3) / 100 for name in STANDARD for s in SEVERITIES}
    column = corruption_error("imagenet-c", scores)
    assert column is not None and column.value(scores, {}) == pytest.approx(1)
    half = {name: 1 - (1 - score) / 2 for name, score in scores.items()}
    assert column.value(half, {}) == pytest.approx(0.5)


def test_no_mce_without_a_reference_or_a_severity() -> None:
    scores = [f"{name}/{s}" for name in STANDARD for s in SEVERITIES]
    assert corruption_error("cifar-10-c", scores) is None
    assert corruption_error("imagenet-c", scores[:-1]) is None


def test_seen_and_unseen_share_the_corruptions_out() -> None:
    scores = ["clean", *(f"{name}/{s}" for name in CORRUPTIONS for s in SEVERITIES)]
    seen, unseen = seen_and_unseen(NOISES, scores)
    assert (seen.name, unseen.name) == ("seen (4)", "unseen (15)")
    assert sorted((*seen.of, *unseen.of, "clean")) == sorted(scores)
    assert seen_and_unseen(["fog"], ["clean"]) == ()


def test_the_cells_are_means_over_seeds(tmp_path: Path) -> None:
    folder = mnist(tmp_path)
    values = [json.loads(path_of(folder, "FCL", seed).read_text())["scores"]["BAL+UN"] for seed in range(6)]
    base = [json.loads(path_of(folder, "XE", seed).read_text())["scores"]["BAL+UN"] for seed in range(6)]
    cell = row(tables(folder)["main"], "FCL").cells[1]
    assert cell.ours is not None and cell.ours.mean == pytest.approx(fmean(values)) and cell.ours.seeds == 6
    assert cell.difference is not None and cell.difference.p == pytest.approx(stats.ttest_rel(values, base).pvalue)
    assert cell.paper is not None and cell.paper.mean == 0.6384


def test_marks_of_the_groups(tmp_path: Path) -> None:
    table = tables(cifar(tmp_path))["main"]
    noise = [column.name for column in table.columns].index("Noise")
    assert [row.group for row in table.rows] == [0, 0, 0, 0, 1, 1]
    assert [row.against for row in table.rows] == [None, "XE", "XE", "XE", None, "PG+XE"]
    assert [row.cells[noise].bold for row in table.rows] == [False, False, False, True, False, True]
    assert [bool(row.cells[0].bold) for row in table.rows] == [False] * 6  # clean: nothing differs


def test_bold_needs_a_win_over_every_other(tmp_path: Path) -> None:
    folder = cifar(tmp_path)
    for seed in range(5):  # a twin of FCL
        twin = json.loads(path_of(folder, "FCL", seed).read_text())
        path = path_of(folder, "CL+Gaussian", seed)
        change(path, scores={name: score + 0.001 * (-1) ** seed for name, score in twin["scores"].items()})
    table = tables(folder)["main"]
    assert not any(cell.bold for line in table.rows[:4] for cell in line.cells)
    significant = [cell.difference.significant for cell in row(table, "FCL").cells if cell.difference]
    assert all(significant[1:])  # but still above XE


def test_lower_is_better_for_the_mce(tmp_path: Path) -> None:
    table = tables(cifar(tmp_path, "imagenet-c"))["mce"]
    cell = row(table, "FCL").cells[0]
    assert cell.bold and cell.difference is not None and cell.difference.mean < 0
    assert "mce" not in tables(cifar(tmp_path / "other"))


def test_one_seed_is_said_and_not_tested(tmp_path: Path) -> None:
    table = tables(mnist(tmp_path, seeds=1))["main"]
    cell = row(table, "FCL").cells[1]
    assert cell.ours is not None and cell.ours.std is None and not cell.bold
    assert cell.difference is not None and not cell.difference.significant
    assert noted(table, "one seed", "XE, CL+Gaussian, FCL")
    assert "One seed: 0" in table.caption


@pytest.mark.parametrize(("seeds", "said"), [(2, True), (4, True), (5, False)])
def test_few_seeds_are_noted(tmp_path: Path, seeds: int, said: bool) -> None:
    assert noted(tables(mnist(tmp_path, seeds=seeds))["main"], "Fewer than 5 seeds", "XE, CL+Gaussian, FCL") == said


def test_a_method_with_one_seed_takes_the_bold_away(tmp_path: Path) -> None:
    folder = mnist(tmp_path)
    assert row(tables(folder)["main"], "FCL").cells[1].bold
    for seed in range(1, 6):
        path_of(folder, "CL+Gaussian", seed).unlink()
    table = tables(folder)["main"]
    assert not row(table, "FCL").cells[1].bold
    assert noted(table, "Missing runs: CL+Gaussian (seeds 1-5)")


def test_missing_methods_and_columns(tmp_path: Path) -> None:
    folder = mnist(tmp_path, methods=("XE", "FCL"))
    path = path_of(folder, "FCL", 0)
    change(path, scores={"BAL": 0.9}, classes={})
    table = tables(folder)["main"]
    assert [line.method for line in table.rows] == ["XE", "FCL"]
    assert [cell.ours.seeds for cell in row(table, "FCL").cells if cell.ours] == [6, 5, 5, 5]
    assert row(table, "FCL").cells[1].bold  # what was not run is no rival
    assert noted(table, "No finished runs: CL+Gaussian")


def test_a_method_without_runs_has_a_row_for_the_paper_s_numbers_only(tmp_path: Path) -> None:
    folder = mnist(tmp_path, methods=("CL+Gaussian",))
    table = tables(folder)["main"]
    assert [line.method for line in table.rows] == ["XE", "CL+Gaussian", "FCL"]
    assert all(cell.ours is None for cell in row(table, "XE").cells)


def test_many_methods_without_runs_are_counted(tmp_path: Path) -> None:
    folder = mnist(tmp_path)
    facts = json.loads((folder / "experiment.json").read_text())
    change(folder / "experiment.json", methods=[*facts["methods"], *(f"m{n}" for n in range(20))])
    assert noted(tables(folder)["main"], "No finished runs: m0, m1,", "m10, m11 and 8 more.")


def test_a_notice_stands_above_the_table_in_every_format_of_words(tmp_path: Path) -> None:
    folder = mnist(tmp_path)
    change(folder / "experiment.json", notice="A miniature of it.")
    found = tables_of(load_results(folder)[0])
    printed = text(found)
    assert printed.index("Synthetic MNIST") < printed.index("A miniature of it.") < printed.index("seeds")
    assert printed.count("A miniature of it.") == markdown(found).count("A miniature of it.") == 1
    assert "A miniature of it." in latex(found) and json.loads(as_json(found))[0]["notice"] == "A miniature of it."


def test_a_method_that_the_experiment_does_not_know_comes_last(tmp_path: Path) -> None:
    folder = mnist(tmp_path)
    for seed in range(6):
        path = path_of(folder, "FCL", seed)
        other = {**json.loads(path.read_text()), "method": "my variant"}
        target = folder / "mine" / f"seed-{seed}" / "record.json"
        target.parent.mkdir(parents=True)
        target.write_text(json.dumps(other))
    last = tables(folder)["main"].rows[-1]
    assert (last.method, last.group, last.against) == ("my variant", None, None)
    assert last.cells[0].ours is not None and last.cells[0].difference is None


def test_damaged_pictures_are_counted_once_and_named(tmp_path: Path) -> None:
    folder = mnist(tmp_path)
    assert not noted(tables(folder)["main"], "damaged")
    for seed, names in enumerate((["a.jpg", "b.jpg"], ["b.jpg", "c.jpg", "d.jpg"])):
        change(path_of(folder, "XE", seed), damaged=dict.fromkeys(names, "cut short"))
    assert noted(tables(folder)["main"], "4 damaged pictures", "(a.jpg, b.jpg, c.jpg, …)")
    change(path_of(folder, "XE", 0), damaged=["a.jpg"])
    with pytest.raises(RecordError, match="its 'damaged' is not an object"):
        tables(folder)


def test_the_caption_speaks_of_the_paper_where_it_has_numbers(tmp_path: Path) -> None:
    folder = mnist(tmp_path)
    assert "ours | paper" in tables(tmp_path)["main"].caption
    change(folder / "experiment.json", paper={})
    assert "paper" not in tables(tmp_path)["main"].caption


def test_the_caption_names_where_numbers_come_from(tmp_path: Path) -> None:
    folder = mnist(tmp_path)
    path_of(folder, "XE", 5).parent.rename(path_of(folder, "XE", 9).parent)
    change(path_of(folder, "XE", 9), commit="fff0000", device="cpu", seed=9)
    table = tables(folder)["main"]
    assert "paired t" in table.caption and "Holm" in table.caption
    assert "Seeds 0-5, 9; commits abc1234, fff0000; on NVIDIA H200, cpu." in table.caption
    assert noted(table, "differ in commits (abc1234, fff0000)")


def test_records_whose_experiment_is_not_told_are_not_left_out_silently(tmp_path: Path) -> None:
    folder = mnist(tmp_path / "runs")
    cifar(tmp_path / "runs")
    (folder / "experiment.json").unlink()
    with pytest.raises(RecordError, match=r"record.json belongs to an experiment whose experiment.json is missing"):
        load_results(tmp_path / "runs")


def test_a_beginning_was_shared_if_it_is_the_same_to_the_second(tmp_path: Path) -> None:
    folder = mnist(tmp_path)
    assert not noted(tables(folder)["main"], SHARED)
    for seed in range(6):
        first, own = (json.loads(path_of(folder, name, seed).read_text())["log"] for name in ("XE", "FCL"))
        change(path_of(folder, "FCL", seed), log=[*first[:2], *own[2:]])
    assert noted(tables(folder)["main"], SHARED, ": 2 epochs of XE, FCL.")
    change(path_of(folder, "FCL", 5), log=[first[0], *own[1:]])
    assert noted(tables(folder)["main"], SHARED, ": 1 to 2 epochs of XE, FCL.")
    change(path_of(folder, "FCL", 5), log=own)  # a seed of its own, and nothing is said of the others
    assert not noted(tables(folder)["main"], SHARED)


def test_runs_of_a_fleet_share_no_beginning(tmp_path: Path) -> None:
    """Their seconds are those of the fleet, so that their logs may begin alike."""
    folder = mnist(tmp_path)
    for seed in range(6):
        log = json.loads(path_of(folder, "XE", seed).read_text())["log"]
        for name in ("XE", "FCL"):
            change(path_of(folder, name, seed), log=log, trunk=None)
    assert not noted(tables(folder)["main"], SHARED)


def test_it_is_said_who_shares_a_beginning_with_whom(tmp_path: Path) -> None:
    folder = cifar(tmp_path)
    for seed in range(5):
        logs = {name: json.loads(path_of(folder, name, seed).read_text())["log"] for name in ("XE", "PG+XE", "FCL")}
        change(path_of(folder, "CL+Gaussian", seed), log=[*logs["XE"][:2], *logs["FCL"][2:]], trunk={"epochs": 2})
        change(path_of(folder, "FCL", seed), log=[*logs["XE"][:1], *logs["FCL"][1:]], trunk={"epochs": 1})
        change(path_of(folder, "PG+FCL", seed), log=logs["PG+XE"], trunk={"epochs": 2})
    path_of(folder, "PG+FCL", 4).unlink()
    epochs = len(logs["PG+XE"])
    said = f"2 epochs of XE, CL+Gaussian, and 1 epoch of FCL. {epochs} epochs of PG+XE, PG+FCL."
    assert noted(tables(folder)["main"], SHARED, said)


def test_leakage_is_said_and_averaged_apart(tmp_path: Path) -> None:
    found = tables(cifar(tmp_path))
    assert any(
        note.startswith("Leakage: the training augmentation of PG+XE and PG+FCL") for note in found["main"].notes
    )
    apart = found["seen-1"]
    cells = row(apart, "PG+XE").cells
    assert [column.name for column in apart.columns] == ["seen (4)", "unseen (15)"]
    scores = [json.loads(path_of(tmp_path / "cifar-10-c", "PG+XE", seed).read_text())["scores"] for seed in range(5)]
    seen = fmean(score[f"{name}/{s}"] for score in scores for name in NOISES for s in SEVERITIES)
    assert cells[0].ours is not None and cells[0].ours.mean == pytest.approx(seen)
    assert "seen-1" not in tables(mnist(tmp_path / "other"))
