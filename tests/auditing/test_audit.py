"""poise.audit: what it leaves alone, what it takes, what it writes, and how it stops."""

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from auditing.planted import batches, linear, plain_rows
from toys import BagOfWords, ConvNet, same_state, sentences, state_of

import poise
from poise.auditing.compare import compare, read_condition
from poise.auditing.verdict import confusions
from poise.errors import RecordError
from poise.inputs.examples import batches as read
from poise.inputs.examples import kind_of, sample_size
from poise.reporting.audit_page import load_audit


def pictures(count: int, channels: int = 3) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.rand(count, channels, 20, 20), torch.arange(count) % 4)]


def small(model: torch.nn.Module, data: object, **settings: object) -> poise.Audit:
    few = {
        "corruptions": ["gaussian_noise", "fog"],
        "severities": [1, 5],
        "strengths": (0.2,),
        "probes": 4,
        "examples": 24,
    }
    return poise.audit(model, data, **{**few, **settings})


def test_measuring_changes_nothing() -> None:
    model = ConvNet(dropout=0.5).train()
    before = state_of(model)
    small(model, pictures(24))
    assert same_state(before, state_of(model))


def test_the_same_seed_gives_the_same_numbers_and_another_does_not() -> None:
    model, data = ConvNet(), pictures(24)
    one, again, other = (small(model, data, seed=seed).facts["numbers"] for seed in (0, 0, 1))
    assert one == again and one != other


@pytest.mark.parametrize("channels", [1, 3])
def test_noise_and_corruptions_do_not_depend_on_the_batches(channels: int) -> None:
    torch.manual_seed(0)
    model = ConvNet(channels)
    ((x, y),) = pictures(24, channels)
    whole = small(model, [(x, y)], probes=None)
    parts = small(model, list(zip(x.split(7), y.split(7), strict=True)), probes=None, memory=1)
    for name in ("near_gain", "rank_correlation", "gaussian_noise_accuracy"):
        assert parts[name] == pytest.approx(whole[name], rel=1e-4)


def test_corrupted_accuracy_is_that_of_evaluate() -> None:
    model = ConvNet()
    ((x, y),) = pictures(24)
    found = small(model, [(x, y)])
    theirs = poise.evaluate(model, (x, y), corruptions=["gaussian_noise", "fog"], severities=[1, 5], profile="cifar")
    for name in ("gaussian_noise", "fog"):
        assert found[f"{name}_accuracy"] == pytest.approx(theirs.of(name))
    assert found["accuracy"] == pytest.approx(theirs.clean)


def test_any_classifier_is_split() -> None:
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(1200, 6), torch.nn.ReLU(), torch.nn.Linear(6, 4))
    found = small(network, pictures(24), probes=16)
    assert found.facts["model"]["embedding"] == 6 and found.facts["estimator"]["probes"] is None  # exact is cheaper


def test_tokens_and_dicts() -> None:
    model, x = BagOfWords(), sentences([6, 9, 4, 8] * 6, special=True)
    y = torch.arange(24) % 3
    found = poise.audit(model, [(x, y, {"site": ["a", "b"] * 12})], names=poise.Names(decode=lambda n: f"w{n}"))
    assert found.facts["data"]["kind"] == "tokens" and found["reliability"] == 1.0
    assert {entry["column"] for entry in found.facts["slices"]} == {"class", "site"}
    assert all(word.startswith("w") for word in found.facts["telling"][0]["words"])
    as_dict = {"input_ids": x.ids, "attention_mask": x.mask, "special_tokens_mask": x.special, "labels": y}
    assert poise.audit(model, [as_dict]).facts["numbers"] == found.facts["numbers"]


def test_the_gain_of_adding_up_words_is_neutral() -> None:
    """phi is the sum of the words' embeddings: taking any of them out is like taking any other."""
    torch.manual_seed(0)
    model = BagOfWords(vocabulary=400, width=64)
    model.head.weight.data *= 0
    model.head.bias = torch.nn.Parameter(torch.zeros(3))
    words = torch.randint(1, 400, (60, 40))
    found = poise.audit(model, [(poise.Tokens(words, torch.ones_like(words).bool()), torch.arange(60) % 3)])
    assert found["near_gain"] == pytest.approx(1, abs=0.1) and found["far_gain"] == pytest.approx(1, abs=0.1)


