"""The CIFAR experiments: recipes as the paper has them, models trained once, both tables end to end in miniature."""

import dataclasses
import json
import shutil
import sys
import time
from functools import partial
from pathlib import Path
from statistics import fmean

import pytest
import tiny_cifar
import torch
from deadlines import Soon

import poise
from poise.cli import main as cli
from poise.corruptions.protocols import CORRUPTIONS, GROUPS, SEVERITIES, STANDARD
from poise.data.loading.resident import on_device
from poise.data.sets import cache
from poise.errors import DataNotFound
from poise.io.documents import with_checksum
from poise.recipes import index
from poise.recipes.cifar import cifar_c, noisy_cifar
from poise.recipes.cifar import controls as cifar_controls
from poise.recipes.cifar.recipe import COMPRESSED, FULL
from poise.recipes.paper_corruptions import CIFAR_C
from poise.records.schema import load_results
from poise.reporting.table_formats import text
from poise.reporting.tables import tables_of
from poise.running.beginnings import trunk_lengths
from poise.running.experiment import Experiment
from poise.running.runner import Event, Runner, run_together

pytestmark = pytest.mark.miniature
CPU = torch.device("cpu")
tiny = partial(tiny_cifar.tiny, epochs=2)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return tiny_cifar.drawn_cifar(tmp_path, monkeypatch)


def run(out: Path, experiment: Experiment, methods: list[str] | None = None, **options: object) -> list[Event]:
    heard: list[Event] = []
    Runner(experiment, out, CPU, listen=heard.append, **options).run(methods, [0])
    return heard


def trained(heard: list[Event]) -> set[str]:
    return {event.method for event in heard if event.now is not None}


def record(out: Path, name: str, method: str) -> dict:
    return json.loads((out / name / method / "seed-00" / "record.json").read_text())


def test_both_tables_in_miniature(data: Path) -> None:
    """From the recipe to the printed tables; what both have in common is trained once."""
    noisy, corrupted = tiny(noisy_cifar.table), tiny(cifar_c.table)
    first = [method.name for method in noisy.methods[:10]]  # the others are in test_baselines.py
    assert trained(run(data, noisy, first)) == set(first)
    some = ["FCL", "PG+XE", "PG+FCL"]
    assert trained(run(data, corrupted, some)) == {"PG+FCL"}  # its ramp_up is another here
    assert trained(run(data, corrupted, some)) == set()
    found = {results.experiment.name: results for results in load_results(data)}
    assert list(found) == ["cifar10-c-quick", "noisy-cifar10-quick"]
    for name, words in {
        "noisy-cifar10-quick": ("Clean", "NUN", ".3749 ±.0293", "other readings", "UN 30%", "AugMix+FCL"),
        "cifar10-c-quick": ("All, 19", "All, 15", ".7446 ±.0055", "blur, one by one", ".4846", "spatter", "unseen"),
    }.items():
        printed = text(tables_of(found[name]))
        assert [word for word in words if word not in printed] == []
    one = record(data, "cifar10-c-quick", "fcl")
    assert set(one["scores"]) == {"Clean"} | {f"{c}/{s}" for c in CORRUPTIONS for s in SEVERITIES}
    assert (
        one["origins"] == {"corruptions": "generated with seed 0 as by the libraries of 2018"}
        and one["validation"] is None
    )
    assert list(one["classes"]) == ["Clean"]
    assert one["log"] == record(data, "noisy-cifar10-quick", "fcl")["log"]


def test_a_shared_model_scores_as_one_trained_for_the_table_alone(data: Path) -> None:
    run(data, tiny(noisy_cifar.table), ["AugMix+FCL"])
    heard = run(data, tiny(cifar_c.table), ["AugMix+FCL"])
    run(data / "alone", tiny(cifar_c.table), ["AugMix+FCL"], share_trunks=False)
    assert trained(heard) == set()
    shared, alone = (record(out, "cifar10-c-quick", "augmix-fcl") for out in (data, data / "alone"))
    assert shared["scores"] == alone["scores"] and (shared["trunk"], alone["trunk"]) == ({"epochs": 1}, None)
    assert [entry["loss"] for entry in shared["log"]] == [entry["loss"] for entry in alone["log"]]


