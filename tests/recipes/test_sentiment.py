"""Section 4.1 in miniature: from files to a table and strips of tokens, on a treebank made here."""

import dataclasses
import json
import re
import sys
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tiny_sst import MARKED, VOCABULARY, network, store, tiny

from poise.data.loading.sentences import tokens_of
from poise.data.sets.fetch import folder
from poise.data.sets.sst import read_sentences
from poise.errors import TrainingError
from poise.models.transformer import Transformer
from poise.recipes.sentiment.human import Alignment, Strips, human_scores, values_of
from poise.recipes.sentiment.treebank import EXPERIMENT, QUICK, Embeddings, Phrases, pretrained, sweeps
from poise.records.schema import load_results
from poise.reporting.page import page
from poise.reporting.sweep_page import load_sweep
from poise.reporting.table_formats import text
from poise.reporting.tables import tables_of
from poise.running.beginnings import quiet_steps
from poise.running.experiment import Build
from poise.running.runner import Runner
from poise.running.sweeps import Search, Sweep

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _data(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POISE_DATA", str(tmp_path_factory.mktemp("data")))
    store()


@pytest.mark.miniature
def test_from_phrases_to_a_printed_table_and_a_page(tmp_path: Path) -> None:
    Runner(tiny(), tmp_path, CPU).run()
    (results,) = load_results(tmp_path)
    printed = text(tables_of(results))
    assert "Sentiment (section 4.1)" in printed and ".8750" in printed and ".6702" in printed and ".7613" in printed
    counted = 0
    for split in ("train", "dev", "test"):
        for each in read_sentences(folder("sst"), split):
            strengths = [round(abs(score - 0.5), 6) for score in each.raw_scores if not 0.45 <= score <= 0.55]
            counted += len(strengths) >= 3 and len(set(strengths)) > 1
    assert re.search(rf"averages over sentences:.*; {counted} \(all,\s+raw\)", printed, re.DOTALL)
    record = json.loads((tmp_path / "tiny-sentiment/fcl/seed-01/record.json").read_text())
    assert record["trunk"] == {"epochs": 2} and set(record["log"][-1]["loss"]) == {"xe", "contrast", "weight"}
    names = {
        f"{m} {s}, {where}, {column}"
        for m in ("sensitivity", "utility", "gradient")
        for s in ("r", "pooled r", "rho", "top-3")
        for where in ("dev", "test", "all")
        for column in ("raw", "leaf")
    }
    assert names | {"test"} <= set(record["scores"])
    made = page([results])
    assert "The paper's sentence" in unescape(made) and made.count('<figure class="strips">') > 2


def test_the_tables_columns_are_scores_of_the_record() -> None:
    task = tiny().task()
    model = network()()
    measured = {"test"} | set(Alignment(most=20, probes=1)(model, task))
    assert {score for column in EXPERIMENT.columns for score in column.of} <= measured
    assert set(EXPERIMENT.paper["FCL"]) <= {column.name for column in EXPERIMENT.columns}


def test_a_models_values_are_those_of_one_removal_at_a_time() -> None:
    """All pieces of a token at once ("Lovely" is two), batches of any size, against the model run by hand."""
    from poise.data.loading.sentences import WordPieces
    from poise.data.sets.cache import path_of

    torch.manual_seed(0)
    model = network(dropout=0.0)().double().eval()
    pieces = WordPieces(path_of("bert-vocab", "vocab.txt"))
    sentences = [each for each in read_sentences(folder("sst"), "dev") if each.label is not None][:12]
    values = values_of(model, sentences, probes=0, size=5)["sensitivity"]
    assert any("Lovely" in each.tokens for each in sentences)
    for sentence, found in zip(sentences, values, strict=True):
        x, words = pieces([[token.lower() for token in sentence.tokens]])
        assert len(found) == len(sentence.tokens)
        for number, value in enumerate(found):
            gone = (model.embed(x) - model.embed(x.without(words == number))).norm().item()
            assert value == pytest.approx(gone, rel=1e-5)


def test_human_scores_are_the_columns_of_the_files() -> None:
    sentence = read_sentences(folder("sst"), "dev")[0]
    raw = human_scores(sentence, "raw")
    assert all(raw[n] == MARKED[token] for n, token in enumerate(sentence.tokens) if token in MARKED)
    half = dataclasses.replace(sentence, recovered=tuple(n % 2 == 0 for n in range(len(raw))))
    recovered = human_scores(half, "recovered")
    assert np.array_equal(recovered[::2], raw[::2]) and np.isnan(recovered[1::2]).all()
    bare = dataclasses.replace(sentence, raw_scores=None)
    assert np.isnan(human_scores(bare, "raw")).all() and set(human_scores(bare, "leaf")) <= {0, 0.25, 0.5, 0.75, 1}


def test_strips_hold_the_papers_sentence_first_and_numbers_for_every_token() -> None:
    content = Strips(marked=3, longest=9)(network()(), tiny().task())["strips"]
    first, *others = content["sentences"]
    assert first["title"] == "The paper's sentence" and first["tokens"][4] == "lovely"
    assert len(others) > 3 and all(len(each["tokens"]) <= 9 and not each["title"] for each in others)
    assert all(len(each["tokens"]) == len(each["human"]) == len(each["sensitivity"]) for each in content["sentences"])


@pytest.mark.miniature
def test_a_sweep_measures_dev_alone_and_may_be_decided_by_it(tmp_path: Path) -> None:
    score = ("validation", "sensitivity r, dev, raw")
    sweep = Sweep(tiny(epochs=3), "FCL", {"objective.select.fraction": (0.1, 0.3)}, score=score, seeds=1)
    search = Search(sweep, "own", tmp_path, CPU)
    search.run()
    swept = load_sweep(search.folder)
    assert len(swept.scored) == 2
    record = json.loads(next(search.folder.rglob("record.json")).read_text())
    assert not [name for name in record["scores"] if "test" in name or "all" in name]
    assert not list(search.folder.rglob("strips.json"))
    wrong = Search(dataclasses.replace(sweep, score=("sensitivity r, dev",)), "wrong", tmp_path, CPU)
    with pytest.raises(
        TrainingError, match=r"score 'sensitivity r, dev': a run has validation, .*sensitivity r, dev, raw"
    ):
        wrong.run()


def test_the_recipe_is_the_papers() -> None:
    xe, fcl = EXPERIMENT.methods
    steps = 67_347 // 32
    assert quiet_steps(fcl.objective, 5 * steps) == 5000 and xe.augment == fcl.augment
    assert (fcl.objective.contrast.temperature, fcl.objective.weight.peak, fcl.objective.select.fraction) == (
        0.02,
        0.5,
        0.1,
    )
    assert EXPERIMENT.network.settings["feed_forward"] == 256 and EXPERIMENT.network.settings["heads"] == 8
    assert len(sweeps(EXPERIMENT)["fcl"]) == 9 and set(sweeps(EXPERIMENT)) == set(sweeps(QUICK))
    assert EXPERIMENT.plan.learning_rate.steps == EXPERIMENT.plan.epochs * steps
    assert QUICK.plan.learning_rate.steps == QUICK.plan.epochs * (3200 // 64)


def test_the_recipe_is_no_edge_of_its_sweeps() -> None:
    held = {
        "plan.learning_rate.peak": EXPERIMENT.plan.learning_rate.peak,
        "network.width": EXPERIMENT.network.settings["width"],
        "network.dropout": EXPERIMENT.network.settings["dropout"],
        "augment.share": EXPERIMENT.methods[0].augment.share,
    }
    tried = {**sweeps(EXPERIMENT)["xe"].choices, **sweeps(EXPERIMENT)["xe-regularisation"].choices}
    assert tried.keys() == held.keys()
    assert all(held[path] in values and min(values) < held[path] < max(values) for path, values in tried.items())


def test_phrases_are_drawn_once_and_for_all() -> None:
    some, again, every = Phrases(50)(), Phrases(50)(), Phrases()()
    assert len(some.train) == 50 and np.array_equal(some.train.x, again.train.x) and len(every.train) > 100
    assert every.train.x.dtype == np.int32 and every.num_classes == 2 and len(every.tests["test"](CPU)) == 24


@pytest.mark.parametrize("width", [16, 6])
def test_token_embeddings_may_come_from_a_file(width: int, tmp_path: Path) -> None:
    path, size = tmp_path / "table.safetensors", len(VOCABULARY)
    table = torch.randn(size, width) * 3
    save_file({"embeddings": table, "norm": torch.ones(width), "steps": torch.tensor(3.0)}, path)
    settings = {"num_classes": 2, "vocabulary": size, "width": 16, "heads": 2}
    model = pretrained(Embeddings(str(path)), **settings)
    held = model.token.weight.detach()
    torch.testing.assert_close(held / held.std(), table / table.std())
    assert held.std() == pytest.approx(0.02, rel=0.2)
    assert isinstance(model, Transformer) and model.token.weight.requires_grad
    assert not pretrained(Embeddings(str(path)), trained=False, **settings).token.weight.requires_grad
    assert model(tokens_of(Phrases(8)().train.x)).shape == (8, 2)


def test_a_file_without_a_fitting_table_is_named(tmp_path: Path) -> None:
    settings = {"num_classes": 2, "vocabulary": 19}
    save_file({"a": torch.ones(19, 4), "b": torch.rand(19, 8)}, tmp_path / "two.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"no")
    with pytest.raises(TrainingError, match="must have one table of 19 rows, but has a, b: choose one with tensor="):
        pretrained(Embeddings(str(tmp_path / "two.safetensors")), **settings)
    named = Embeddings(str(tmp_path / "two.safetensors"), tensor="b")
    assert pretrained(named, width=8, **settings).token.weight.shape == (19, 8)
    for name in ("broken.safetensors", "nowhere.safetensors"):
        with pytest.raises(TrainingError, match=f"{name} cannot be read as a safetensors file"):
            pretrained(Embeddings(str(tmp_path / name)), **settings)
    for value in (0.0, float("nan")):
        save_file({"a": torch.full((19, 4), value)}, tmp_path / "bad.safetensors")
        with pytest.raises(
            TrainingError, match=r"table a of .*bad.safetensors is all zeros or has values that are not finite"
        ):
            pretrained(Embeddings(str(tmp_path / "bad.safetensors")), **settings)


def test_a_recipe_knows_embeddings_by_their_content(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    one, moved, other = tmp_path / "one", tmp_path / "elsewhere" / "one", tmp_path / "other"
    save_file({"a": torch.ones(19, 4)}, one)
    save_file({"a": torch.ones(19, 4)}, moved)
    save_file({"a": torch.rand(19, 4)}, other)
    first, same, changed = (repr(Build(pretrained, embeddings=Embeddings(str(p)))) for p in (one, moved, other))
    assert first == same != changed and str(tmp_path) not in first


@pytest.mark.parametrize("command", ["reproduce", "sweep"])
def test_missing_data_are_one_sentence(command: str, tmp_path: Path, monkeypatch, capsys) -> None:
    from poise.cli import main as cli

    monkeypatch.setenv("POISE_DATA", str(tmp_path / "nowhere"))
    words = ["poise", command, "sentiment", "--quick", "--out", str(tmp_path / "runs"), "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as end:
        cli.run()
    said = str(end.value.code)
    assert said.startswith("poise: not in") and said.endswith("poise data get sst sst2 bert-vocab")