def test_ctrl_c_gives_what_was_measured() -> None:
    def stop(_: str, done: int, total: int) -> None:
        if done >= 128:
            raise KeyboardInterrupt

    found = poise.audit(linear(), batches(*plain_rows(300)), examples=300, progress=stop)
    assert not found.facts["complete"] and found.facts["examples"] == 128
    whole = poise.audit(linear(), batches(*plain_rows(300)), examples=128)
    assert found.facts["numbers"] == whole.facts["numbers"]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ([], "no examples"),
        ([torch.rand(3, 50)], "batches must be"),
        ([(torch.rand(3, 50), torch.rand(3))], "numbers of classes"),
        ([(torch.rand(3, 50), torch.zeros(2).long())], "3 examples"),
        ([(torch.rand(3, 50), torch.zeros(3).long(), {"site": ["a"]})], "1 values for 3"),
        ([{"input_ids": torch.ones(2, 3).long()}], "no labels"),
        ([(torch.rand(3, 50), torch.full((3,), 7))], "out of range"),
    ],
)
def test_bad_batches_get_a_sentence(data: list, sentence: str) -> None:
    with pytest.raises((TypeError, ValueError), match=sentence):
        poise.audit(linear(), data)


def test_bad_settings_get_a_sentence() -> None:
    for settings in ({"corruptions": "some"}, {"corruptions": ["smoke"]}, {"strengths": (0.0,)}, {"examples": 1}):
        with pytest.raises(ValueError, match=r"must be|no corruption"):
            poise.audit(ConvNet(), pictures(8), **settings)


def test_what_is_written(tmp_path: Path) -> None:
    found = small(ConvNet(), pictures(24), names=poise.Names("a <b>", "toy", ["w", "x", "y", "z"]))
    page = found.save(tmp_path / "new" / "audit")
    assert json.loads((page.parent / "audit.json").read_text()) == found.facts
    rows = (page.parent / "examples.csv").read_text().splitlines()
    assert len(rows) == 25 and rows[0].startswith("example,source,label,predicted,confidence,observed_rank_correlation")
    markup = page.read_text()
    ElementTree.fromstring(markup.split("\n", 1)[1])
    assert "a &lt;b&gt;" in markup and "http" not in markup.replace("http-equiv", "") and "<script" not in markup
    assert {*(p.name for p in page.parent.iterdir())} == {"audit.json", "examples.csv", "telling.npz", "index.html"}
    again = load_audit(page.parent)
    assert again.facts == found.facts and np.array_equal(again.arrays["u_0"], found.arrays["u_0"])
    (page.parent / "audit.json").write_text("{")
    with pytest.raises(RecordError, match="cut short"):
        load_audit(page.parent)


def test_an_audit_that_was_killed_between_its_moves_is_completed_or_refused(tmp_path: Path) -> None:
    old, new = (small(ConvNet(), pictures(24), names=poise.Names(name)) for name in ("old", "new"))
    home = tmp_path / "audit"
    old.save(home)
    new.save(home / ".poise-0123.part" / "whole")
    assert load_audit(home).name == "new"
    assert {*(p.name for p in home.iterdir())} == {"audit.json", "examples.csv", "telling.npz", "index.html"}
    old.save(home / ".poise-0123.part" / "whole")
    (home / "index.html").unlink()
    (home / "index.html").mkdir()
    with pytest.raises(RecordError, match=r"audit holds files of two audits: .* run that audit again"):
        load_audit(home)


def test_two_models_are_compared_in_pairs(tmp_path: Path) -> None:
    from scipy import stats

    data = batches(*plain_rows(200, 3))
    worse = linear()
    worse.body.weight.data[0, :6] = 0.02
    one, other = (poise.audit(model, data, examples=200) for model in (linear(), worse))
    found = compare(one, other)
    gap = found.differences["accuracy"]
    lost, won = ((other.table.right < one.table.right).sum(), (other.table.right > one.table.right).sum())
    theirs = stats.binomtest(int(lost), int(lost + won))
    assert gap["mean"] == pytest.approx(other["accuracy"] - one["accuracy"]) and gap["significant"]
    assert gap["p"] == pytest.approx(theirs.pvalue) and gap["holm"] >= gap["p"]
    same = compare(one, one).differences
    assert all(row["mean"] == 0 and not row["significant"] for row in same.values())
    page = found.save(tmp_path).read_text()
    ElementTree.fromstring(page.split("\n", 1)[1])
    sentence = found.facts["sentence"]
    assert sentence.startswith("Planted is worse in accuracy with random features perturbed (-22 points [-29, -15])")
    assert gap["better"] == 1 and str(compare(other, one)).startswith("Planted is better in accuracy with random")
    assert "do not differ significantly" in compare(one, one).sentence
    assert "Which model is better at what" in page and "the second minus the first" in str(found)
    elsewhere = poise.audit(linear(), batches(*plain_rows(200, 4)), examples=200)
    with pytest.raises(ValueError, match="different examples"):
        compare(one, elsewhere)