def test_a_method_without_company_begins_with_what_another_table_left(data: Path) -> None:
    """Such as PG+FCL on CIFAR-100-C, where PG+XE has another sigma: noisy CIFAR-100 has its trunk."""
    noisy = tiny(noisy_cifar.table)
    lonely = dataclasses.replace(noisy, name="lonely", methods=noisy.methods[5:6], groups=())
    run(data, noisy, ["PG+XE"])
    run(data, lonely)
    run(data / "alone", lonely)
    left, alone = (record(out, "lonely", "pg-fcl") for out in (data, data / "alone"))
    assert left["scores"] == alone["scores"] and (left["trunk"], alone["trunk"]) == ({"epochs": 1}, None)


def test_another_recipe_is_another_model(data: Path) -> None:
    noisy = tiny(noisy_cifar.table)
    assert trained(run(data, noisy, ["XE"])) == {"XE"}
    changed = dataclasses.replace(noisy, name="other", plan=dataclasses.replace(noisy.plan, epochs=1))
    assert trained(run(data, changed, ["XE"])) == {"XE"}
    fewer = dataclasses.replace(noisy, name="fewer", task=dataclasses.replace(noisy.task, noise_seed=3))
    assert trained(run(data, fewer, ["XE"])) == set()  # other tests, the same model


def test_models_are_kept_on_request_and_score_the_same(data: Path) -> None:
    noisy = tiny(noisy_cifar.table)
    run(data, noisy, ["XE"])
    path = data / "noisy-cifar10-quick/xe/seed-00/model.safetensors"
    before = path.with_name("record.json").read_bytes()
    assert not path.exists()
    assert trained(run(data, noisy, ["XE"], keep_models=True)) == set()
    assert path.with_name("record.json").read_bytes() == before
    model = poise.load_model(path)
    x, y = on_device(cache.load("cifar10", "test_x"), cache.load("cifar10", "test_y"))
    right = (model(x / 255).argmax(1) == y).float().mean()
    assert abs(float(right) - record(data, "noisy-cifar10-quick", "xe")["scores"]["Clean"]) <= 1 / 8


def test_weights_are_those_that_were_tested_or_none(data: Path) -> None:
    noisy = tiny(noisy_cifar.table)
    run(data, noisy, ["XE"])
    path = data / "noisy-cifar10-quick/xe/seed-00/model.safetensors"
    kept = path.with_name("record.json").read_text()
    log = json.loads(kept)["log"]
    other = with_checksum({**json.loads(kept), "log": [{**log[0], "seconds": 9}, *log[1:]]})
    path.with_name("record.json").write_text(json.dumps(other))
    assert trained(run(data, noisy, ["XE"], keep_models=True)) == set() and not path.exists()  # another training's
    path.with_name("record.json").write_text(kept)
    shutil.rmtree(data / "models")
    assert trained(run(data, noisy, ["XE"], keep_models=True)) == set() and not path.exists()  # nobody's


def test_missing_data_are_missed_before_anything_is_trained(data: Path) -> None:
    first = tiny(noisy_cifar.table)
    absent = dataclasses.replace(first.task, training=dataclasses.replace(first.task.training, name="cifar100"))
    second = dataclasses.replace(first, name="noisy-cifar100-quick", task=absent)
    with pytest.raises(DataNotFound, match="poise data get cifar100"):
        run_together([Runner(each, data, CPU) for each in (first, second)], ["XE"])
    assert not data.exists() or not list(data.iterdir())


