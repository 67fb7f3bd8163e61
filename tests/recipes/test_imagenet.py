"""ImageNet-C: the recipe as the paper has it, and every stage in miniature, from folders to the printed table."""

import dataclasses
import json
from pathlib import Path
from statistics import fmean

import pytest
import torch
from torch.nn.functional import cross_entropy

import poise
from poise.corruptions.corrupt import Making
from poise.corruptions.protocols import ALEXNET_ERRORS, CORRUPTIONS, GROUPS, SEVERITIES, STANDARD
from poise.corruptions.write import write_pictures
from poise.data.loading.pictures import CentreCrop, RandomCrop
from poise.data.loading.shards import imagenet, write_shards
from poise.data.sets import catalogue
from poise.data.sets import fetch as sources
from poise.data.sets.folders import Drawn
from poise.errors import DataMismatch
from poise.recipes import index
from poise.recipes.imagenet_c import COMPRESSED, FULL, QUICK, CorruptedImageNet, ImageNet, table
from poise.recipes.paper_corruptions import IMAGENET_C
from poise.records.columns import corruption_error
from poise.records.schema import load_results, read_experiment
from poise.reporting.page import page
from poise.reporting.table_formats import text
from poise.reporting.tables import tables_of
from poise.running.experiment import Build, Experiment
from poise.running.judge import Judge
from poise.running.runner import Event, Runner

CPU = torch.device("cpu")
TINY = dataclasses.replace(QUICK, epochs=3, images=300, batch=50)
PICTURES = Drawn(classes=100, train=3, val=1, sizes=((64, 64), (72, 64)))
NETWORK = Build(poise.ResNetV2, num_classes=100, blocks=((1, 4, 1), (1, 4, 2)))


def test_the_schedule_and_the_methods_are_those_of_appendix_c() -> None:
    full = table(FULL)
    epoch = 1_281_167 // 1024
    rate = full.plan.learning_rate
    assert (full.plan.epochs, full.plan.batch_size, full.seeds) == (90, 1024, 5)
    assert full.plan.optimizer == poise.training.plan.SGD(momentum=0.9, nesterov=False, weight_decay=1e-4)
    assert [rate(number * epoch) for number in (5, 29, 30, 60, 80, 89)] == pytest.approx(
        [0.8, 0.8, 0.08, 0.008, 0.0008, 0.0008]
    )
    assert rate(0) == pytest.approx(0.8 / (5 * epoch))
    rows = {method.name: method for method in full.methods}
    assert list(rows) == ["XE", "XE+Gaussian", "CL+Gaussian", "FCL", "PG+XE", "PG+FCL"]
    fcl, patch_fcl, cl = (rows[name].objective for name in ("FCL", "PG+FCL", "CL+Gaussian"))
    settings = [
        (each.select.k, each.perturb.sigma, each.contrast.temperature, each.weight.peak) for each in (fcl, patch_fcl)
    ]
    assert settings == [(512, 1.0, 0.5, 2e-4), (2048, 0.5, 1.0, 4e-4)]
    assert (fcl.weight.start, cl.weight.start, patch_fcl.weight.start) == (60 * epoch, 78_000, 78_000)
    assert (cl.perturb.sigma, cl.contrast.temperature, cl.weight.peak) == (0.5, 0.5, 1e-4)
    assert rows["PG+XE"].augment == rows["PG+FCL"].augment == poise.PatchGaussian(250, 1.0, random_size=True)
    assert table(COMPRESSED).plan.learning_rate.milestones == tuple(round(18 * epoch * n / 90) for n in (30, 60, 80))
    assert [index.find_experiments("imagenet-c", length)[0].name for length in ("full", "compressed", "quick")] == [
        *("imagenet-c", "imagenet-c-compressed", "imagenet-c-quick"),
    ]


def test_the_papers_appendix_agrees_with_its_table() -> None:
    for row in IMAGENET_C.values():
        for group, members in GROUPS.items():
            assert fmean(row[name][0] for name in members) == pytest.approx(row[group.title()][0], abs=6e-4)
        assert fmean(row[name][0] for name in STANDARD) == pytest.approx(row["All, 15"][0], abs=6e-5)
        assert 0.8 < row["mCE"][0] < 0.9


@pytest.mark.parametrize(("length", "errors"), [(FULL, 75), (COMPRESSED, 75), (QUICK, 0)])
def test_tables_of_imagenet_c_have_a_mean_corruption_error(length: object, errors: int, tmp_path: Path) -> None:
    """A quick look, at drawn pictures of another size, has no reference."""
    facts = tmp_path / "experiment.json"
    facts.write_text(json.dumps({"version": 1, **table(length).facts()}))
    scores = [f"{name}/{severity}" for name in CORRUPTIONS for severity in SEVERITIES]
    column = corruption_error(read_experiment(facts).reference, scores)
    assert (0 if column is None else len(column.errors)) == errors


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """100 classes in ImageNet's folders, one picture damaged, and a cache that takes them for ImageNet."""
    monkeypatch.setenv("POISE_DATA", str(tmp_path / "cache"))
    small = catalogue.FolderSet("imagenet", "", "", 0, lambda path: imagenet(path, 100))
    monkeypatch.setitem(catalogue.CATALOGUE, "imagenet", small)
    place = PICTURES.write(tmp_path)
    (place / "train/n00000007/train_0007_00001.JPEG").write_bytes(b"<html>")
    return place


