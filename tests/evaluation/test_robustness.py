"""A classifier's table in one call."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from reference_draws import synthetic_images
from torch import Tensor, nn

import poise
from poise import corrupt, evaluate
from poise.corruptions.protocols import CORRUPTIONS, GROUPS, STANDARD
from poise.data.sets import cache
from poise.errors import DataNotFound
from poise.evaluation.robustness import show_corrupted

IMAGES = synthetic_images(32, 40)
LABELS = (IMAGES[:, 0].float().mean((1, 2)) > IMAGES[:, 0].float().mean()).long()


class Threshold(nn.Module):
    """Looks at the mean of the first channel alone."""

    def __init__(self) -> None:
        super().__init__()
        self.level = nn.Parameter(IMAGES[:, 0].float().mean() / 255)
        self.drop = nn.Dropout(0.9)
        self.seen: list[tuple[bool, bool, float]] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append((self.training, torch.is_grad_enabled(), float(x.max())))
        score = self.drop(x)[:, 0].mean((1, 2)) - self.level
        return torch.stack([-score, score], dim=1)


def test_the_numbers_are_those_of_a_plain_loop() -> None:
    model = Threshold()
    result = evaluate(model, (IMAGES, LABELS), corruptions=["fog", "contrast"], severities=[2, 5], batch_size=7, seed=3)
    assert result.clean == 1
    model.eval()
    for name in ("fog", "contrast"):
        for severity in (2, 5):
            with torch.no_grad():
                guesses = model(corrupt(IMAGES, name, severity, seed=3) / 255).argmax(1)
            assert result.accuracy[name][severity] == (guesses == LABELS).double().mean()


def test_classes_and_pairs_are_those_of_a_plain_loop() -> None:
    model, inverted = Threshold(), 255 - IMAGES
    few = {"corruptions": ["fog", "contrast"], "severities": [2, 5], "seed": 3}
    result = evaluate(model, (IMAGES, LABELS), rare=[1], twins=(inverted, 1 - LABELS), batch_size=7, **few)
    model.eval()
    right = {"own": [], "twin": []}
    for name in few["corruptions"]:
        for severity in few["severities"]:
            for images, labels, kind in ((IMAGES, LABELS, "own"), (inverted, 1 - LABELS, "twin")):
                with torch.no_grad():
                    right[kind].append(model(corrupt(images, name, severity, seed=3) / 255).argmax(1) == labels)
    own, twin = torch.stack(right["own"]), torch.stack(right["twin"])
    for label in (0, 1):
        assert result.classes[label] == pytest.approx((1.0, float(own[:, label == LABELS].float().mean())))
    assert result.pairs[1] == pytest.approx(float((own & twin).float().mean()))
    assert result.halves()["rare classes"] == result.classes[1]
    assert result.halves()["worst class"][1] == min(noisy for _, noisy in result.classes.values())
    assert "pairs, corrupted" in str(result) and result.as_dict()["halves"]["pairs"] == list(result.pairs)


def test_rare_classes_and_twins_that_cannot_be_are_refused() -> None:
    call = {"corruptions": ["fog"], "severities": [1]}
    with pytest.raises(ValueError, match=r"rare=\(2,\): no label is 2"):
        evaluate(Threshold(), (IMAGES, LABELS), rare=[2], **call)
    with pytest.raises(ValueError, match="twins must have one image for each of the 40 images, got 39"):
        evaluate(Threshold(), (IMAGES, LABELS), twins=(IMAGES[1:], LABELS[1:]), **call)
    with pytest.raises(ValueError, match="twins need data as a pair of tensors"):
        evaluate(Threshold(), "cifar10-c", twins=(IMAGES, LABELS), source="generated", **call)
    with pytest.raises(TypeError, match="twins must be a pair of tensors"):
        evaluate(Threshold(), (IMAGES, LABELS), twins=IMAGES, **call)


def test_measuring_changes_nothing() -> None:
    model = Threshold()
    model.drop.eval()
    evaluate(model, (IMAGES, LABELS), corruptions=["fog"], severities=[1])
    assert model.training and not model.drop.training and model.level.grad is None
    assert all(seen[:2] == (False, False) and seen[2] <= 1 for seen in model.seen)


def test_averages_are_named_by_what_they_hold() -> None:
    accuracy = {name: {1: i / 100, 2: i / 50} for i, name in enumerate(CORRUPTIONS)}
    result = poise.Robustness("cifar10-c", 10, "generated with seed 0 as by the libraries of 2018", 0.9, accuracy)
    means = {name: (i / 100 + i / 50) / 2 for i, name in enumerate(CORRUPTIONS)}
    assert result.averages()["noise"] == pytest.approx(sum(means[n] for n in GROUPS["noise"]) / 3)
    assert result.averages()["all 15"] == pytest.approx(sum(means[n] for n in STANDARD) / 15)
    assert result.averages()["all 19"] == pytest.approx(sum(means.values()) / 19)
    assert json.loads(json.dumps(result.as_dict()))["accuracy"]["fog"]["2"] == accuracy["fog"][2]
    text = str(result)
    assert "all 15" in text and "all 19" in text and len(text.splitlines()) == 3 + 19 + 6


def test_what_was_not_measured_is_not_averaged() -> None:
    result = evaluate(Threshold(), (IMAGES, LABELS), corruptions=GROUPS["noise"], severities=[1])
    assert set(result.averages()) == {"noise"}


def fill_cache(root: Path, published: bool) -> None:
    clean = IMAGES[:20].permute(0, 2, 3, 1).numpy()
    arrays = [("test_x", clean), ("test_y", LABELS[:20].numpy().astype(np.uint8))]
    cache.store("cifar10", arrays, "here", {})
    if published:
        fog = np.zeros((50_000, 32, 32, 3), dtype=np.uint8)
        fog[10_000:10_020] = clean
        labels = np.ones(50_000, dtype=np.uint8)  # at other severities no answer is right: all is black
        labels[10_000:10_020] = LABELS[:20].numpy()
        cache.store("cifar10-c", [("fog", fog), ("labels", labels)], "here", {})


def test_cifar10_c_is_generated_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POISE_DATA", str(tmp_path))
    fill_cache(tmp_path, published=False)
    named = evaluate(Threshold(), "cifar10-c", corruptions=["fog"])
    given = evaluate(Threshold(), (IMAGES[:20], LABELS[:20]), corruptions=["fog"])
    assert (
        named.accuracy == given.accuracy
        and named.source == "generated with seed 0 as by the libraries of 2018"
        and named.examples == 20
    )


def test_published_files_are_used_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POISE_DATA", str(tmp_path))
    fill_cache(tmp_path, published=True)
    result = evaluate(Threshold(), "cifar10-c", corruptions=["fog"], severities=[2], limit=20)
    assert result.source == "the published files" and result.accuracy["fog"][2] == 1
    others = evaluate(Threshold(), "cifar10-c", corruptions=["fog"], severities=[1, 3, 4, 5], limit=20)
    assert set(others.accuracy["fog"].values()) == {0}
    generated = evaluate(Threshold(), "cifar10-c", corruptions=["fog"], severities=[2], limit=20, source="generated")
    assert (
        generated.source == "generated with seed 0 as by the libraries of 2018"
        and generated.accuracy != result.accuracy
    )


def test_a_model_of_other_data_is_refused_at_once() -> None:
    model = Threshold()
    with pytest.raises(ValueError, match="label 2 is out of range: the model has 2 classes"):
        evaluate(model, (IMAGES[:20], LABELS[:20] + 1), corruptions=["fog"])
    assert len(model.seen) == 1


def test_the_pictures_are_shown_as_they_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POISE_DATA", str(tmp_path))
    fill_cache(tmp_path, published=True)
    for source, origin in (
        ("auto", "the published files"),
        ("generated", "generated with seed 0 as by the libraries of 2018"),
    ):
        show, found = show_corrupted("cifar10-c", 20, torch.device("cpu"), source)
        images, labels = show("fog", 2)
        result = evaluate(Threshold(), "cifar10-c", corruptions=["fog"], severities=[2], limit=20, source=source)
        right = (Threshold().eval()(images / 255).argmax(1) == labels).float().mean()
        assert found == origin == result.source and len(labels) == 20
        assert float(right) == pytest.approx(result.accuracy["fog"][2])


@pytest.mark.parametrize("change", [{"seed": 1}, {"jpeg": 85}, {"profile": "cifar"}, {"libraries": "today"}])
def test_published_files_have_no_settings(change: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POISE_DATA", str(tmp_path))
    fill_cache(tmp_path, published=True)
    with pytest.raises(ValueError, match=r"do not apply to the published files: .* pass source='generated'"):
        evaluate(Threshold(), "cifar10-c", corruptions=["fog"], **change)
    evaluate(Threshold(), "cifar10-c", corruptions=["fog"], severities=[1], source="generated", **change)


def test_the_libraries_are_passed_on() -> None:
    for libraries in ("2018", "today"):
        model = Threshold()
        evaluate(model, (IMAGES, LABELS), corruptions=["snow"], severities=[1], libraries=libraries)
        means = []
        evaluate(
            lambda x: means.append(x.mean()) or torch.zeros(len(x), 2),  # noqa: B023
            (IMAGES, LABELS),
            corruptions=["snow"],
            severities=[1],
            libraries=libraries,
        )
        assert means[1] == (corrupt(IMAGES, "snow", 1, libraries=libraries).float() / 255).mean()


def test_iterators_are_used_up_once() -> None:
    result = evaluate(Threshold(), (IMAGES, LABELS), corruptions=iter(["fog", "snow"]), severities=iter([1, 2, 1]))
    assert {name: list(row) for name, row in result.accuracy.items()} == {"fog": [1, 2], "snow": [1, 2]}


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"batch_size": 0}, ValueError, "batch_size=0 must be a whole number of 1 or more"),
        ({"limit": 0}, ValueError, "limit=0 must be a whole number of 1 or more"),
        ({"limit": -1}, ValueError, "limit=-1 must be a whole number of 1 or more"),
        ({"limit": "3", "twins": (IMAGES, LABELS)}, ValueError, "limit='3' must be a whole number of 1 or more"),
        ({"severities": []}, ValueError, "corruptions and severities must have at least one"),
        ({"corruptions": iter(())}, ValueError, "corruptions and severities must have at least one"),
        ({"severities": [2.0]}, ValueError, "severity=2.0 must be 1, 2, 3, 4 or 5"),
        ({"seed": None}, ValueError, "seed=None must be a whole number"),
        ({"jpeg": 0}, ValueError, "quality=0 must be from 1 to 100"),
        ({"source": "official"}, ValueError, "source='official' needs data='cifar10-c' or 'cifar100-c'"),
        ({"data": (IMAGES.numpy(), LABELS.numpy())}, TypeError, "pair of tensors.*; got ndarray, ndarray"),
        ({"data": IMAGES}, TypeError, "pair of tensors.*; got Tensor"),
        ({"data": (IMAGES.long(), LABELS)}, ValueError, r"images must be uint8 or floats in \[0, 1\].*got torch.int64"),
        (
            {"data": (IMAGES.permute(0, 2, 3, 1), LABELS)},
            ValueError,
            r"\[N, 3, H, W\], got torch.uint8 \[40, 32, 32, 3",
        ),
        (
            {"data": (IMAGES, LABELS.float())},
            ValueError,
            r"labels must be whole numbers \[N\], got torch.float32 \[40\]",
        ),
        ({"data": (IMAGES[..., :15, :], LABELS), "profile": "cifar"}, ValueError, "at least 16 x 16 pixels"),
        ({"data": (IMAGES[..., :20], LABELS)}, ValueError, "no profile exists for 32 x 20 pixels"),
    ],
)
def test_nothing_is_measured_for_a_wrong_call(change: dict, error: type[Exception], sentence: str) -> None:
    model = Threshold()
    call = {"data": (IMAGES, LABELS), "corruptions": ["fog"], **change}
    with pytest.raises(error, match=sentence):
        evaluate(model, **call)
    assert model.seen == []


def test_models_that_do_not_fit_are_named() -> None:
    pair = (IMAGES, LABELS)
    with pytest.raises(TypeError, match=r"must return logits \[N, L\], got dict"):
        evaluate(lambda x: {"logits": x}, pair)
    linear = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 2)).double()
    with pytest.raises(TypeError, match=r"weights are torch.float64, the images torch.float32: use model.float\(\)"):
        evaluate(linear, pair)
    evaluate(linear, (IMAGES.double() / 255, LABELS), corruptions=["fog"], severities=[1])


def test_progress_counts_settings() -> None:
    seen: list[tuple[str, int, int]] = []
    evaluate(
        Threshold(),
        (IMAGES, LABELS),
        corruptions=["fog", "frost"],
        severities=[1, 2],
        progress=lambda *s: seen.append(s),
    )
    assert seen == [("fog", 0, 4), ("fog", 1, 4), ("frost", 2, 4), ("frost", 3, 4)]


def test_wrong_calls_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POISE_DATA", str(tmp_path))
    model = Threshold()
    with pytest.raises(DataNotFound, match="poise data get cifar10"):
        evaluate(model, "cifar10-c")
    with pytest.raises(ValueError, match="data='cifar11-c' must be one of"):
        evaluate(model, "cifar11-c")
    with pytest.raises(ValueError, match="did you mean 'snow'"):
        evaluate(model, (IMAGES, LABELS), corruptions=["snoww"])
    with pytest.raises(ValueError, match="labels must have one entry for each of the 40 images, got 3"):
        evaluate(model, (IMAGES, LABELS[:3]))
    with pytest.raises(ValueError, match=r"must return logits \[N, L\]"):
        evaluate(lambda x: x.mean((1, 2, 3)), (IMAGES, LABELS), corruptions=["fog"])


def test_one_logit_says_class_1_above_0() -> None:
    level = IMAGES[:, 0].float().mean() / 255

    def model(x: Tensor) -> Tensor:
        return (x[:, 0].mean((1, 2)) - level)[:, None]

    def both(x: Tensor) -> Tensor:
        return torch.stack([torch.zeros(len(x)), model(x)[:, 0]], 1)

    few = {"corruptions": ("fog", "contrast"), "severities": (1, 5)}
    assert evaluate(model, (IMAGES, LABELS), **few) == evaluate(both, (IMAGES, LABELS), **few)
    with pytest.raises(ValueError, match="label 2 is out of range: the model has 2 classes"):
        evaluate(model, (IMAGES, LABELS + 1), **few)