def test_a_run_that_is_out_of_time_goes_on(data: Path) -> None:
    noisy = tiny(noisy_cifar.table)
    heard = run(data, noisy, ["XE", "FCL"], deadline=time.monotonic())
    assert heard == []  # nothing is begun
    straight = run(data / "straight", noisy, ["XE"])
    stops = [event.what for event in straight]

    heard = run(data, noisy, ["XE"], share_trunks=False, deadline=Soon(looks=1))
    assert str(heard[-1]).endswith(": the time limit was reached after epoch 1 of 2; run the same command to continue")
    assert run(data, noisy, ["XE"])[-1].what == stops[-1] == "finished"
    assert (
        record(data, "noisy-cifar10-quick", "xe")["scores"]
        == record(data / "straight", "noisy-cifar10-quick", "xe")["scores"]
    )


def test_sweeps_hold_images_out_and_every_path_fits(data: Path) -> None:
    names = ("weight-decay", "decays", "fcl", "fcl-noise", "cl-gaussian", "xe-gaussian")
    for name in (*names, "patch-gaussian", "gaussian-noise"):
        chosen, sweep = index.find_sweep("noisy-cifar10", name, "compressed")
        assert chosen == name and sweep.experiment.task.training.held_out == 5000
        rate = sweep.experiment.plan.learning_rate
        assert [step / (45 * 43) for step in rate.milestones] == pytest.approx([20 / 45, 30 / 45, 40 / 45], abs=1e-3)
    start = index.find_sweep("noisy-cifar10", "fcl", "compressed")[1].recipe.method.objective.weight.start
    assert start / (45 * 43) == pytest.approx(14_000 / 21_600, abs=1e-3)
    task = dataclasses.replace(
        tiny(noisy_cifar.table).task, training=noisy_cifar.Cifar("cifar10", held_out=10, first=60)
    )()
    assert len(task.train) == 50 and len(task.validation) == 10
    assert (task.train.x[-1] != task.validation.x[0]).any() and len(task.validations["validation+NUN"](CPU)) == 10
    with pytest.raises(ValueError, match="noisy-cifar has several parts: sweep noisy-cifar10 or noisy-cifar100"):
        index.find_sweep("noisy-cifar")
    with pytest.raises(ValueError, match=r"cifar10-c has no sweep: choose from .*synthetic-mnist"):
        index.find_sweep("cifar10-c")


def test_names_say_the_table_the_part_and_the_length() -> None:
    names = lambda *words: [experiment.name for experiment in index.find_experiments(*words)]  # noqa: E731
    assert names("noisy-cifar") == ["noisy-cifar10", "noisy-cifar100"]
    assert names("noisy-cifar100", "compressed") == ["noisy-cifar100-compressed"]
    assert names("cifar-c", "quick") == ["cifar10-c-quick", "cifar100-c-quick"]
    controls = ["cifar-controls-noisy-compressed", "cifar-controls-c-compressed"]
    assert names("cifar-controls", "compressed") == controls
    with pytest.raises(ValueError, match="synthetic-mnist has no compressed version: choose from full, quick"):
        index.find_experiments("synthetic-mnist", "compressed")
    with pytest.raises(ValueError, match="did you mean 'cifar10-c'"):
        index.find_experiments("cifar10c")


@pytest.mark.parametrize("table", [noisy_cifar.table, cifar_c.table])
def test_kernels_alone_are_decayed(table: object) -> None:
    optimizer = table("cifar10", FULL).plan.optimizer
    assert optimizer.decays == "kernels" and optimizer.weight_decay == 5e-4


@pytest.mark.parametrize("table", [noisy_cifar.table, cifar_c.table])
def test_the_schedule_is_that_of_the_appendix(table: object) -> None:
    plan = table("cifar10", FULL).plan
    rates = [plan.learning_rate(48 * epoch) for epoch in (0, 15, 199, 200, 300, 400, 449)]
    assert rates == pytest.approx([1 / 720, 1, 1, 0.1, 0.01, 1e-3, 1e-3])
    assert (plan.epochs, plan.batch_size, plan.optimizer.momentum, plan.optimizer.nesterov) == (450, 1024, 0.9, True)
    short = table("cifar10", COMPRESSED).plan.learning_rate
    assert [short(48 * epoch) for epoch in (2, 19, 20, 30, 40)] == pytest.approx([1, 1, 0.1, 0.01, 1e-3])