def test_conditions() -> None:
    facts = poise.audit(linear(), batches(*plain_rows(100))).facts
    accuracy = facts["numbers"]["accuracy"]["value"]
    assert read_condition(f"accuracy<{accuracy + 0.01}").holds(facts)
    assert not read_condition(f"accuracy < {accuracy}").holds(facts)
    assert read_condition(f"accuracy.high>={accuracy}").holds(facts)
    assert read_condition("verdict=no weakness found").holds(facts)
    assert not read_condition("verdict=breaks").holds(facts)
    with pytest.raises(ValueError, match="was not measured: choose one of accuracy"):
        read_condition("noise_accuracy<0.6").holds(facts)
    for wrong in ("accuracy", "accuracy<<1", "accuracy<.", "verdict=good"):
        with pytest.raises(ValueError, match=r"condition|verdict must be one of"):
            read_condition(wrong)


class Dead(torch.nn.Module):
    """phi(x) = 0."""

    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(4, 2)

    def embed(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :4] * 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.embed(x))


@pytest.mark.parametrize(("count", "name"), [(2, "undecided"), (40, "mismatch")])
def test_a_dead_model_and_two_examples_have_no_other_answer(count: int, name: str, tmp_path: Path) -> None:
    found = poise.audit(Dead(), [(torch.rand(count, 10), torch.arange(count) % 2)])
    assert found.names == (name,) and found.facts["numbers"]["near_gain"]["value"] is None
    assert found.save(tmp_path).is_file()


def test_sentences_of_one_word_have_no_contrast(tmp_path: Path) -> None:
    ids = torch.randint(1, 20, (6, 1))
    found = poise.audit(BagOfWords(), [(poise.Tokens(ids, torch.ones_like(ids)), torch.arange(6) % 3)])
    assert found.names == ("undecided",) and "6 examples have no rank correlation" in found.facts["notes"][-1]
    assert found.save(tmp_path).is_file()


def test_a_class_that_is_taken_for_another() -> None:
    labels, predicted = np.repeat([0, 1, 2], 20), np.repeat([0, 1, 1], 20)
    (found,) = confusions(labels, predicted)
    assert (found.label, found.taken_for, found.count, found.of) == (2, 1, 20, 20)
    assert found.p == pytest.approx(3 * 0.5**20)
    assert confusions(labels, np.tile([0, 1, 2], 20)) == []
    assert confusions(np.repeat([0, 1], 30), np.zeros(60)) == []  # of two classes it may be a preference


def test_logits_that_are_not_finite_are_a_sentence() -> None:
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 8), torch.nn.ReLU(), torch.nn.Linear(8, 10))
    torch.nn.init.constant_(network[3].weight, torch.nan)
    with pytest.raises(ValueError, match="logits are not finite"):
        poise.audit(network, [(torch.rand(20, 1, 8, 8), torch.randint(10, (20,)))], corruptions="none")


def test_the_usual_sample_is_smaller_where_a_cpu_takes_long() -> None:
    pictures, table = torch.rand(2, 3, 8, 8), torch.rand(2, 5)
    text = poise.Tokens(torch.ones(2, 4, dtype=torch.int64), torch.ones(2, 4, dtype=torch.bool))
    for x, on_a_cpu in ((pictures, 100), (text, 300), (table, 1000)):
        assert sample_size(kind_of(x), torch.device("cpu")) == on_a_cpu
        assert sample_size(kind_of(x), torch.device("cuda")) == 1000
    many = ((torch.rand(80, 1, 4, 4), torch.zeros(80, dtype=torch.int64)) for _ in range(5))
    assert [len(batch) for batch in read(many, torch.device("cpu"), None)] == [80, 20]


def test_a_number_that_was_not_measured_is_told_with_those_that_were() -> None:
    loader = [(torch.rand(20, 1, 8, 8), torch.arange(20) % 2)]
    found = poise.audit(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2)), loader, corruptions="none")
    with pytest.raises(KeyError, match="'noise_accuracy' was not measured: choose one of accuracy, calibration_error"):
        found["noise_accuracy"]