def tiny(**task: object) -> Experiment:
    """As the full table, with its paper's numbers and its name, of which comes the mCE."""
    settings = {"crop": CentreCrop(64, 64), "profile": "tiny", "first": 3, **task}
    return dataclasses.replace(
        table(TINY),
        name="imagenet-c",
        task=CorruptedImageNet(ImageNet(300, RandomCrop(64)), **settings),
        network=NETWORK,
        paper=IMAGENET_C,
    )


def record(out: Path, method: str) -> dict:
    return json.loads((out / "imagenet-c" / method / "seed-00" / "record.json").read_text())


@pytest.mark.miniature
def test_every_stage_in_miniature(home: Path, tmp_path: Path) -> None:
    """Folders, shards, six methods, a stop in the middle, 95 tests, the table, the page."""
    write_shards(home, tmp_path / "shards", 40)
    sources.get("imagenet", tmp_path / "shards")
    out, heard = tmp_path / "runs", []

    def listen(event: Event) -> None:
        heard.append(event)
        if len(heard) == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Runner(tiny(), out, CPU, listen=listen, keep_every=0).run(None, [0])
    records = Runner(tiny(), out, CPU).run(None, [0])
    assert len(records) == 6
    one = record(out, "fcl")
    assert set(one["scores"]) == {"Clean"} | {f"{c}/{s}" for c in CORRUPTIONS for s in SEVERITIES}
    assert one["origins"] == {"corruptions": "generated with seed 0, JPEG 85"} and one["trunk"] == {"epochs": 2}
    assert [Path(path).name[8:] for path in record(out, "xe")["damaged"]] == ["train_0007_00001.jpeg"]
    assert one["log"][2]["loss"]["contrast"] > 0 and one["log"][2]["step"] == 18
    printed, shown = text(tables_of(load_results(out)[0])), page(load_results(out))
    assert "mean corruption error" in shown and "PG+FCL" in shown
    for word in ("All, 15", "All, 19", ".3437 ±.0022", "blur, one by one", ".2374", "mean corruption error", "spatter"):
        assert word in printed
    error = fmean((1 - one["scores"][f"{c}/{s}"]) / ALEXNET_ERRORS[c] for c in STANDARD for s in range(1, 6))
    assert f"{error:.4f}" in printed and f"{IMAGENET_C['FCL']['mCE'][0]:.4f}".lstrip("0") in printed


@pytest.mark.miniature
def test_published_folders_score_as_what_we_make(home: Path, tmp_path: Path) -> None:
    """ImageNet-C's layout written by `poise corrupt`, then read back, against the same made on the fly."""
    sources.get("imagenet", home)
    some = ("gaussian_noise", "fog")
    write_pictures(home / "val", tmp_path / "C", Making(some, profile="tiny", jpeg=85))
    sources.get("imagenet-c", tmp_path / "C")
    ours, theirs = tiny(source="generated", first=None).task(), tiny(first=None).task()
    assert theirs.origins["corruptions"].startswith("the published pictures; shot_noise, ")
    for name in ("gaussian_noise/1", "gaussian_noise/5", "fog/3", "contrast/2"):
        (x, y), (read, labels) = (next(iter(task.tests[name](CPU).in_order(CPU))) for task in (ours, theirs))
        square = slice(0, None, 2)  # wide pictures are squeezed by `poise corrupt`, and cut here
        assert torch.equal(y, labels) and len(x) == 100
        assert torch.equal(x[square], read[square]), name
    with pytest.raises(DataMismatch, match=r"has no brightness, .*source='auto'"):
        tiny(source="official").task()


def test_a_test_without_a_whole_picture_has_no_score(home: Path) -> None:
    sources.get("imagenet", home)
    judge = Judge(tiny(first=3), tiny(first=3).task(), CPU)
    assert judge._count(NETWORK(), judge.task.tests["Clean"](CPU)).sum(0)[1] == 3
    for path in home.glob("val/*/*.JPEG"):
        path.unlink()
    with pytest.raises(DataMismatch, match="can be decoded: see the warnings for their names"):
        judge.at_the_end(NETWORK())


def test_data_that_do_not_fit_the_schedule_are_refused(home: Path) -> None:
    sources.get("imagenet", home)
    task = CorruptedImageNet(ImageNet(400, RandomCrop(64)))
    with pytest.raises(DataMismatch, match=r"has 300 training pictures, but the schedule needs 400"):
        task()


def test_quick_draws_its_own_pictures(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("POISE_DATA", str(tmp_path))
    drawn = table(dataclasses.replace(QUICK, images=100)).task()
    assert len(drawn.train) == 100 and len(drawn.tests) == 96 and drawn.num_classes == 100
    x, y = next(iter(drawn.tests["fog/3"](CPU).in_order(CPU)))
    assert x.shape == (100, 3, 64, 64) and x.dtype == torch.uint8 and y.tolist() == list(range(100))
    assert cross_entropy(NETWORK()(x[:2] / 255), y[:2]).isfinite()