# Appendix C: tau of FCL, its ramp_up, sigma of PG+XE; tau, ramp_up and patch sigma of PG+FCL.
@pytest.mark.parametrize(
    ("table", "data_set", "expected"),
    [
        (noisy_cifar.table, "cifar10", (2, 14_000, 0.1, 1, 14_000, 0.1)),
        (noisy_cifar.table, "cifar100", (0.1, 10_000, 0.05, 0.1, 10_000, 0.05)),
        (cifar_c.table, "cifar10", (2, 14_000, 0.1, 1, 10_000, 0.1)),
        (cifar_c.table, "cifar100", (0.1, 10_000, 0.1, 0.1, 10_000, 0.05)),
    ],
)
def test_the_settings_are_those_of_the_appendix(table: object, data_set: str, expected: tuple[float, ...]) -> None:
    for length, part in ((FULL, 1), (COMPRESSED, 10)):
        rows = {method.name: method for method in table(data_set, length).methods}
        fcl, patched = rows["FCL"].objective, rows["PG+FCL"].objective
        (patch,) = rows["PG+XE"].augment.parts[1:]
        (patch_fcl,) = rows["PG+FCL"].augment.parts[1:]
        found = (fcl.contrast.temperature, fcl.weight.start * part, patch.sigma)
        found += (patched.contrast.temperature, patched.weight.start * part, patch_fcl.sigma)
        assert found == expected and patch.size == patch_fcl.size == 25
        assert (fcl.select.k, fcl.perturb.sigma, fcl.weight.peak, fcl.contrast.reduction) == (256, 0.5, 1e-4, "sum")
        cl, xe = rows["CL+Gaussian"].objective, rows["XE+Gaussian"].objective
        assert (cl.perturb.sigma, cl.contrast.temperature, cl.weight.peak) == (0.5, 0.5, 1e-4)
        assert cl.weight.start == fcl.weight.start and xe.perturb.sigma == 0.3
        assert (xe.weight, xe.statistics) == (1e-4 * 1024, "batch")


def test_xe_gaussian_cannot_begin_with_running_statistics() -> None:
    """Those that have seen nothing do not normalise: 55 layers later the noisy view is out of bounds."""
    model, x, y = poise.resnet56(10), torch.rand(4, 3, 32, 32), torch.arange(4)
    found = {
        statistics: float(
            poise.XEGaussian(poise.Gaussian(0.3), weight=0.1, statistics=statistics)(model, x, y).parts["noisy_xe"]
        )
        for statistics in ("running", "batch")
    }
    assert found["running"] > 20 * found["batch"]


def test_a_trunk_is_as_long_as_the_longest_company(data: Path) -> None:
    """XE+Gaussian, which leaves early, does not make the others train alone, and shares its own part with them."""
    noisy = dataclasses.replace(
        tiny(noisy_cifar.table), plan=dataclasses.replace(tiny(noisy_cifar.table).plan, epochs=9)
    )
    fcl, xe, gaussian = (
        dataclasses.replace(each, objective=dataclasses.replace(each.objective, weight=poise.Ramp(1.0, start=start)))
        if start
        else each
        for name, start in (("FCL", 14), ("XE", 0), ("XE+Gaussian", 4))
        for each in noisy.methods
        if each.name == name
    )
    three = dataclasses.replace(noisy, methods=(xe, fcl, gaussian), groups=())
    assert trunk_lengths(three, images=40) == {"XE": [2, 7], "FCL": [2, 7], "XE+Gaussian": [2]}
    twin = dataclasses.replace(gaussian, name="twin")
    four = dataclasses.replace(three, methods=(*three.methods, twin))
    assert trunk_lengths(four, images=40) == {"XE": [2, 7], "FCL": [2, 7], "XE+Gaussian": [2], "twin": [2]}
    augmented = next(each for each in noisy.methods if each.name == "PG+XE")
    alone = dataclasses.replace(three, methods=(*three.methods, augmented))
    assert trunk_lengths(alone, images=40)["PG+XE"] == []


def test_controls_differ_in_what_their_names_say() -> None:
    on_noise, on_corruptions = cifar_controls.EXPERIMENTS["compressed"]
    assert on_noise.methods == on_corruptions.methods
    rows = {method.name: method for method in on_noise.methods}
    for name, method in rows.items():
        base, *things = name.split(", ")
        fields = dataclasses.fields(method.objective)
        first = rows[base].objective
        changed = [f.name for f in fields if getattr(first, f.name) != getattr(method.objective, f.name)]
        assert len(changed) == len(things), name
    noisy = {method.name: method for method in noisy_cifar.table("cifar10", COMPRESSED).methods}
    assert rows["FCL"] == noisy["FCL"] and rows["XE"] == noisy["XE"]  # so that the models are shared


@pytest.mark.parametrize("data_set", ["cifar10", "cifar100"])
def test_the_papers_appendix_agrees_with_its_table(data_set: str) -> None:
    for row in CIFAR_C[data_set].values():
        for group, members in GROUPS.items():
            assert fmean(row[name][0] for name in members) == pytest.approx(row[group.title()][0], abs=6e-4)
        assert row["All, 19"][0] > fmean(row[name][0] for name in STANDARD)  # the four that are not printed are easier


def test_one_compiled_step_serves_all_seeds_and_methods_with_the_same_passes() -> None:
    """torch.compile keeps what it compiled by the code, not by the model: in one process, a pass is compiled once."""
    from torch._dynamo.testing import CompileCounter

    torch._dynamo.reset()
    counter, counts = CompileCounter(), []
    rows = {method.name: method.objective for method in tiny(noisy_cifar.table).methods}
    for _seed in range(2):
        for name in ("XE", "XE+Gaussian", "CL+Gaussian", "FCL", "AugMix+FCL"):
            model = tiny_cifar.NETWORK()
            model.embed = torch.compile(model.embed, backend=counter, dynamic=False)
            objective = rows[name]
            for step in (0, 3):
                objective(model, torch.rand(8, 3, 32, 32), torch.arange(8), step).total.backward()
            counts.append(counter.frame_count)
    assert counts == [1, 2, 3, 5, 7, *[7] * 5]
    torch._dynamo.reset()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("reproduce", "noisy-cifar10", "--quick", "--compressed"), "--compressed and --quick exclude each other"),
        (("reproduce", "synthetic-mnist", "--compressed"), "synthetic-mnist has no compressed version"),
        (("reproduce", "noisy-cifar11"), "did you mean 'noisy-cifar10'"),
        (("reproduce", "noisy-cifar", "--method", "PG"), "no method is called 'PG'"),
        (("sweep", "noisy-cifar"), "noisy-cifar has several parts"),
        (("sweep", "cifar-controls"), "cifar-controls has no sweep"),
        (("sweep", "noisy-cifar10", "--name", "weights"), "did you mean 'weight-decay'"),
    ],
)
def test_wrong_calls_end_with_2(words: tuple[str, ...], sentence: str, monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "argv", ["poise", *words])
    with pytest.raises(SystemExit) as end:
        cli.run()
    assert end.value.code == 2
    assert sentence in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_a_table_without_data_says_what_to_get(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("POISE_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "argv", ["poise", "reproduce", "noisy-cifar10", "--quick", "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as end:
        cli.run()
    assert "get it with  poise data get cifar10" in str(end.value.code)
    assert not (tmp_path / "noisy-cifar10-quick").exists()
